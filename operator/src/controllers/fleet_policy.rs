//! Reconciles FleetPolicies: who may follow another operator now, and what the policy says of it.
//!
//! Invariant: nothing but its status is written, and only when it changes; it is computed from the stores, so a reconcile
//! asks nobody. What is decided holds before it is written: a status that cannot be written halts all the same.

use std::sync::Arc;
use std::time::Duration;

use api::condition::is_true;
use api::{ConditionType, FleetPolicy, FleetPolicyStatus, Reason};
use jiff::Timestamp;
use kit::events::Notice;
use kit_client::errors::Classify as _;
use kube::runtime::controller::Action as Requeue;
use kube::{Resource as _, ResourceExt as _};

use crate::context::Context;
use crate::controllers::status_only::{self, Error};
use crate::fleet::plan;
use crate::shards::plan::INSTALLATION;
use crate::state;

/// How long changes of tenant clusters are throttled.
pub const PERIOD: Duration = Duration::from_millis(500);

/// One reconcile, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(policy: Arc<FleetPolicy>, ctx: Arc<Context>) -> Result<Requeue, Error> {
    let (key, state) = (state::key_of(&*policy), &ctx.policy_state);
    let work = step(&ctx, &policy);
    let again = state.measure(&ctx.progress, &key, work).await?;
    Ok(state.succeeded(&key, again))
}

async fn step(ctx: &Context, policy: &FleetPolicy) -> Result<Option<Duration>, Error> {
    let now = Timestamp::now();
    let decided = ctx.renew_gate(now);
    ctx.trigger_next();
    let followed = ctx.stores.policy();
    let followed = followed.filter(|followed| followed.uid() != policy.uid());
    let (wanted, again) = match (followed, decided.status) {
        (Some(other), _) => (plan::ignored(policy, &other.name_any(), now), None),
        (None, Some(status)) => (status, decided.again),
        // It went meanwhile.
        (None, None) => return Ok(None),
    };
    let before = policy.status.clone().unwrap_or_default();
    if before != wanted {
        let write = async {
            status_only::write(ctx, policy, &wanted).await?;
            tell(ctx, policy, &before, &wanted).await;
            Ok::<_, Error>(())
        };
        // Of several replicas that decide the same one says so.
        if let Some(written) = ctx.shards.run(INSTALLATION, write).await {
            written?;
        }
    }
    let pause = again.map(|again| again.duration_since(now));
    // Later than the moment, never earlier: a look before it would be one for nothing.
    let pause = pause.and_then(|pause| Duration::try_from(pause).ok());
    Ok(pause.map(|pause| pause + Duration::from_millis(1)))
}

/// Tells people where it became something else.
async fn tell(
    ctx: &Context,
    policy: &FleetPolicy,
    before: &FleetPolicyStatus,
    now: &FleetPolicyStatus,
) {
    let said = |status: &FleetPolicyStatus, type_: ConditionType| {
        let mut conditions = status.conditions.iter();
        let found = conditions.find(|c| c.type_ == type_.as_str());
        found.map(|c| (c.reason.clone(), c.message.clone()))
    };
    let reasons = [
        Reason::FleetHalted,
        Reason::FleetPolicyUnusable,
        Reason::FleetPolicyIgnored,
    ];
    let degraded = said(now, ConditionType::Degraded);
    let is_new = degraded != said(before, ConditionType::Degraded);
    let notice = match degraded {
        Some((reason, message)) if is_new && is_true(&now.conditions, ConditionType::Degraded) => {
            let known = reasons.into_iter().find(|known| reason == *known);
            known.map(|known| Notice::warning(known, message))
        }
        _ => {
            let rested = |status| {
                let said = said(status, ConditionType::Progressing);
                said.is_some_and(|(reason, _)| reason == Reason::FleetRolledOut)
            };
            let is_over = rested(now) && is_true(&before.conditions, ConditionType::Progressing);
            is_over.then(|| {
                let message =
                    "all tenant clusters that are awake and not held back run from the operator's templates";
                Notice::normal(Reason::FleetRolledOut, message)
            })
        }
    };
    if let Some(notice) = notice {
        let events = &ctx.policy_state.events;
        events.publish(&policy.object_ref(&()), &notice).await;
    }
}

/// When to try again after a failure: the class decides.
pub fn error_policy(policy: Arc<FleetPolicy>, error: &Error, ctx: Arc<Context>) -> Requeue {
    let class = error.class();
    let key = state::key_of(&*policy);
    tracing::warn!(
        policy.name = policy.name_any(),
        error.class = class.label(),
        error = kit_client::errors::chain(error),
        "reconcile of FleetPolicy {key} failed"
    );
    Requeue::requeue(ctx.policy_state.retry(&key, class))
}
