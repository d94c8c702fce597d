//! Tells people: one status write when something changed, and Events.
//!
//! Invariant: a status that is as it was is not written.

use api::{ConditionStatus, ConditionType, Machine, MachineStatus, Reason, set_condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::events::Notice;
use kube::{Api, Resource, ResourceExt};

use super::apply::Error;
use super::observed::Observed;
use super::plan::Plan;
use crate::context::Context;
use crate::status;

/// Writes the status if it changed.
///
/// # Errors
/// [`Error::Write`] and [`Error::Fence`].
pub async fn report(ctx: &Context, plan: &Plan, observed: &mut Observed) -> Result<(), Error> {
    if observed.machine.status.as_ref() != Some(&plan.status) {
        let version = write(ctx, &observed.machine, &plan.status).await?;
        let pending = |status: &MachineStatus| status.creation_pending_since.is_some();
        if pending(&plan.status) && !observed.machine.status.as_ref().is_some_and(pending) {
            ctx.creations
                .begins(&observed.machine.uid().unwrap_or_default());
        }
        observed.machine.metadata.resource_version = version;
        observed.machine.status = Some(plan.status.clone());
    }
    Ok(())
}

/// Publishes a plan's Events; they never fail a reconcile.
pub async fn events(ctx: &Context, plan: &Plan, machine: &Machine) {
    let (events, regarding) = (&ctx.machine_state.events, machine.object_ref(&()));
    for notice in &plan.events {
        // Whoever has a kubelet's credential can be denied as often as he likes.
        match Reason::CertificateDenied == notice.reason {
            true => events.publish_by_reason(&regarding, notice).await,
            false => events.publish(&regarding, notice).await,
        };
    }
}

/// Says in the condition Ready and in an Event why a reconcile failed. That this fails too is only
/// logged: it is what is wrong most of the time.
pub async fn failure(ctx: &Context, machine: &Machine, reason: Reason, message: &str) {
    let (namespace, name) = (machine.namespace().unwrap_or_default(), machine.name_any());
    let machines = Api::<Machine>::namespaced(ctx.client.clone(), &namespace);
    let Ok(Some(machine)) = machines.get_opt(&name).await else {
        return;
    };
    let mut status = machine.status.clone().unwrap_or_default();
    let ready = ConditionType::Ready;
    let told = status
        .conditions
        .iter()
        .any(|c| c.type_ == ready.as_str() && c.status == "False" && c.reason == reason);
    if told {
        // The words differ with the request that failed first, and a write for each of them would
        // wake the reconcile again at once.
        return;
    }
    let generation = machine.metadata.generation;
    let (list, now) = (&mut status.conditions, Time(Timestamp::now()));
    set_condition(
        list,
        ready,
        ConditionStatus::False,
        reason,
        message,
        generation,
        now,
    );
    let notice = Notice::warning(reason, message);
    ctx.machine_state
        .events
        .publish(&machine.object_ref(&()), &notice)
        .await;
    if let Err(error) = write(ctx, &machine, &status).await {
        tracing::warn!(
            error = kit_client::errors::chain(&error),
            "could not write why the reconcile of Machine {namespace}/{name} failed"
        );
    }
}

/// Writes the status; gives the new resource version.
async fn write(
    ctx: &Context,
    machine: &Machine,
    status: &MachineStatus,
) -> Result<Option<String>, Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let written = status::write_status(&ctx.client, machine, status).await;
    written.map_err(Error::Write)
}
