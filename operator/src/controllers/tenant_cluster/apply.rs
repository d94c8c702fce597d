//! Carries a plan out: parts side by side, stages in order, the objects of a stage side by side.
//!
//! Long because every kind of action is carried out here, or given to who does.
//! Invariant: every write is fenced by the Lease; the first error ends its part and no other, and whatever
//! was written until then is known to the next plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::tenant_cluster::TenantClusterStatus;
use futures::future::join_all;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use kit::lease::NotLeader;
use kit_client::errors::{Class, Classify, OVER_QUOTA};
use kit_client::untyped;
use kit_client::write;
use kit_objects::kinds::{self, Kind};
use kit_objects::object::{Key, Object};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tenant_cp::certificates::{self, Generations};
use tenant_cp::generations::of_authority;
use tenant_cp::names;
use tenant_cp::rollout::order::Cause;

use super::observe::body;
use super::observed::{Failure, Observed};
use super::part_name::PartName;
use super::plan::{Action, Mode, Part, Plan, Stage, Target};
use super::report;
use crate::FIELD_MANAGER;
use crate::context::Context;
use crate::etcd_replacement::step::Step;
use crate::hibernation::idle::Usage;
use crate::rollouts::queue::{Purpose, Turn};
use crate::standby::takeover;
use crate::tenant_session::session;

mod aggregated;
mod deletion;
mod empty;
mod etcd;
mod held_tokens;
mod left;
mod losses;
mod nodes;
mod once;
mod preflight;
mod probe;
mod release;
mod restore;
mod roots;
mod sessions;
mod sleepers;
mod standby;
mod tenant_objects;
mod usage;
mod webhooks;

/// Writes at the same time.
const PARALLEL_WRITES: usize = 8;

/// Why a plan could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another operator may lead.
    #[error("stop writing")]
    Fence(#[source] NotLeader),
    /// An object could not be applied or deleted.
    #[error("carry out stage {stage}")]
    Write {
        /// Name of the stage.
        stage: &'static str,
        /// What the API said.
        #[source]
        source: write::Error,
    },
    /// A volume may not grow.
    #[error(
        "a volume of etcd does not grow: have its StorageClass allow it (allowVolumeExpansion), or set \
         spec.etcd.storage.size back to what the volumes have"
    )]
    Grow(#[source] write::Error),
    /// A member of etcd could not be replaced.
    #[error("replace a member of etcd")]
    Replace(#[source] Box<etcd::steps::Error>),
    /// An object could not be created, or somebody else created it.
    #[error("create {key}")]
    Create {
        /// Which object.
        key: Key,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// It could not be noted where the activator waits for it.
    #[error("note in the ConfigMap of sleepers at which port the activator waits")]
    Sleepers(#[source] Box<kube::Error>),
    /// Something inside the tenant cluster could not be written.
    #[error("write what is inside the tenant cluster")]
    Tenant(#[source] session::Error),
    /// The TenantCluster itself could not be written.
    #[error("write the {part} of the TenantCluster")]
    Own {
        /// Finalizers or status.
        part: &'static str,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// It is not known whether an identity was taken over.
    #[error("take over a control plane that waits")]
    TakeOver(#[source] Box<kube::Error>),
    /// Keys could not be made.
    #[error("issue certificates")]
    Issue(#[source] pki::Error),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Fence(_) => Class::Transient,
            Self::Grow(_) => Class::Invalid,
            Self::Write { source, .. } => source.class(),
            Self::Create { source, .. }
            | Self::Own { source, .. }
            | Self::Sleepers(source)
            | Self::TakeOver(source) => source.class(),
            Self::Replace(source) => source.class(),
            Self::Issue(_) => Class::Bug,
            Self::Tenant(source) => source.class(),
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Applied {
    /// The observation has to be made anew before the next plan.
    pub observe_again: bool,
    /// Objects written or deleted.
    pub writes: usize,
}

/// Carries a plan out, its parts side by side, and takes the results into the observation. A part that
/// fails is noted there ([`Observed::failures`]) and ends no other.
///
/// # Errors
/// Another operator may lead, or the TenantCluster itself cannot be written.
pub async fn apply(
    ctx: &Context,
    plan: &Plan,
    observed: &mut Observed,
    now: Timestamp,
) -> Result<Applied, Error> {
    let mut applied = Applied::default();
    let (namespace, name) = (observed.cluster.namespace(), observed.cluster.name_any());
    let cluster = format!("{}/{name}", namespace.unwrap_or_default());
    let writes = plan.parts.iter().map(|part| write(ctx, part, &cluster));
    for (part, written) in plan.parts.iter().zip(join_all(writes).await) {
        applied.writes += written.objects.len();
        for (key, live) in written.objects {
            applied.observe_again |= shows_more(&key);
            observed.absorb(key, live);
        }
        if let Some(error) = written.error {
            note(observed, part.name, error)?;
        }
    }
    for part in &plan.parts {
        if observed.failures.contains_key(&part.name) {
            continue;
        }
        // Without `..`, so that something new in a part cannot be forgotten here.
        let Part {
            name,
            stages: _,
            deletions,
            actions,
            waiting: _,
            problem: _,
        } = part;
        let result = delete_and_act(ctx, deletions, actions, observed, &mut applied, now).await;
        if let Err(error) = result {
            note(observed, *name, error)?;
        }
    }
    Ok(applied)
}

/// What was written of one part until the first error.
#[derive(Default)]
struct Written {
    objects: Vec<(Key, Value)>,
    error: Option<Error>,
}

async fn write(ctx: &Context, part: &Part, cluster: &str) -> Written {
    let mut written = Written::default();
    for stage in &part.stages {
        let (objects, error) = write_stage(ctx, stage, cluster).await;
        written.objects.extend(objects);
        if error.is_some() {
            written.error = error;
            break;
        }
    }
    written
}

async fn delete_and_act(
    ctx: &Context,
    deletions: &[Target],
    actions: &[Action],
    observed: &mut Observed,
    applied: &mut Applied,
    now: Timestamp,
) -> Result<(), Error> {
    for target in deletions {
        ctx.leadership.ensure().map_err(Error::Fence)?;
        deletion::delete(&ctx.client, target)
            .await
            .map_err(|source| Error::Write {
                stage: "deletion",
                source,
            })?;
        applied.observe_again = true;
        applied.writes += 1;
    }
    for action in actions {
        act(ctx, action, observed, applied, now).await?;
    }
    Ok(())
}

/// With a new binding there is more to read than before.
fn shows_more(key: &Key) -> bool {
    key.kind == "Namespace"
        || (key.kind == "RoleBinding" && key.name == api::names::OPERATOR_BINDING)
}

/// Notes that a part failed, unless that ends the whole reconcile.
fn note(observed: &mut Observed, part: PartName, error: Error) -> Result<(), Error> {
    if matches!(error, Error::Fence(_) | Error::Own { .. }) {
        return Err(error);
    }
    let failure = Failure {
        class: error.class(),
        message: kit_client::errors::chain(&error),
    };
    observed.failures.insert(part, failure);
    Ok(())
}

/// After a failure nothing more is begun, but what is on its way may arrive. Whatever was written
/// is progress, and the backoff of failures starts over: with one request in ten failing, a
/// creation takes ten tries that each come a part further.
async fn write_stage(
    ctx: &Context,
    stage: &Stage,
    cluster: &str,
) -> (Vec<(Key, Value)>, Option<Error>) {
    let failed = AtomicBool::new(false);
    let write = async |object| {
        if failed.load(Ordering::Relaxed) {
            return None;
        }
        let written = write_one(ctx, stage, object).await;
        failed.fetch_or(written.is_err(), Ordering::Relaxed);
        Some(written)
    };
    let writes: Vec<_> = stage.objects.iter().map(write).collect();
    let results: Vec<_> = stream::iter(writes)
        .buffer_unordered(PARALLEL_WRITES)
        .collect()
        .await;
    let (mut written, mut first) = (Vec::new(), None);
    for result in results.into_iter().flatten() {
        match result {
            Ok(object) => written.push(object),
            Err(error) => first = first.or(Some(error)),
        }
    }
    if !written.is_empty() {
        ctx.cluster_state.attempts.reset(&cluster.to_owned());
    }
    (written, first)
}

async fn write_one(ctx: &Context, stage: &Stage, object: &Object) -> Result<(Key, Value), Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let live = match stage.mode {
        Mode::Apply => apply_one(ctx, stage.name, object).await?,
        Mode::Create => create_one(ctx, object).await?,
    };
    Ok((object.key(), live))
}

async fn apply_one(ctx: &Context, stage: &'static str, object: &Object) -> Result<Value, Error> {
    let write = || write::apply(&ctx.client, &object.value, FIELD_MANAGER, true);
    let mut tries = 0;
    let live = loop {
        match write().await {
            Err(error) if is_about_growing(&error) => return Err(Error::Grow(error)),
            // The binding that allows it, or the TenantCluster that an admission policy asks for, is
            // a moment old.
            Err(error) if tries < 20 && is_early(&error) => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
            result => break result.map_err(|source| Error::Write { stage, source })?,
        }
    };
    Ok(match kind_of(object) {
        Some(kind) => body(kind, &live),
        None => object.value.clone(),
    })
}

/// What the API server says of a claim that is not bound, or whose class lets no volume grow
/// (`plugin/pkg/admission/storage/persistentvolume/resize`).
fn is_about_growing(error: &write::Error) -> bool {
    let text = kit_client::errors::chain(error);
    let texts = ["pvc can be resized", "claims can be expanded"];
    error.code() == Some(403) && texts.iter().any(|said| text.contains(said))
}

/// A refusal that a moment mends: not quota, and not a namespace that is going.
fn is_early(error: &write::Error) -> bool {
    let text = kit_client::errors::chain(error);
    match error.code() {
        Some(403) => !text.contains(OVER_QUOTA) && !text.contains("being terminated"),
        Some(422) => text.contains("no params found"),
        _ => false,
    }
}

async fn create_one(ctx: &Context, object: &Object) -> Result<Value, Error> {
    let kind = kind_of(object).unwrap_or(kinds::SECRET);
    let typed = serde_json::from_value(object.value.clone());
    let failed = |source: kube::Error| Error::Create {
        key: object.key(),
        source: Box::new(source),
    };
    let typed = typed.map_err(|e| failed(kube::Error::SerdeError(e)))?;
    let api = untyped::of(kind, &ctx.client, object.namespace.as_deref());
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..Default::default()
    };
    let live = api.create(&params, &typed).await.map_err(failed)?;
    Ok(body(kind, &live))
}

fn kind_of(object: &Object) -> Option<Kind> {
    kinds::find(&object.api_version, &object.kind)
}

async fn act(
    ctx: &Context,
    action: &Action,
    observed: &mut Observed,
    applied: &mut Applied,
    now: Timestamp,
) -> Result<(), Error> {
    match action {
        Action::AddFinalizer => {
            let mut finalizers = observed
                .cluster
                .metadata
                .finalizers
                .clone()
                .unwrap_or_default();
            finalizers.push(api::names::FINALIZER.to_owned());
            write_finalizers(ctx, observed, finalizers).await?;
            applied.writes += 1;
        }
        Action::RemoveFinalizer => {
            let mut finalizers = observed
                .cluster
                .metadata
                .finalizers
                .clone()
                .unwrap_or_default();
            finalizers.retain(|f| f != api::names::FINALIZER);
            write_finalizers(ctx, observed, finalizers).await?;
            applied.writes += 1;
            ctx.forget_identity(&observed.cluster);
        }
        Action::TakeOver(candidates) => {
            let taken = standby::take_over(ctx, candidates, &observed.cluster).await;
            let taken = taken.map_err(|error| match error {
                standby::Error::Fence(source) => Error::Fence(source),
                standby::Error::Ask(source) => Error::TakeOver(source),
            })?;
            match taken {
                Some((status, said)) => {
                    report::write_status(ctx, observed, status).await?;
                    report::publish(ctx, &observed.cluster, &said).await;
                    applied.writes += 2;
                    applied.observe_again = true;
                }
                // Everything is made, as where none waits.
                None => observed.standby.clear(),
            }
        }
        Action::Retire => {
            ctx.leadership.ensure().map_err(Error::Fence)?;
            let uid = observed.cluster.uid().unwrap_or_default();
            let identity = observed.cluster.identity();
            let retired = takeover::take(&ctx.client, &identity, &uid).await;
            // False: somebody was first, which the next look shows.
            retired.map_err(|source| Error::TakeOver(Box::new(source)))?;
            applied.writes += 1;
            applied.observe_again = true;
        }
        Action::Empty { namespace } => {
            ctx.leadership.ensure().map_err(Error::Fence)?;
            empty::empty(ctx, namespace).await;
            applied.observe_again = true;
        }
        Action::KeepNetwork(ranges) => {
            let ranges = Some(ranges.clone());
            keep(ctx, observed, |status| status.network = ranges).await?;
            applied.writes += 1;
        }
        Action::KeepEtcd(etcd) => {
            keep(ctx, observed, |status| status.etcd = Some(etcd.clone())).await?;
            applied.writes += 1;
        }
        Action::KeepRestore { restore, etcd } => {
            keep(ctx, observed, |status| {
                status.restore = restore.as_deref().cloned();
                status.etcd = etcd.clone().or(status.etcd.take());
            })
            .await?;
            applied.writes += 1;
            // There is more to look at, or less.
            applied.observe_again = true;
        }
        Action::KeepRollout(rollout) => {
            let rollout = Some(rollout.as_ref().clone());
            keep(ctx, observed, |status| status.rollout = rollout).await?;
            applied.writes += 1;
        }
        Action::KeepHibernation { told, said } => {
            keep(ctx, observed, |status| status.hibernation.clone_from(told)).await?;
            // What was found before it slept says nothing of when it is awake again.
            ctx.usage_looks.forget(observed.cluster.identity_uid());
            observed.usage = Usage::default();
            if let Some(said) = said {
                report::publish(ctx, &observed.cluster, said).await;
            }
            applied.writes += 1;
            // There is more to look at, or less.
            applied.observe_again = true;
        }
        Action::KeepSleeper(entry) => {
            ctx.leadership.ensure().map_err(Error::Fence)?;
            let written = sleepers::write(ctx, entry, observed).await;
            written.map_err(|source| Error::Sleepers(Box::new(source)))?;
            applied.writes += 1;
        }
        Action::AskUse => usage::ask(ctx, observed, now).await,
        Action::AskLeft { address } => left::ask(ctx, *address, observed).await,
        Action::AskWebhooks { address, step } => {
            webhooks::ask(ctx, *address, *step, observed, now).await;
        }
        Action::AskVolumes { volumes } => losses::ask(ctx, volumes, observed).await,
        Action::AskNewest { cluster } => losses::ask_newest(ctx, cluster, observed).await,
        Action::AskForRestore { restore } => {
            ctx.leadership.ensure().map_err(Error::Fence)?;
            let made = once::create(ctx, kinds::RESTORE, restore).await;
            let _: Value = made.map_err(|source| not_made(restore, source))?;
            observed.restores_asked.insert(restore.name.clone());
            applied.writes += 1;
        }
        Action::AskForSnapshot { snapshot } => {
            ctx.leadership.ensure().map_err(Error::Fence)?;
            let made = once::create(ctx, kinds::SNAPSHOT, snapshot).await;
            let made = made.map_err(|source| not_made(snapshot, source))?;
            observed.upgrade_snapshot = Some(Arc::new(made));
            applied.writes += 1;
        }
        Action::ForgetLeases { .. } | Action::MarkBalancers { .. } => {
            ctx.leadership.ensure().map_err(Error::Fence)?;
            applied.writes += restore::act(ctx, action, observed).await;
        }
        Action::Issue { wants, due } => issue(observed, wants, due, now)?,
        Action::AskForTurn {
            cause,
            is_under_way,
        } => {
            let turn = Turn::of(&observed.cluster, Purpose::Rollout(*cause), now);
            let mut goes_on = *is_under_way;
            if *cause == Cause::Fleet {
                let gate = ctx.current_gate(now);
                // A pod that is replaced for another reason has not had its turn by a policy.
                goes_on &= gate.admitted.is_none() || gate.begun.contains(&turn.uid);
            }
            if goes_on {
                ctx.rollout_queue.resume(&turn.uid, turn.purpose, now);
            }
            observed.turn = Some(ctx.rollout_queue.ask(&turn, now));
        }
        Action::AskEtcd { members, list } => {
            etcd::ask(ctx, members, *list, observed).await;
        }
        Action::ReplaceMember {
            step: Step::Record(status),
            ..
        } => {
            keep(ctx, observed, |s| s.etcd = Some(status.clone())).await?;
            applied.writes += 1;
        }
        Action::ReplaceMember { members, step } => {
            let done = etcd::steps::replace(ctx, (members, step), observed, now).await;
            done.map_err(|error| match error {
                etcd::steps::Error::Fence(source) => Error::Fence(source),
                error => Error::Replace(Box::new(error)),
            })?;
            applied.writes += 1;
            applied.observe_again = true;
        }
        Action::RelieveEtcd { members, step } => {
            let done = etcd::space::relieve(ctx, (members, step), observed).await;
            done.map_err(Error::Fence)?;
            applied.writes += 1;
        }
        Action::AskLargest { address } => etcd::space::largest(ctx, *address, observed).await,
        Action::AskPreflight { address, servers } => {
            preflight::ask(ctx, *address, servers, observed).await;
        }
        Action::AskHeldTokens { address } => {
            held_tokens::ask(ctx, *address, observed, now).await;
        }
        Action::AskNodes { address } => nodes::ask(ctx, *address, observed, now).await,
        Action::AskRoots { address } => roots::ask(ctx, *address, observed, now).await,
        Action::Aggregated { address, write } => {
            aggregated::ask(ctx, *address, write.as_ref(), observed, now).await;
        }
        Action::Rewrite {
            address,
            members,
            generation,
            kinds,
        } => {
            let wanted = (*generation, kinds);
            etcd::rewriting::rewrite(ctx, (*address, members), wanted, observed, now).await;
        }
        Action::Probe { .. } => probe::probe(ctx, action, observed, now).await?,
        Action::ApplyTenantObjects { address, changes } => {
            tenant_objects::apply(ctx, *address, changes, observed, now).await?;
        }
    }
    Ok(())
}

async fn write_finalizers(
    ctx: &Context,
    observed: &mut Observed,
    finalizers: Vec<String>,
) -> Result<(), Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let failed = |source| Error::Own {
        part: "finalizers",
        source: Box::new(source),
    };
    // The resource version makes it a conflict when somebody else changed the list meanwhile.
    let patch = json!({ "metadata": {
        "finalizers": finalizers,
        "resourceVersion": observed.cluster.resource_version(),
    }});
    let api = own_api(ctx, observed);
    let name = observed.cluster.name_any();
    let written = api
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    match written {
        Ok(mut cluster) => {
            // The version is the one that is to run, as before.
            if cluster.spec.version == observed.patch.asked {
                cluster.spec.version = observed.cluster.spec.version.clone();
            }
            observed.cluster = cluster;
        }
        // Gone: that is what taking the finalizer off is for.
        Err(kube::Error::Api(status)) if status.code == 404 => {
            observed.cluster.metadata.finalizers = Some(finalizers);
        }
        Err(error) => return Err(failed(error)),
    }
    Ok(())
}

async fn keep(
    ctx: &Context,
    observed: &mut Observed,
    change: impl FnOnce(&mut TenantClusterStatus),
) -> Result<(), Error> {
    let mut status = observed.cluster.status.clone().unwrap_or_default();
    change(&mut status);
    report::write_status(ctx, observed, status).await
}

pub(super) fn issue(
    observed: &mut Observed,
    wants: &[pki::Want],
    due: &certificates::Plan,
    now: Timestamp,
) -> Result<(), Error> {
    let own = observed.cluster.spec.rotation.cluster_ca.as_ref();
    let compromised = own.and_then(|turn| turn.compromised);
    let material = &mut observed.material;
    pki::renew(wants, &due.due, &mut material.store, now).map_err(Error::Issue)?;
    // Who believes nobody but the one whose key was stolen is to be refused.
    let is_compromised =
        |made: &str| compromised.is_some() && of_authority(made, names::CA) == compromised;
    for made in due.due.iter().filter(|made| !is_compromised(&made.name)) {
        certificates::cross(material, &made.name, now).map_err(Error::Issue)?;
    }
    if due.service_account {
        let (public, private) = pki::issue::key_pair().map_err(Error::Issue)?;
        let keys = certificates::ServiceAccountKeys { public, private };
        material.service_account = Generations::first(keys);
    }
    if let Some(generation) = due.next_service_account {
        let (public, private) = pki::issue::key_pair().map_err(Error::Issue)?;
        let keys = certificates::ServiceAccountKeys { public, private };
        material.service_account.insert(generation, keys);
    }
    if let Some(generation) = due.next_encryption {
        let key = pki::issue::random_bytes().map_err(Error::Issue)?;
        let key = certificates::encryption_key(&key);
        material.encryption.insert(generation, key);
        material.encryption_apart.insert(generation);
    }
    if due.encryption {
        let key = pki::issue::random_bytes().map_err(Error::Issue)?;
        material.encryption = Generations::first(certificates::encryption_key(&key));
    }
    Ok(())
}

/// The API of TenantClusters in the namespace of this one.
pub(super) fn own_api(ctx: &Context, observed: &Observed) -> Api<api::TenantCluster> {
    let namespace = observed.cluster.namespace().unwrap_or_default();
    Api::namespaced(ctx.client.clone(), &namespace)
}

fn not_made(object: &Object, source: kube::Error) -> Error {
    Error::Create {
        key: object.key(),
        source: Box::new(source),
    }
}
