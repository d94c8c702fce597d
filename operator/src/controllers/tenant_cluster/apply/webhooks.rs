//! Asks the tenant's API about webhooks that would keep it from waking, and lets requests pass them meanwhile.
//!
//! Invariant: it has a bounded time of its own, because nothing but sleep waits for it; whatever goes wrong is told as
//! something that is not known.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use kit_client::errors::chain;

use super::sessions;
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::hibernation::seen::Blocking;
use crate::hibernation::webhooks::Step;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::preflight::webhooks::relaxed;

/// Longest time for all questions.
const PATIENCE: Duration = Duration::from_secs(4);

pub(super) async fn ask(
    ctx: &Context,
    address: (IpAddr, u16),
    step: Step,
    observed: &mut Observed,
    now: Timestamp,
) {
    let blocking = blocking(ctx, address, step, observed, now).await;
    let blocking = blocking.map_or_else(Blocking::Unknown, Blocking::By);
    if let Some(look) = &mut observed.usage.now {
        look.blocking = Some(blocking.clone());
        let uid = observed.cluster.identity_uid();
        ctx.usage_looks.record(uid, look.clone());
    }
    if let Some(seen) = &mut observed.hibernation {
        seen.blocking = Some(blocking);
    }
}

async fn blocking(
    ctx: &Context,
    address: (IpAddr, u16),
    step: Step,
    observed: &Observed,
    now: Timestamp,
) -> Result<Vec<String>, String> {
    let budget = Budget::waiting(PATIENCE);
    let client = match step {
        Step::Look if !sessions::lets(ctx, observed) => {
            return Err("others that are slow to answer are asked first".to_owned());
        }
        Step::Look => {
            let session = sessions::operator(ctx, observed, address);
            let session = session.ok_or("keys of the operator are missing")?;
            session.client(&budget).map_err(|error| chain(&error))?
        }
        // Admission is the administrator's, as rights are.
        Step::Relax | Step::Restore => {
            sessions::administering(ctx, observed, address, &budget, now)?
        }
    };
    let asking = async {
        match step {
            Step::Look => relaxed::blocking(&client).await,
            Step::Relax => {
                relaxed::relax(&client).await?;
                relaxed::blocking(&client).await
            }
            Step::Restore => relaxed::restore(&client).await,
        }
    };
    let asked = budget.within(Box::pin(asking)).await;
    asked.map_err(|error| error.to_string())?
}
