//! Asks the tenant's API what speaks against an upgrade.
//!
//! Invariant: it has a bounded time of its own, because nothing but the upgrade waits for it; whatever goes wrong is
//! told as something that is not known.

use std::net::IpAddr;
use std::time::Duration;

use kit_client::errors::chain;
use kube::Client;
use tenant_cp::names::API_PORT;

use super::sessions;
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::preflight;
use crate::tenant_session::preflight::answers::Inside;

/// Longest time for all questions.
const PATIENCE: Duration = Duration::from_secs(4);

pub(super) async fn ask(
    ctx: &Context,
    address: (IpAddr, u16),
    servers: &[IpAddr],
    observed: &mut Observed,
) {
    let inside = answers(ctx, address, servers, observed).await;
    observed.preflight = Some(inside.unwrap_or_else(|why| Inside::unknown(&why)));
}

async fn answers(
    ctx: &Context,
    address: (IpAddr, u16),
    servers: &[IpAddr],
    observed: &Observed,
) -> Result<Inside, String> {
    if !sessions::lets(ctx, observed) {
        return Err("others that are slow to answer are asked first".to_owned());
    }
    let budget = Budget::waiting(PATIENCE);
    let client = |address: (IpAddr, u16)| -> Result<Client, String> {
        let session = sessions::operator(ctx, observed, address);
        let session = session.ok_or("keys of the operator are missing")?;
        session.client(&budget).map_err(|error| chain(&error))
    };
    let port = u16::try_from(API_PORT).unwrap_or(address.1);
    let each = servers.iter().map(|server| client((*server, port)));
    let each: Vec<_> = each.collect();
    let asked = client(address)?;
    let asking = Box::pin(preflight::ask(&asked, &each));
    budget
        .within(asking)
        .await
        .map_err(|error| error.to_string())
}
