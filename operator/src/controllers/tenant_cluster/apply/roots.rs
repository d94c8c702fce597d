//! Asks the tenant's API whom pods and nodes are told to believe it by.
//!
//! Invariant: it has a bounded time of its own, because nothing but a rotation waits for it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;

use super::sessions;
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::roots;

/// Longest time for all pages.
const PATIENCE: Duration = Duration::from_secs(4);

pub(super) async fn ask(
    ctx: &Context,
    address: (IpAddr, u16),
    observed: &mut Observed,
    now: Timestamp,
) {
    let told = answer(ctx, address, observed, now).await;
    observed.roots = Some(told);
}

async fn answer(
    ctx: &Context,
    address: (IpAddr, u16),
    observed: &Observed,
    now: Timestamp,
) -> Result<BTreeSet<String>, String> {
    let budget = Budget::waiting(PATIENCE);
    let client = sessions::administering(ctx, observed, address, &budget, now)?;
    let asked = budget.within(Box::pin(roots::ask(&client))).await;
    asked.map_err(|error| error.to_string())?
}
