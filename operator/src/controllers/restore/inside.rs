//! Looks which volumes of the tenant namespace a tenant cluster that was brought back knows, and deletes those that are to
//! go.
//!
//! Nobody who runs beside the tenant cluster has its PersistentVolumes but the stock sidecars, so the operator lists them
//! itself, and only while a Restore is not over: nothing is watched for it.
//! Invariant: a list that is not whole is none; of what the tenant cluster answers bounded names are kept; a claim goes
//! only as it was seen, so that one that was attached since stays.

use std::collections::BTreeSet;
use std::fmt::Debug;

use api::names::{
    ANNOTATION_ATTACH_TO, ANNOTATION_ATTACHED_TO, ANNOTATION_TENANT_CLAIM, ANNOTATION_VOLUME_NAME,
    COMPONENT_VOLUME, LABEL_COMPONENT, LABEL_TENANT_UID, VOLUME_PREFIX,
};
use api::{Restore, TenantCluster};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kit_client::errors::{Class, Classify as _, chain};
use kit_client::write::{self, Deletion};
use kit_objects::kinds;
use kube::api::{ListParams, PropagationPolicy};
use kube::{Api, Client, ResourceExt};
use tenant_cp::addons::VOLUME_DRIVER;

use crate::context::Context;
use crate::controllers::tenant_backup::error::Error;
use crate::restoring::volumes::{Known, Listed, Seen, Volume};
use crate::state;
use crate::status::one_line;
use crate::tenant_session::budget::{Budget, Exceeded};

/// Claims of one page.
const CLAIMS: u32 = 500;
/// Most pages: more volumes than a tenant cluster may have.
const CLAIM_PAGES: usize = 20;
/// Objects of the tenant cluster of one page: with what is written beside a PersistentVolume less than a mebibyte.
const INSIDE: u32 = 250;
/// Claims that are deleted in one reconcile; the next one is soon.
const MOST_DELETIONS: usize = 100;

const SILENT: &str = "the tenant cluster's API does not say now which volumes it knows (why is in the operator's log)";
const TOO_MANY: &str = "the tenant cluster has more PersistentVolumes and claims, than are read at a time \
    (4000), so it is not known which volumes it knows: delete there what is not needed, or delete this Restore";
const TOO_MANY_CLAIMS: &str = "the tenant namespace has more than 10000 volumes, so it is not known which of them the tenant cluster knows";

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
    let uid = cluster.uid().unwrap_or_default();
    let Some(volumes) = volumes(ctx, ns, &uid).await? else {
        return Ok(Err(TOO_MANY_CLAIMS));
    };
    let budget = ctx.budget();
    let Some(tenant) = ctx.tenants.client(&uid, &budget) else {
        return Ok(Err(SILENT));
    };
    let object = state::key_of(restore);
    let may = ctx.recovery_probes.silence(&uid).is_none()
        && ctx.cluster_bulkhead.lets(&uid, &object, &budget);
    if !may {
        return Ok(Err(SILENT));
    }
    let asked = budget.within(Box::pin(ask(&tenant.client, &budget))).await;
    let (requests, known) = match asked.unwrap_or_else(|error| Err(error.into())) {
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
    let mut seen = Seen {
        volumes,
        requests,
        known,
        later: BTreeSet::new(),
    };
    if !seen.missing().is_empty() {
        // One that was made meanwhile points somewhere.
        let Some(again) = self::volumes(ctx, ns, &uid).await? else {
            return Ok(Err(TOO_MANY_CLAIMS));
        };
        let again = again.into_iter().filter(|volume| !volume.is_lost);
        seen.later = again.map(|volume| volume.name).collect();
    }
    Ok(Ok(seen))
}

/// Claims of the tenant namespace that are volumes; none where there are too many of them.
async fn volumes(ctx: &Context, ns: &str, uid: &str) -> Result<Option<Vec<Volume>>, Error> {
    let labels = format!("{LABEL_COMPONENT}={COMPONENT_VOLUME},{LABEL_TENANT_UID}={uid}");
    let mut params = ListParams::default().labels(&labels).limit(CLAIMS);
    let claims = Api::<PersistentVolumeClaim>::namespaced(ctx.client.clone(), ns);
    let mut found = Vec::new();
    for _ in 0..CLAIM_PAGES {
        let page = claims.list(&params).await;
        let page = page.map_err(|source| Error::Read {
            what: "volumes of the tenant namespace",
            source: Box::new(source),
        })?;
        found.extend(page.items.iter().filter_map(volume));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn volume(claim: &PersistentVolumeClaim) -> Option<Volume> {
    let name = claim.name_any();
    let asked_as = name.strip_prefix(VOLUME_PREFIX)?.to_owned();
    let annotation = |key: &str| claim.annotations().get(key).map_or("", String::as_str);
    let text = |key: &str| Some(annotation(key)).filter(|text| !text.is_empty());
    let phase = claim.status.as_ref().and_then(|s| s.phase.as_deref());
    let created = claim.metadata.creation_timestamp.as_ref();
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
}

async fn ask(client: &Client, budget: &Budget) -> Result<(BTreeSet<String>, Vec<Known>), Unread> {
    let what = "claims";
    let mut params = ListParams::default().limit(INSIDE);
    let claims = Api::<PersistentVolumeClaim>::all(client.clone());
    let mut requests = BTreeSet::new();
    loop {
        let page = claims.list_metadata(&params).await;
        let page = page.map_err(|error| unread(what, error))?;
        // An empty page that is not the last counts, too: there is an end.
        budget.take_items(what, page.items.len().max(1))?;
        let uids = page
            .items
            .into_iter()
            .filter_map(|claim| claim.metadata.uid);
        requests.extend(uids);
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            break;
        }
    }
    let what = "PersistentVolumes";
    let volumes = Api::<PersistentVolume>::all(client.clone());
    let mut known = Vec::new();
    loop {
        let page = volumes.list(&params).await;
        let page = page.map_err(|error| unread(what, error))?;
        budget.take_items(what, page.items.len().max(1))?;
        known.extend(page.items.iter().map(of));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok((requests, known));
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

/// Deletes them, as they were seen.
///
/// # Errors
/// [`Error::Fence`], [`Error::Write`]; then the rest is tried again.
pub(super) async fn delete(ctx: &Context, ns: &str, volumes: &[&Volume]) -> Result<(), Error> {
    for volume in volumes.iter().take(MOST_DELETIONS) {
        ctx.leadership.ensure().map_err(Error::Fence)?;
        let deletion = Deletion {
            kind: kinds::PERSISTENT_VOLUME_CLAIM,
            namespace: Some(ns),
            name: &volume.name,
            uid: &volume.uid,
            resource_version: Some(&volume.version),
            propagation: PropagationPolicy::Background,
        };
        match write::delete(&ctx.client, &deletion).await {
            Ok(_) => tracing::info!(
                claim.name = volume.name,
                claim.namespace = ns,
                "a volume that the restored tenant cluster does not know is deleted, as spec.orphans of the Restore says"
            ),
            // It changed since: it is judged anew.
            Err(error) if error.class() == Class::Conflict => {}
            Err(source) => {
                return Err(Error::Write {
                    what: format!("{} {}", kinds::PERSISTENT_VOLUME_CLAIM.kind, volume.name),
                    source,
                });
            }
        }
    }
    Ok(())
}
