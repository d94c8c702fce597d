//! Reconciles Hosts: what was seen of a machine → plan (`provider_static::life`) → one write → the next look,
//! which is taken outside of reconciles (`host_sessions`).
//!
//! Invariant: a reconcile waits for no machine; every write is guarded by the resourceVersion that was planned with,
//! so that a claim that came meanwhile is never written over; where nothing changed nothing is written.

use std::sync::Arc;
use std::time::Duration;

use api::{Host, Machine, names};
use jiff::{SignedDuration, Timestamp};
use kit::events::Notice;
use kit::lease::NotLeader;
use kit::panics::Panicked;
use kit_client::errors::{Class, Classify};
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action as Requeue;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Resource, ResourceExt};
use provider_static::life::{Action, Finding, MachineState, Observed, Outcome, Plan, Twin, plan};
use serde_json::json;

use crate::context::Context;
use crate::host_sessions::{keys, programs};
use crate::{FIELD_MANAGER, state};

mod binding;

/// A session that is due is begun at most so late.
const SOON: SignedDuration = SignedDuration::from_millis(50);

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another replica leads.
    #[error("Hosts are another replica's work now")]
    Fence(#[source] NotLeader),
    /// The Machine of the claim could not be read.
    #[error("read the Machine that has the Host")]
    Machine(#[source] Box<kube::Error>),
    /// The operator's binding in the namespace could not be taken away.
    #[error("let go of the right to read Secrets beside the Host")]
    Binding(#[source] binding::Error),
    /// The finalizers could not be written.
    #[error("write the finalizers of the Host")]
    Own(#[source] Box<kube::Error>),
    /// The API refused the status, or did not answer.
    #[error("write the status of the Host")]
    Write(#[source] kit_client::write::Error),
    /// It panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Panicked(panicked) => panicked.class(),
            // Whoever leads now writes it.
            Self::Fence(_) => Class::Transient,
            Self::Machine(source) | Self::Own(source) => source.class(),
            Self::Binding(source) => source.class(),
            Self::Write(source) => source.class(),
        }
    }
}

/// One reconcile, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(host: Arc<Host>, ctx: Arc<Context>) -> Result<Requeue, Error> {
    let (key, state) = (state::key_of(&*host), &ctx.host_state);
    let work = step(&ctx, &host);
    let again = state.measure(&ctx.progress, &key, work).await?;
    Ok(state.succeeded(&key, again))
}

/// Plans, and writes at most once: what is written brings the Host back. Gives when to look again.
async fn step(ctx: &Context, host: &Arc<Host>) -> Result<Option<Duration>, Error> {
    let observed = observe(ctx, host).await?;
    let now = Timestamp::now();
    let plan = plan(&observed, now);
    if let Some(action) = plan.action {
        tell(ctx, host, &plan).await;
        write_finalizers(ctx, host, action).await?;
        if action == Action::RemoveFinalizer {
            ctx.hosts.forget(&host.uid().unwrap_or_default());
        }
        return Ok(None);
    }
    if host.status.as_ref() != Some(&plan.status) {
        write_status(ctx, host, &plan).await?;
        return Ok(None);
    }
    let Some((errand, at)) = plan.errand else {
        return Ok(None);
    };
    // Not only once it is due: who wakes Hosts when the last TenantCluster is gone wants it gone, too.
    let may_read = binding::is_kept(ctx, host).await.map_err(Error::Binding)?;
    if at <= now {
        // What is done on a machine is a write, too.
        ctx.leadership.ensure().map_err(Error::Fence)?;
        // Either brings the Host back.
        match may_read {
            true => ctx.hosts.begin(host, errand),
            false => {
                let why = keys::without_right(&host.spec.ssh_key_secret_name);
                ctx.hosts.refuse(host, errand, why);
            }
        }
        return Ok(None);
    }
    let wait = at.duration_since(now).max(SOON);
    Ok(Duration::try_from(wait).ok())
}

async fn observe(ctx: &Context, host: &Arc<Host>) -> Result<Observed, Error> {
    let uid = host.uid();
    let others = ctx.stores.hosts.state();
    let others = others.iter().filter(|other| other.uid() != uid);
    let look = ctx.hosts.finding(&uid.clone().unwrap_or_default());
    Ok(Observed {
        machine: machine_of(ctx, host).await?,
        others: others.filter_map(|other| Twin::of(other)).collect(),
        owner_is_here: look.as_ref().is_some_and(|look| is_owner_here(ctx, look)),
        look,
        allows_cgroup1: ctx.settings.providers.static_.allow_cgroup_v1,
        programs: programs::archives(&ctx.settings.providers.static_),
        host: Host::clone(host),
    })
}

/// Whether the file on a machine that nobody has names a Machine that there is.
fn is_owner_here(ctx: &Context, look: &Finding) -> bool {
    let Outcome::Seen { facts, .. } = &look.outcome else {
        return false;
    };
    let Some(owner) = facts.owner.as_ref().filter(|_| look.machine.is_none()) else {
        return false;
    };
    let machines = ctx.stores.machines.state();
    let mut machines = machines.iter();
    machines.any(|machine| machine.uid().as_ref() == Some(&owner.machine))
}

/// The Machine of the claim. One that the store does not have may be newer than the store, so the API is asked
/// before anything is undone.
async fn machine_of(ctx: &Context, host: &Host) -> Result<MachineState, Error> {
    let status = host.status.as_ref();
    let Some(claim) = status.and_then(|status| status.claim.as_ref()) else {
        return Ok(MachineState::Unknown);
    };
    let namespace = host.namespace().unwrap_or_default();
    let of_claim = |machine: &Machine| {
        let is_same = machine.uid().as_ref() == Some(&claim.machine_uid);
        let is_going = machine.metadata.deletion_timestamp.is_some();
        match (is_same, is_going) {
            (false, _) => MachineState::Gone,
            (true, true) => MachineState::Going,
            (true, false) => MachineState::Wanted,
        }
    };
    let key = ObjectRef::new(&claim.machine_name).within(&namespace);
    let known = ctx.stores.machines.get(&key);
    let known = known.map_or(MachineState::Gone, |machine| of_claim(&machine));
    if known != MachineState::Gone {
        return Ok(known);
    }
    let machines = Api::<Machine>::namespaced(ctx.client.clone(), &namespace);
    let live = machines.get_opt(&claim.machine_name).await;
    let live = live.map_err(|error| Error::Machine(Box::new(error)))?;
    Ok(live.map_or(MachineState::Gone, |machine| of_claim(&machine)))
}

async fn tell(ctx: &Context, host: &Host, plan: &Plan) {
    for told in &plan.told {
        let notice = Notice::warning(told.reason, &told.message);
        let events = &ctx.host_state.events;
        events.publish(&host.object_ref(&()), &notice).await;
    }
}

async fn write_finalizers(ctx: &Context, host: &Host, action: Action) -> Result<(), Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let mut finalizers = host.finalizers().to_vec();
    finalizers.retain(|finalizer| finalizer != names::FINALIZER_HOST);
    if action == Action::AddFinalizer {
        finalizers.push(names::FINALIZER_HOST.to_owned());
    }
    // A claim that came meanwhile makes it a conflict.
    let patch = json!({ "metadata": {
        "finalizers": finalizers, "resourceVersion": host.resource_version(),
    }});
    let hosts = Api::<Host>::namespaced(ctx.client.clone(), &host.namespace().unwrap_or_default());
    let (name, params) = (host.name_any(), PatchParams::default());
    match hosts.patch(&name, &params, &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        // Gone: that is what taking the finalizer off is for.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::Own(Box::new(error))),
    }
}

async fn write_status(ctx: &Context, host: &Host, plan: &Plan) -> Result<(), Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let object = json!({
        "apiVersion": Host::api_version(&()),
        "kind": Host::kind(&()),
        "metadata": {
            "name": host.name_any(), "namespace": host.namespace(), "uid": host.uid(),
            "resourceVersion": host.resource_version(),
        },
        "status": plan.status,
    });
    let written = kit_client::write::apply_status(&ctx.client, &object, FIELD_MANAGER, true).await;
    written.map(|_| ()).map_err(Error::Write)
}

/// When to try again after a failure: the class decides.
pub fn error_policy(host: Arc<Host>, error: &Error, ctx: Arc<Context>) -> Requeue {
    let class = error.class();
    let key = state::key_of(&*host);
    if class != Class::Conflict {
        tracing::warn!(
            host.name = host.name_any(),
            host.namespace = host.namespace().unwrap_or_default(),
            error.class = class.label(),
            error = kit_client::errors::chain(error),
            "reconcile of Host {key} failed"
        );
    }
    Requeue::requeue(ctx.host_state.retry(&key, class))
}
