//! Reads, and writes, whom aggregated API servers of a tenant cluster believe.
//!
//! Invariant: it has a bounded time of its own, because nothing but a rotation waits for it; of the ConfigMap two fields are
//! kept, and one is written.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;

use super::sessions;
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::tenant_session::aggregated::{self, Believed, Field};
use crate::tenant_session::budget::Budget;

/// Longest time for it.
const PATIENCE: Duration = Duration::from_secs(4);

pub(super) async fn ask(
    ctx: &Context,
    address: (IpAddr, u16),
    write: Option<&(Field, String)>,
    observed: &mut Observed,
    now: Timestamp,
) {
    let told = answer(ctx, address, write, observed, now).await;
    observed.aggregated = Some(told);
}

async fn answer(
    ctx: &Context,
    address: (IpAddr, u16),
    write: Option<&(Field, String)>,
    observed: &Observed,
    now: Timestamp,
) -> Result<Believed, String> {
    let budget = Budget::waiting(PATIENCE);
    let client = sessions::administering(ctx, observed, address, &budget, now)?;
    let asking = Box::pin(async {
        match write {
            Some((field, authorities)) => aggregated::write(&client, *field, authorities).await,
            None => aggregated::read(&client).await,
        }
    });
    let asked = budget.within(asking).await;
    asked.map_err(|error| error.to_string())?
}
