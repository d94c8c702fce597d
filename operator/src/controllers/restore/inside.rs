//! Looks which volumes and snapshots of the tenant namespace a tenant cluster that was brought back knows, and deletes those
//! that are to go.
//!
//! Nobody who runs beside the tenant cluster has its PersistentVolumes and VolumeSnapshotContents but the stock sidecars, so
//! the operator lists them itself, and only while a Restore is not over: nothing is watched for it. Snapshots are looked for
//! where tenant clusters are offered any.
//! Invariant: a list that is not whole is none; of what the tenant cluster answers bounded names are kept; a claim or a
//! snapshot goes only as it was seen, so that one that was attached since stays.

use std::collections::BTreeSet;
use std::fmt::Debug;

use api::names::{
    ANNOTATION_ATTACH_TO, ANNOTATION_ATTACHED_TO, ANNOTATION_TENANT_CLAIM, ANNOTATION_VOLUME_NAME,
    COMPONENT_SNAPSHOT, COMPONENT_VOLUME, LABEL_COMPONENT, LABEL_TENANT_UID, SNAPSHOT_PREFIX,
    VOLUME_PREFIX,
};
use api::{Restore, TenantCluster};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kit_client::errors::{Class, Classify as _, chain};
use kit_client::untyped;
use kit_client::write::{self, Deletion};
use kit_objects::kinds;
use kube::api::{DynamicObject, ListParams, PropagationPolicy};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tenant_cp::addons::VOLUME_DRIVER;

use crate::context::Context;
use crate::controllers::tenant_backup::error::Error;
use crate::restoring::snapshots::{self, Content, Snapshot};
use crate::restoring::volumes::{Goes, Known, Listed, Seen, Volume};
use crate::state;
use crate::status::one_line;
use crate::tenant_session::budget::{Budget, Exceeded};

/// Objects of the management cluster of one page.
const OUTSIDE: u32 = 500;
/// Most pages: more volumes than a tenant cluster may have.
const OUTSIDE_PAGES: usize = 20;
/// Objects of the tenant cluster of one page: with what is written beside a PersistentVolume less than a mebibyte.
const INSIDE: u32 = 250;
/// Claims and snapshots that are deleted in one reconcile; the next one is soon.
const MOST_DELETIONS: usize = 100;

const SILENT: &str = "the tenant cluster's API does not say now which volumes it knows (why is in the operator's log)";
const TOO_MANY: &str = "the tenant cluster has more PersistentVolumes, claims, snapshots and their contents, than are read \
    at a time (4000), so it is not known which volumes it knows: delete there what is not needed, or delete this Restore";
const TOO_MANY_OUTSIDE: &str = "the tenant namespace has more than 10000 volumes or snapshots, so it is not known which of \
    them the tenant cluster knows";
const NO_KIND_OUTSIDE: &str = "the management cluster does not serve VolumeSnapshots, though a class of storage has \
    snapshots (config.storage), so it is not known which the tenant cluster knows: install them, or delete this Restore";
const NO_KIND_INSIDE: &str = "there are snapshots, and the tenant cluster does not serve VolumeSnapshotContents, so it is \
    not known which snapshots it knows: switch spec.addons.csi on, or set spec.orphans to Keep";

/// Lists them.
///
/// # Errors
/// [`Error::Read`] of what the management cluster says. That the tenant cluster does not answer is no error.
pub(super) async fn list(
    ctx: &Context,
    restore: &Restore,
    cluster: &TenantCluster,
    ns: &str,
) -> Result<Listed, Error> {
    let uid = cluster.identity_uid();
    let Some(volumes) = volumes(ctx, ns, uid).await? else {
        return Ok(Err(TOO_MANY_OUTSIDE));
    };
    let has_snapshots = ctx.settings.storage.has_snapshots();
    let cut = match has_snapshots {
        true => snapshots(ctx, ns, uid).await?,
        false => Ok(Vec::new()),
    };
    let cut = match cut {
        Ok(cut) => cut,
        Err(why) => return Ok(Err(why)),
    };
    let budget = ctx.budget();
    let Some(tenant) = ctx.tenants.client(uid, &budget) else {
        return Ok(Err(SILENT));
    };
    let object = state::key_of(restore);
    let may = ctx.recovery_probes.silence(uid).is_none()
        && ctx.cluster_bulkhead.lets(uid, &object, &budget);
    if !may {
        return Ok(Err(SILENT));
    }
    let asked = ask(&tenant.client, &budget, has_snapshots);
    let asked = budget.within(Box::pin(asked)).await;
    let Answer {
        requests,
        known,
        of_snapshots,
    } = match asked.unwrap_or_else(|error| Err(error.into())) {
        Ok(answer) => answer,
        Err(unread) => {
            let why = unread.why();
            tracing::info!(
                restore.name = restore.name_any(),
                restore.namespace = restore.namespace().unwrap_or_default(),
                error = chain(&unread),
                why,
                "it is not known which volumes the tenant cluster knows"
            );
            return Ok(Err(why));
        }
    };
    let (wanted, contents) = match of_snapshots {
        Some(of_snapshots) => of_snapshots,
        // Those of a moment without snapshots, or of a tenant cluster whose driver is off, are none where there are none.
        None if cut.is_empty() => (BTreeSet::new(), Vec::new()),
        None => return Ok(Err(NO_KIND_INSIDE)),
    };
    let mut seen = Seen {
        volumes,
        requests,
        known,
        later: BTreeSet::new(),
        snapshots: snapshots::Seen {
            snapshots: cut,
            requests: wanted,
            contents,
            later: BTreeSet::new(),
        },
    };
    if !seen.missing().is_empty() {
        // One that was made meanwhile points somewhere.
        let Some(again) = self::volumes(ctx, ns, uid).await? else {
            return Ok(Err(TOO_MANY_OUTSIDE));
        };
        let again = again.into_iter().filter(|volume| !volume.is_lost);
        seen.later = again.map(|volume| volume.name).collect();
    }
    if !seen.snapshots.missing().is_empty() {
        let again = match snapshots(ctx, ns, uid).await? {
            Ok(again) => again,
            Err(why) => return Ok(Err(why)),
        };
        seen.snapshots.later = again.into_iter().map(|cut| cut.name).collect();
    }
    Ok(Ok(seen))
}

/// Claims of the tenant namespace that are volumes; none where there are too many of them.
async fn volumes(ctx: &Context, ns: &str, uid: &str) -> Result<Option<Vec<Volume>>, Error> {
    let claims = Api::<PersistentVolumeClaim>::namespaced(ctx.client.clone(), ns);
    let found = outside(&claims, COMPONENT_VOLUME, uid, volume).await;
    found.map_err(|source| Error::Read {
        what: "volumes of the tenant namespace",
        source: Box::new(source),
    })
}

/// VolumeSnapshots of the tenant namespace that are snapshots of the tenant cluster; or why they are not known.
async fn snapshots(
    ctx: &Context,
    ns: &str,
    uid: &str,
) -> Result<Result<Vec<Snapshot>, &'static str>, Error> {
    let cut = untyped::of(kinds::VOLUME_SNAPSHOT, &ctx.client, Some(ns));
    match outside(&cut, COMPONENT_SNAPSHOT, uid, snapshot).await {
        Ok(found) => Ok(found.ok_or(TOO_MANY_OUTSIDE)),
        Err(error) if is_absent(&error) => Ok(Err(NO_KIND_OUTSIDE)),
        Err(source) => Err(Error::Read {
            what: "snapshots of the tenant namespace",
            source: Box::new(source),
        }),
    }
}

/// Objects of the tenant namespace; none where there are too many of them.
async fn outside<K, T>(
    objects: &Api<K>,
    component: &str,
    uid: &str,
    read: impl Fn(&K) -> Option<T>,
) -> Result<Option<Vec<T>>, kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    let labels = format!("{LABEL_COMPONENT}={component},{LABEL_TENANT_UID}={uid}");
    let mut params = ListParams::default().labels(&labels).limit(OUTSIDE);
    let mut found = Vec::new();
    for _ in 0..OUTSIDE_PAGES {
        let page = objects.list(&params).await?;
        found.extend(page.items.iter().filter_map(&read));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Whether an API says that it has no such kind.
fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

fn volume(claim: &PersistentVolumeClaim) -> Option<Volume> {
    let name = claim.name_any();
    let asked_as = name.strip_prefix(VOLUME_PREFIX)?.to_owned();
    let annotation = |key: &str| claim.annotations().get(key).map_or("", String::as_str);
    let text = |key: &str| Some(annotation(key)).filter(|text| !text.is_empty());
    let phase = claim.status.as_ref().and_then(|s| s.phase.as_deref());
    let created = claim.metadata.creation_timestamp.as_ref();
    let source = claim.spec.as_ref().and_then(|s| s.data_source.as_ref());
    let source = source.filter(|source| source.kind == kinds::VOLUME_SNAPSHOT.kind);
    Some(Volume {
        uid: claim.uid()?,
        version: claim.resource_version()?,
        created: created.map(|time| time.0),
        asked_as: text(ANNOTATION_VOLUME_NAME).map_or(asked_as, str::to_owned),
        made_for: text(ANNOTATION_TENANT_CLAIM).map(|text| one_line(text, 320)),
        is_attached: [ANNOTATION_ATTACH_TO, ANNOTATION_ATTACHED_TO]
            .into_iter()
            .any(|key| text(key).is_some()),
        is_going: claim.metadata.deletion_timestamp.is_some(),
        is_lost: phase == Some("Lost"),
        made_of: source
            .filter(|_| phase != Some("Bound"))
            .map(|source| source.name.clone()),
        name,
    })
}

fn snapshot(object: &DynamicObject) -> Option<Snapshot> {
    let name = object.name_any();
    let asked_as = name.strip_prefix(SNAPSHOT_PREFIX)?;
    let written = object.annotations().get(ANNOTATION_VOLUME_NAME);
    let volume = &object.data["spec"]["source"]["persistentVolumeClaimName"];
    let created = object.metadata.creation_timestamp.as_ref();
    Some(Snapshot {
        uid: object.uid()?,
        version: object.resource_version()?,
        created: created.map(|time| time.0),
        asked_as: written
            .filter(|text| !text.is_empty())
            .map_or_else(|| asked_as.to_owned(), Clone::clone),
        volume: volume.as_str().unwrap_or_default().to_owned(),
        is_going: object.metadata.deletion_timestamp.is_some(),
        name,
    })
}

/// What the tenant cluster did not say.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
    #[error("list {what} of the tenant cluster")]
    List {
        what: &'static str,
        source: Box<kube::Error>,
    },
}

impl Unread {
    fn why(&self) -> &'static str {
        match self {
            Self::Exceeded(Exceeded::Items { .. } | Exceeded::Requests(_)) => TOO_MANY,
            Self::Exceeded(Exceeded::Time(_)) | Self::List { .. } => SILENT,
        }
    }

    fn is_absent(&self) -> bool {
        matches!(self, Self::List { source, .. } if is_absent(source))
    }
}

/// What the tenant cluster said.
struct Answer {
    /// UIDs of its claims.
    requests: BTreeSet<String>,
    /// Its PersistentVolumes.
    known: Vec<Known>,
    /// UIDs of its VolumeSnapshots, and its VolumeSnapshotContents; none where it has no such kinds.
    of_snapshots: Option<(BTreeSet<String>, Vec<Content>)>,
}

async fn ask(client: &Client, budget: &Budget, has_snapshots: bool) -> Result<Answer, Unread> {
    let claims = Api::<PersistentVolumeClaim>::all(client.clone());
    let requests = uids(&claims, "claims", budget).await?;
    let volumes = Api::<PersistentVolume>::all(client.clone());
    let known = read(&volumes, "PersistentVolumes", budget, of).await?;
    let of_snapshots = match has_snapshots {
        true => match ask_snapshots(client, budget).await {
            Err(unread) if unread.is_absent() => None,
            answer => Some(answer?),
        },
        false => Some((BTreeSet::new(), Vec::new())),
    };
    Ok(Answer {
        requests,
        known,
        of_snapshots,
    })
}

async fn ask_snapshots(
    client: &Client,
    budget: &Budget,
) -> Result<(BTreeSet<String>, Vec<Content>), Unread> {
    let wanted = untyped::of(kinds::VOLUME_SNAPSHOT, client, None);
    let wanted = uids(&wanted, "VolumeSnapshots", budget).await?;
    let contents = untyped::of(kinds::VOLUME_SNAPSHOT_CONTENT, client, None);
    let contents = read(&contents, "VolumeSnapshotContents", budget, content).await?;
    Ok((wanted, contents))
}

/// UIDs of all objects of a kind inside.
async fn uids<K>(
    objects: &Api<K>,
    what: &'static str,
    budget: &Budget,
) -> Result<BTreeSet<String>, Unread>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut params = ListParams::default().limit(INSIDE);
    let mut found = BTreeSet::new();
    loop {
        let page = objects.list_metadata(&params).await;
        let page = page.map_err(|error| unread(what, error))?;
        // An empty page that is not the last counts, too: there is an end.
        budget.take_items(what, page.items.len().max(1))?;
        found.extend(page.items.into_iter().filter_map(|item| item.metadata.uid));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(found);
        }
    }
}

/// All objects of a kind inside, as far as they matter.
async fn read<K, T>(
    objects: &Api<K>,
    what: &'static str,
    budget: &Budget,
    of: impl Fn(&K) -> T,
) -> Result<Vec<T>, Unread>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut params = ListParams::default().limit(INSIDE);
    let mut found = Vec::new();
    loop {
        let page = objects.list(&params).await;
        let page = page.map_err(|error| unread(what, error))?;
        budget.take_items(what, page.items.len().max(1))?;
        found.extend(page.items.iter().map(&of));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(found);
        }
    }
}

fn unread(what: &'static str, source: kube::Error) -> Unread {
    Unread::List {
        what,
        source: Box::new(source),
    }
}

fn of(volume: &PersistentVolume) -> Known {
    let spec = volume.spec.as_ref();
    let csi = spec.and_then(|spec| spec.csi.as_ref());
    let claim = spec.and_then(|spec| spec.claim_ref.as_ref());
    let claim = claim.and_then(|claim| claim.namespace.as_ref().zip(claim.name.as_ref()));
    let phase = volume.status.as_ref().and_then(|s| s.phase.as_deref());
    // One that nobody has any more goes, and its volume was deleted before it.
    let is_used = volume.metadata.deletion_timestamp.is_none()
        && !matches!(phase, Some("Released" | "Failed"));
    Known {
        name: one_line(&volume.name_any(), 253),
        // Names of ours are shorter: what is cut is none of them.
        handle: csi.map(|csi| one_line(&csi.volume_handle, 253)),
        is_ours: is_used && csi.is_some_and(|csi| csi.driver == VOLUME_DRIVER),
        claim: claim.map(|(namespace, name)| one_line(&format!("{namespace}/{name}"), 320)),
    }
}

fn content(object: &DynamicObject) -> Content {
    let (spec, status) = (&object.data["spec"], &object.data["status"]);
    // Names of ours are shorter: what is cut is none of them.
    let text = |value: &Value| value.as_str().map(|text| one_line(text, 253));
    let reference = &spec["volumeSnapshotRef"];
    let snapshot = text(&reference["namespace"]).zip(text(&reference["name"]));
    let handles = [&status["snapshotHandle"], &spec["source"]["snapshotHandle"]];
    let handles = handles.into_iter().filter_map(text);
    Content {
        name: one_line(&object.name_any(), 253),
        handles: handles.filter(|handle| !handle.is_empty()).collect(),
        request: text(&reference["uid"]).filter(|uid| !uid.is_empty()),
        // One that goes has had its snapshot deleted before it.
        is_ours: object.metadata.deletion_timestamp.is_none() && spec["driver"] == VOLUME_DRIVER,
        snapshot: snapshot.map(|(namespace, name)| one_line(&format!("{namespace}/{name}"), 320)),
    }
}

/// Deletes them, as they were seen.
///
/// # Errors
/// [`Error::Fence`], [`Error::Write`]; then the rest is tried again.
pub(super) async fn delete(ctx: &Context, ns: &str, goes: &Goes<'_>) -> Result<(), Error> {
    let snapshots = goes.snapshots.iter();
    let snapshots = snapshots.map(|s| (kinds::VOLUME_SNAPSHOT, &s.name, &s.uid, &s.version));
    let volumes = goes.volumes.iter();
    let volumes = volumes.map(|v| (kinds::PERSISTENT_VOLUME_CLAIM, &v.name, &v.uid, &v.version));
    for (kind, name, uid, version) in snapshots.chain(volumes).take(MOST_DELETIONS) {
        ctx.leadership.ensure().map_err(Error::Fence)?;
        let deletion = Deletion {
            kind,
            namespace: Some(ns),
            name,
            uid,
            resource_version: Some(version),
            propagation: PropagationPolicy::Background,
        };
        match write::delete(&ctx.client, &deletion).await {
            Ok(_) => tracing::info!(
                object.kind = kind.kind,
                object.name = name,
                object.namespace = ns,
                "what the restored tenant cluster does not know is deleted, as spec.orphans of the Restore says"
            ),
            // It changed since: it is judged anew.
            Err(error) if error.class() == Class::Conflict => {}
            Err(source) => {
                return Err(Error::Write {
                    what: format!("{} {name}", kind.kind),
                    source,
                });
            }
        }
    }
    Ok(())
}
