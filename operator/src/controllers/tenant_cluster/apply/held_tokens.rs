//! Asks the tenant's API for tokens that Secrets hold.
//!
//! Invariant: it has a bounded time of its own, because nothing but a rotation waits for it. The operator's own user may
//! not read Secrets of a tenant, and does not.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use kit_client::errors::chain;

use super::sessions;
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::held_tokens::{self, HeldToken};

/// Longest time for all pages.
const PATIENCE: Duration = Duration::from_secs(4);

pub(super) async fn ask(
    ctx: &Context,
    address: (IpAddr, u16),
    observed: &mut Observed,
    now: Timestamp,
) {
    let held = answer(ctx, address, observed, now).await;
    observed.held_tokens = Some(held);
}

async fn answer(
    ctx: &Context,
    address: (IpAddr, u16),
    observed: &Observed,
    now: Timestamp,
) -> Result<Vec<HeldToken>, String> {
    if !sessions::lets(ctx, observed) {
        return Err("others that are slow to answer are asked first".to_owned());
    }
    let session = sessions::administrator(ctx, observed, address, true, now);
    let session = session.map_err(|error| chain(&error))?;
    let session = session.ok_or("keys of the operator are missing")?;
    let budget = Budget::waiting(PATIENCE);
    let client = session.client(&budget).map_err(|error| chain(&error))?;
    let asking = Box::pin(held_tokens::ask(&client));
    let asked = budget.within(asking).await;
    asked.map_err(|error| error.to_string())?
}
