//! Carries out what gives a full etcd room again.
//!
//! Invariant: a member is asked to write its database anew only while it says that it does not, and no other one
//! says that it does; what etcd refuses is noted, and tried again by the next reconcile.

use std::net::IpAddr;

use futures::future::join_all;
use kit::lease::NotLeader;
use kube::Client;

use super::{CHANGE_PATIENCE, Members, ask, call, speaker};
use crate::context::Context;
use crate::controllers::tenant_cluster::apply::sessions;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::etcd_space::plan::Step;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::etcd::answers::Alarm;
use crate::tenant_session::{etcd, largest as sizes};

const NO_SPEAKER: &str = "no member of etcd answers that has a leader";

/// Carries out one step.
pub(in super::super) async fn relieve(
    ctx: &Context,
    (members, step): (Members<'_>, &Step),
    observed: &mut Observed,
) -> Result<(), NotLeader> {
    ctx.leadership.ensure()?;
    tracing::info!(
        tenant.namespace = observed.tenant_namespace(),
        ?step,
        "step towards more room in etcd"
    );
    let done = match step {
        Step::Compact { revision } => {
            let done = match speaker(members, observed) {
                Some(speaker) => {
                    let work = async |client: Client| etcd::compact(&client, *revision).await;
                    call(ctx, observed, speaker, CHANGE_PATIENCE, work).await
                }
                None => Err(NO_SPEAKER.to_owned()),
            };
            observed.etcd_space.is_compacted = done.is_ok();
            done
        }
        Step::Defragment { member } => defragment(ctx, members, member, observed).await,
        Step::Disarm { id } => disarm(ctx, members, id, observed).await,
    };
    observed.etcd_steps.done += 1;
    // What else is asked of the tenant in this reconcile needs time, too.
    observed.etcd_space.is_left |= observed.budget.waited() > Budget::WAIT / 2;
    if let Err(why) = done {
        tracing::info!(?step, why, "etcd did not carry out a step");
        observed.etcd_steps.refusal = Some(why);
    }
    // What was known of it is out of date.
    let list = observed.etcd_listing.is_some();
    ask(ctx, members, list, observed).await;
    Ok(())
}

/// Asked for once: a member that is asked again before it is done does it all again.
async fn defragment(
    ctx: &Context,
    members: Members<'_>,
    member: &str,
    observed: &mut Observed,
) -> Result<(), String> {
    let found = members.iter().find(|(name, _)| name == member);
    let (_, address) = found.ok_or("it has no address")?;
    let at = (member, *address);
    // It may not answer anything else meanwhile, so that another one would be next.
    if is_any_under_way(ctx, members, observed).await {
        observed.etcd_space.is_left = true;
        return Ok(());
    }
    // One that does not say so is not asked, so that it never does it twice.
    is_defragmenting(ctx, at, observed).await?;
    ctx.leadership.ensure().map_err(|e| e.to_string())?;
    let work = async |client: Client| etcd::defragment(&client).await;
    let done = call(ctx, observed, at, CHANGE_PATIENCE, work).await;
    // It goes on although nobody waits for it any more.
    if done.is_err() && is_defragmenting(ctx, at, observed).await == Ok(true) {
        observed.etcd_space.is_left = true;
        return Ok(());
    }
    done
}

/// Not while a member writes its database anew: its file is as large as before until that is done.
async fn disarm(
    ctx: &Context,
    members: Members<'_>,
    id: &str,
    observed: &mut Observed,
) -> Result<(), String> {
    if is_any_under_way(ctx, members, observed).await {
        observed.etcd_space.is_left = true;
        return Ok(());
    }
    ctx.leadership.ensure().map_err(|e| e.to_string())?;
    let speaker = speaker(members, observed).ok_or(NO_SPEAKER)?;
    let work = async |client: Client| etcd::disarm(&client, id, Alarm::NoSpace).await;
    call(ctx, observed, speaker, CHANGE_PATIENCE, work).await
}

/// Whether a member says that it writes its database anew now. One that says nothing is away: it is waited for
/// by nobody.
async fn is_any_under_way(ctx: &Context, members: Members<'_>, observed: &Observed) -> bool {
    let each = members
        .iter()
        .map(|(name, address)| is_defragmenting(ctx, (name, *address), observed));
    join_all(each).await.contains(&Ok(true))
}

async fn is_defragmenting(
    ctx: &Context,
    member: (&str, IpAddr),
    observed: &Observed,
) -> Result<bool, String> {
    call(ctx, observed, member, CHANGE_PATIENCE, async |client| {
        etcd::is_defragmenting(&client).await
    })
    .await
}

/// Asks which resources fill it.
pub(in super::super) async fn largest(
    ctx: &Context,
    address: (IpAddr, u16),
    observed: &mut Observed,
) {
    // Without it less is told, and nothing else depends on it: so it takes nothing of what others need, either.
    let budget = Budget::waiting(CHANGE_PATIENCE);
    let session = sessions::operator(ctx, observed, address);
    let session = session.filter(|_| sessions::lets(ctx, observed));
    let found = match session.and_then(|session| session.client(&budget).ok()) {
        Some(client) => budget.within(sizes::largest(&client)).await.ok(),
        None => None,
    };
    let found = found.and_then(Result::ok);
    observed.etcd_space.largest = Some(found.unwrap_or_default());
}
