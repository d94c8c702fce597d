//! Carries out what gives a full etcd room again.
//!
//! Invariant: a member is asked to write its database anew only while it says that it does not; what etcd refuses
//! is noted, and tried again by the next reconcile.

use std::net::IpAddr;

use kit::lease::NotLeader;
use kube::Client;

use super::{CHANGE_PATIENCE, Members, ask, call, speaker};
use crate::context::Context;
use crate::controllers::tenant_cluster::apply::sessions;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::etcd_space::plan::Step;
use crate::tenant_session::etcd::answers::Alarm;
use crate::tenant_session::{etcd, largest as sizes};

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
        "etcd has no space left"
    );
    let done = match step {
        Step::Compact { revision } => {
            let done = match speaker(members, observed) {
                Some(speaker) => {
                    let work = async |client: Client| etcd::compact(&client, *revision).await;
                    call(ctx, observed, speaker, CHANGE_PATIENCE, work).await
                }
                None => Err("no member of etcd answers that has a leader".to_owned()),
            };
            observed.etcd_space.is_compacted = done.is_ok();
            done
        }
        Step::Defragment { member } => defragment(ctx, members, member, observed).await,
        Step::Disarm { id } => match speaker(members, observed) {
            Some(speaker) => {
                let work = async |client: Client| etcd::disarm(&client, id, Alarm::NoSpace).await;
                call(ctx, observed, speaker, CHANGE_PATIENCE, work).await
            }
            None => Err("no member of etcd answers that has a leader".to_owned()),
        },
    };
    observed.etcd_steps.done += 1;
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
    let asked = call(ctx, observed, at, CHANGE_PATIENCE, async |client| {
        etcd::is_defragmenting(&client).await
    });
    let is_under_way = asked.await?;
    observed.etcd_space.is_under_way = is_under_way;
    if is_under_way {
        return Ok(());
    }
    ctx.leadership.ensure().map_err(|e| e.to_string())?;
    let work = async |client: Client| etcd::defragment(&client).await;
    call(ctx, observed, at, CHANGE_PATIENCE, work).await
}

/// Asks which resources fill it.
pub(in super::super) async fn largest(
    ctx: &Context,
    address: (IpAddr, u16),
    observed: &mut Observed,
) {
    // Without it less is told, and nothing else depends on it.
    let asked = match sessions::operator(ctx, observed, address) {
        Some(session) if sessions::lets(ctx, observed) => match session.client(&observed.budget) {
            Ok(client) => {
                let asked = tokio::time::timeout(CHANGE_PATIENCE, sizes::largest(&client));
                observed.budget.within(asked).await.ok()
            }
            Err(_) => None,
        },
        _ => None,
    };
    let found = asked.and_then(|asked| asked.ok()?.ok());
    observed.etcd_space.largest = Some(found.unwrap_or_default());
}
