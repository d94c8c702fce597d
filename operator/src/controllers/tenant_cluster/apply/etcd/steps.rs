//! Carries out the steps of the replacement of a member of etcd.
//!
//! Invariant: a claim is deleted by its UID, after its volume is kept; after a step nothing that was known of etcd
//! is believed any more.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use kit::lease::NotLeader;
use kit_client::errors::{Class, Classify};
use kit_client::write::Deletion;
use kit_client::{untyped, write};
use kit_objects::kinds;
use kit_objects::object::Key;
use kube::Client;
use kube::api::{Patch, PatchParams, PropagationPolicy};
use serde_json::json;
use tenant_cp::names::{self, KEEP_UNTIL};

use super::super::deletion::delete;
use super::{CHANGE_PATIENCE, Members, ask, call, speaker};
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::{EtcdSteps, Observed};
use crate::controllers::tenant_cluster::plan::types::Target;
use crate::etcd_replacement::step::Step;
use crate::tenant_session::etcd;
use crate::tenant_session::etcd::answers::Alarm;
use crate::tenant_session::session;

/// How long the volume of a member that was replaced is kept.
const KEEP_VOLUME: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Why a step could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another operator may lead.
    #[error("stop writing")]
    Fence(#[source] NotLeader),
    /// The volume could not be kept, so its claim stays.
    #[error("keep PersistentVolume {volume}")]
    Retain {
        /// Its name.
        volume: String,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// A claim or a pod could not be deleted.
    #[error("delete {key}")]
    Delete {
        /// Which.
        key: Key,
        /// What the API said.
        #[source]
        source: write::Error,
    },
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Fence(_) => Class::Transient,
            Self::Retain { source, .. } => source.class(),
            Self::Delete { source, .. } => source.class(),
        }
    }
}

/// Carries out one step. What etcd refuses is noted, and tried again by the next reconcile.
pub(in super::super) async fn replace(
    ctx: &Context,
    (members, step): (Members<'_>, &Step),
    observed: &mut Observed,
    now: Timestamp,
) -> Result<(), Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    tracing::info!(
        tenant.namespace = observed.tenant_namespace(),
        ?step,
        "step of the replacement of a member of etcd"
    );
    let done = match step {
        // Nothing of etcd is touched.
        Step::Record(_) | Step::MakeClaim { .. } => return Ok(()),
        Step::Retire {
            member,
            claim_uid,
            volume,
            pod_uid,
        } => {
            if let Some(volume) = volume {
                retain(ctx, volume, claim_uid, now).await?;
            }
            let claim = names::volume_of(member);
            remove(ctx, observed, ("PersistentVolumeClaim", &claim), claim_uid).await?;
            if let Some(uid) = pod_uid {
                remove(ctx, observed, ("Pod", member), uid).await?;
            }
            Ok(())
        }
        Step::Keep {
            member,
            claim_uid,
            volume,
        } => {
            if let Some(volume) = volume {
                retain(ctx, volume, claim_uid, now).await?;
            }
            let claim = names::volume_of(member);
            mark(ctx, observed, (&claim, claim_uid), now).await?;
            Ok(())
        }
        Step::Release { set_uid } => {
            release(ctx, observed, set_uid).await?;
            Ok(())
        }
        Step::Restart { member, pod_uid } => {
            remove(ctx, observed, ("Pod", member), pod_uid).await?;
            Ok(())
        }
        Step::MoveLeader { from, to } => {
            let leads = members.iter().find(|(name, _)| name == from);
            let leads = leads.map(|(name, address)| (name.as_str(), *address));
            change(ctx, observed, leads, async |c| {
                etcd::move_leader(&c, to).await
            })
            .await
        }
        Step::Remove { id } => {
            let speaker = speaker(members, observed);
            change(ctx, observed, speaker, async |c| etcd::remove(&c, id).await).await
        }
        Step::Disarm { id } => {
            let alarm = Alarm::Corrupt;
            let speaker = speaker(members, observed);
            change(ctx, observed, speaker, async |c| {
                etcd::disarm(&c, id, alarm).await
            })
            .await
        }
        Step::AddLearner { peer_url } => {
            let speaker = speaker(members, observed);
            change(ctx, observed, speaker, async |c| {
                etcd::add_learner(&c, peer_url).await
            })
            .await
        }
        Step::Promote { id } => {
            let speaker = speaker(members, observed);
            change(ctx, observed, speaker, async |c| {
                etcd::promote(&c, id).await
            })
            .await
        }
    };
    let EtcdSteps {
        done: count,
        refusal,
    } = &mut observed.etcd_steps;
    *count += 1;
    if let (Step::MoveLeader { from, .. }, Ok(())) = (step, &done)
        && observed.etcd_disks.of(from).is_slow()
    {
        observed.etcd_disks.moved = Some(now);
        let uid = observed.cluster.identity_uid();
        ctx.etcd_looks.note_move(uid, now);
    }
    if let Err(why) = done {
        tracing::info!(?step, why, "etcd did not carry out a step");
        *refusal = Some(why);
    }
    // What was known of it is out of date.
    ask(ctx, members, true, observed).await;
    Ok(())
}

async fn change(
    ctx: &Context,
    observed: &Observed,
    member: Option<(&str, IpAddr)>,
    work: impl AsyncFnOnce(Client) -> Result<(), session::Error>,
) -> Result<(), String> {
    let member = member.ok_or("no member of etcd answers that has a leader")?;
    call(ctx, observed, member, CHANGE_PATIENCE, work).await
}

/// Keeps a volume when its claim goes, if it is still this claim's.
async fn retain(ctx: &Context, name: &str, claim_uid: &str, now: Timestamp) -> Result<(), Error> {
    let failed = |source| Error::Retain {
        volume: name.to_owned(),
        source: Box::new(source),
    };
    let volumes = untyped::of(kinds::PERSISTENT_VOLUME, &ctx.client, None);
    let Some(volume) = volumes.get_opt(name).await.map_err(failed)? else {
        return Ok(());
    };
    let spec = &volume.data["spec"];
    let is_kept = spec["persistentVolumeReclaimPolicy"] == "Retain";
    if is_kept || spec["claimRef"]["uid"] != claim_uid {
        return Ok(());
    }
    let until = now.saturating_add(KEEP_VOLUME).unwrap_or(now);
    let patch = json!({
        "metadata": {
            "annotations": { KEEP_UNTIL: until.to_string() },
            "resourceVersion": volume.metadata.resource_version,
        },
        "spec": { "persistentVolumeReclaimPolicy": "Retain" },
    });
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let patched = volumes.patch(name, &params, &patch).await;
    patched.map(drop).map_err(failed)
}

/// Says of a claim that it is only kept, and until when.
async fn mark(
    ctx: &Context,
    observed: &Observed,
    (name, uid): (&str, &str),
    now: Timestamp,
) -> Result<(), Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let until = now.saturating_add(KEEP_VOLUME).unwrap_or(now);
    // Of another claim of the same name it is refused.
    let patch = json!({
        "metadata": { "annotations": { KEEP_UNTIL: until.to_string() }, "uid": uid },
    });
    let namespace = observed.tenant_namespace();
    let claims = untyped::of(
        kinds::PERSISTENT_VOLUME_CLAIM,
        &ctx.client,
        Some(&namespace),
    );
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let patched = claims.patch(name, &params, &patch).await;
    patched.map(drop).map_err(|source| Error::Retain {
        volume: name.to_owned(),
        source: Box::new(source),
    })
}

/// Deletes the StatefulSet, whose pods stay, and become those of the one that is made in its place: their labels are
/// the same, and so is the template that the names of its revisions are made of.
async fn release(ctx: &Context, observed: &Observed, uid: &str) -> Result<(), Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let namespace = observed.tenant_namespace();
    let deletion = Deletion {
        kind: kinds::STATEFUL_SET,
        namespace: Some(&namespace),
        name: names::ETCD,
        uid,
        resource_version: None,
        propagation: PropagationPolicy::Orphan,
    };
    let deleted = write::delete(&ctx.client, &deletion).await.map(drop);
    let key = Key::new("StatefulSet", &namespace, names::ETCD);
    deleted.map_err(|source| Error::Delete { key, source })
}

async fn remove(
    ctx: &Context,
    observed: &Observed,
    (kind, name): (&str, &str),
    uid: &str,
) -> Result<(), Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let target = Target {
        key: Key::new(kind, &observed.tenant_namespace(), name),
        uid: uid.to_owned(),
        resource_version: None,
        with_dependents: false,
    };
    let deleted = delete(&ctx.client, &target).await;
    let key = target.key;
    deleted.map_err(|source| Error::Delete { key, source })
}
