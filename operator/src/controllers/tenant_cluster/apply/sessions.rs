//! Sessions with the tenant's API that a plan is carried out with: the operator's and, for rights, the
//! administrator's.
//!
//! Invariant: `system:masters` is held in memory only, for rights and for what an addon left behind,
//! and only while such are to be written.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::tenant_cluster::EndpointStatus;
use jiff::Timestamp;
use kit_client::errors::chain;
use kube::Client;
use kube::runtime::reflector::ObjectRef;
use tenant_cp::generations::bundle;
use tenant_cp::network::metadata;
use tenant_cp::{certificates, names};

use crate::context::Context;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::state;
use crate::tenant_session::api_probes::Probed;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::bulkhead::Pass;
use crate::tenant_session::session::{Error, Session};

/// Looking a name up takes no longer.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The operator's own; none while keys are missing.
pub(super) fn operator(
    ctx: &Context,
    observed: &Observed,
    address: (IpAddr, u16),
) -> Option<Session> {
    let identity = observed.material.store.get("operator")?.clone();
    session(ctx, observed, address, identity)
}

/// The operator's own at the published endpoint; none where that is the Service's address, or keys are
/// missing.
pub(super) async fn published(
    ctx: &Context,
    observed: &Observed,
    address: (IpAddr, u16),
    endpoint: &EndpointStatus,
) -> Option<Result<Session, io::Error>> {
    let port = u16::try_from(endpoint.port).ok()?;
    let ip = endpoint.host.parse::<IpAddr>().ok();
    if ip == Some(address.0) && port == address.1 {
        return None;
    }
    let found = match ip {
        Some(ip) => Ok(ip),
        None => resolve(&endpoint.host, port).await,
    };
    let found = found.and_then(|ip| match metadata::is_nobodys(ip) {
        true => Err(io::Error::other(format!("{ip} is nobody's API"))),
        false => Ok(ip),
    });
    let found = match found {
        Ok(found) => found,
        Err(error) => return Some(Err(error)),
    };
    let session = operator(ctx, observed, (found, port))?;
    Some(Ok(Session {
        server_name: endpoint.host.clone(),
        ..session
    }))
}

async fn resolve(host: &str, port: u16) -> Result<IpAddr, io::Error> {
    let found = tokio::time::timeout(RESOLVE_TIMEOUT, tokio::net::lookup_host((host, port)));
    let found = found.await.map_err(io::Error::from)??.next();
    found
        .map(|address| address.ip())
        .ok_or_else(|| io::Error::other(format!("{host} has no address")))
}

/// With a member of etcd; none while keys are missing.
pub(super) fn etcd(
    ctx: &Context,
    observed: &Observed,
    member: &str,
    address: IpAddr,
) -> Option<Session> {
    let port = u16::try_from(names::ETCD_HTTP_PORT).ok()?;
    let store = &observed.material.store;
    Some(Session {
        address: (ctx.dial)(&observed.tenant_namespace(), SocketAddr::new(address, port)),
        authority: bundle(store, names::ETCD_CA)?,
        identity: store.get(names::ETCD_HEALTHCHECK_CLIENT)?.clone(),
        server_name: member.to_owned(),
    })
}

/// Lets this reconcile ask the tenant's API; none when others that are slow have to be done with first,
/// after which it is triggered.
pub(super) fn enter(ctx: &Context, observed: &Observed) -> Option<Pass> {
    let cluster = ObjectRef::from_obj(&observed.cluster);
    let uid = observed.cluster.identity_uid().to_owned();
    let (object, clusters) = (state::key(&cluster), ctx.triggers.clusters.clone());
    // Fails only once the controller has ended.
    let wake = Box::new(move || drop(clusters.send(cluster)));
    ctx.cluster_bulkhead
        .enter(&uid, &object, &observed.budget, wake)
}

/// Whether this reconcile may ask the tenant now for what it can do without; of one that is known to be silent
/// it may, because it is looked at seldom.
pub(super) fn lets(ctx: &Context, observed: &Observed) -> bool {
    let uid = observed.cluster.identity_uid();
    let object = state::key_of(&observed.cluster);
    ctx.recovery_probes.silence(uid).is_some()
        || ctx.cluster_bulkhead.lets(uid, &object, &observed.budget)
}

/// This reconcile asks the tenant's API no more: it is known that it does not answer.
pub(super) fn leave(ctx: &Context, observed: &Observed) {
    let cluster = ObjectRef::from_obj(&observed.cluster);
    ctx.cluster_bulkhead.leave(&state::key(&cluster));
}

/// One whose API is asked outside of reconciles, as whom, and where.
pub(super) fn probed<'a>(
    ctx: &Context,
    observed: &'a Observed,
    (session, address): (&'a Session, (IpAddr, u16)),
) -> Probed<'a> {
    let (dial, ns) = (Arc::clone(&ctx.dial), observed.tenant_namespace());
    Probed {
        uid: observed.cluster.identity_uid(),
        cluster: ObjectRef::from_obj(&observed.cluster),
        session,
        pods: Some(ready_pods(observed)),
        elapsed: Duration::ZERO,
        wait: ctx.tenant_wait,
        dial: Box::new(move || dial(&ns, SocketAddr::from(address))),
    }
}

/// Notes that the API did not answer, or not well enough: it is left in peace by all, and probed.
pub(super) fn fell_silent(
    ctx: &Context,
    observed: &Observed,
    at: (&Session, (IpAddr, u16)),
    message: &str,
) -> Result<(), Error> {
    let probed = probed(ctx, observed, at);
    ctx.breaker.trip(probed.uid, message);
    ctx.recovery_probes.fell_silent(probed, message)
}

/// Ready pods of the control plane, 0 while they are not known: when they change, a breaker is asked again.
pub(super) fn ready_pods(observed: &Observed) -> i64 {
    let ns = observed.tenant_namespace();
    let ready = observed.number("Deployment", &ns, "control-plane", "/status/readyReplicas");
    ready.or_absent(0).unwrap_or(0)
}

/// With some identity; none while the authority is missing.
fn session(
    ctx: &Context,
    observed: &Observed,
    address: (IpAddr, u16),
    identity: pki::KeyPair,
) -> Option<Session> {
    let ns = observed.tenant_namespace();
    let store = &observed.material.store;
    Some(Session {
        address: (ctx.dial)(&ns, SocketAddr::new(address.0, address.1)),
        authority: bundle(store, names::CA)?,
        identity,
        server_name: "kubernetes".to_owned(),
    })
}

/// One hour in system:masters, in memory only, because the rights of everybody else are among the
/// objects that are applied. None where it is not needed.
pub(super) fn administrator(
    ctx: &Context,
    observed: &Observed,
    address: (IpAddr, u16),
    needed: bool,
    now: Timestamp,
) -> Result<Option<Session>, pki::Error> {
    let material = &observed.material;
    // Of several generations the oldest, where nobody says which one signs: every kube-apiserver believes it.
    let signer = material.signer(names::CLIENT_CA);
    let signer = signer.and_then(|signer| material.store.get(signer));
    let Some(signer) = signer.filter(|_| needed) else {
        return Ok(None);
    };
    let pair = pki::issue(&certificates::super_admin(), Some(signer), now)?;
    Ok(session(ctx, observed, address, pair))
}

/// The administrator's client for what a rotation or sleep asks and writes, within a budget of its own: the tenant is asked only
/// while nobody else is kept waiting by it, and only by who leads.
///
/// # Errors
/// Why there is none now.
pub(super) fn administering(
    ctx: &Context,
    observed: &Observed,
    address: (IpAddr, u16),
    budget: &Budget,
    now: Timestamp,
) -> Result<Client, String> {
    if !lets(ctx, observed) {
        return Err("others that are slow to answer are asked first".to_owned());
    }
    ctx.leadership.ensure().map_err(|error| chain(&error))?;
    let session = administrator(ctx, observed, address, true, now);
    let session = session.map_err(|error| chain(&error))?;
    let session = session.ok_or("keys of the operator are missing")?;
    session.client(budget).map_err(|error| chain(&error))
}
