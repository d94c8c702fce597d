//! Visits the tenant's API: asks whether it answers, looks at what is inside, and mends what differs.
//!
//! Invariant: `system:masters` is held in memory only, for rights and for what an addon left behind,
//! and only while such are to be written; whether the API answers is asked with the operator's
//! ordinary identity.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;
use kube::{Client, ResourceExt};
use serde_json::Value;
use tenant_cp::object::Key;
use tenant_cp::{Object, certificates, desired};

use super::apply::{self, Error};
use super::observed::{Observed, Seen, Tenant};
use super::plan::inside::{Inside, Pods, pods};
use super::plan::{Action, START_PATIENCE};
use crate::context::Context;
use crate::tenant;
use crate::tenant_watch;

mod release;

/// Pause between two visits of an API that is starting.
const VISIT_PAUSE: Duration = Duration::from_millis(100);

/// Asks the tenant's API until it answers or the patience is over.
pub(super) async fn visit(
    ctx: &Context,
    action: &Action,
    observed: &mut Observed,
    now: Timestamp,
) -> Result<(), Error> {
    let Action::Visit {
        address,
        endpoint,
        lay,
        look,
        provisional,
        workloads,
        patience,
    } = action
    else {
        return Ok(());
    };
    let cluster = &observed.cluster;
    let uid = cluster.uid().unwrap_or_default();
    let ns = api::names::tenant_namespace(&cluster.name_any(), &uid);
    let pods = observed.number("Deployment", &ns, "control-plane", "/status/readyReplicas");
    if let Some(message) = ctx
        .breaker
        .message(&uid, pods)
        .filter(|_| *patience < START_PATIENCE)
    {
        observed.tenant = Tenant::Silent { message };
        return Ok(());
    }
    let Some(operator) = place(ctx, observed, *address, None) else {
        return Ok(());
    };
    let (rights, others) = lay.iter().partition(|o| desired::is_privileged(o));
    let mut visit = Visitor {
        administrator: administrator(ctx, observed, *address, !lay.is_empty(), now)?,
        operator,
        rights,
        others,
        laid: !lay.is_empty(),
        look: *look,
        workloads,
    };
    if *look && !provisional {
        // Before it is read, so that what changes meanwhile is looked at again.
        ctx.tenants.looked(&uid);
    }
    let deadline = tokio::time::Instant::now() + *patience;
    let mut result = visit.once().await;
    while result.is_err() && tokio::time::Instant::now() < deadline && ctx.leadership.is_leader() {
        tokio::time::sleep(VISIT_PAUSE).await;
        result = visit.once().await;
    }
    observed.tenant = match result {
        Ok(answer) => {
            ctx.breaker.close(&uid);
            if ctx.starts.done(&uid) {
                ctx.wake_next();
            }
            if let Some(endpoint) = endpoint {
                let tenant = tenant_watch::Tenant {
                    uid,
                    cluster: ObjectRef::from_obj(cluster),
                    visit: visit.operator,
                    endpoint: endpoint.clone(),
                    has_nodes: observed.workers,
                };
                ctx.tenants.ensure(tenant).map_err(Error::Inside)?;
            }
            answer
        }
        Err(error) => {
            if *look {
                ctx.tenants.suspect(&uid);
            }
            let message = kit::errors::chain(&error);
            if *patience < START_PATIENCE {
                ctx.breaker.trip(&uid, pods, &message);
            }
            Tenant::Silent { message }
        }
    };
    Ok(())
}

/// Writes what differs inside the tenant cluster, and deletes what is left over there.
pub(super) async fn mend(
    ctx: &Context,
    address: (IpAddr, u16),
    inside: &Inside,
    observed: &mut Observed,
    now: Timestamp,
) -> Result<(), Error> {
    let result = Box::pin(mend_all(ctx, address, inside, observed, now)).await;
    if result.is_err() {
        ctx.tenants
            .suspect(&observed.cluster.uid().unwrap_or_default());
    }
    result
}

async fn mend_all(
    ctx: &Context,
    address: (IpAddr, u16),
    inside: &Inside,
    observed: &mut Observed,
    now: Timestamp,
) -> Result<(), Error> {
    let Some(operator) = place(ctx, observed, address, None) else {
        return Ok(());
    };
    let (mut rights, mut others): (Vec<_>, Vec<_>) =
        inside.apply.iter().partition(|o| desired::is_privileged(o));
    let powers = !rights.is_empty() || !inside.delete.is_empty();
    if let Some(administrator) = administrator(ctx, observed, address, powers, now)? {
        let client = administrator.client().map_err(Error::Inside)?;
        lay(&client, &mut rights).await.map_err(Error::Inside)?;
        if inside.release {
            release::services(ctx, &client).await?;
        }
        for target in &inside.delete {
            ctx.leadership.ensure().map_err(Error::Fence)?;
            let deleted = apply::delete(&client, target).await;
            deleted.map_err(|source| Error::Inside(tenant::Error::DeleteObject(source)))?;
        }
    }
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let client = operator.client().map_err(Error::Inside)?;
    lay(&client, &mut others).await.map_err(Error::Inside)?;
    if let Tenant::Answers {
        seen: Seen::Objects(live),
        ..
    } = &mut observed.tenant
    {
        live.retain(|key, _| !inside.delete.iter().any(|target| target.key == *key));
        live.extend(
            inside
                .apply
                .iter()
                .map(|object| (object.key(), object.value.clone())),
        );
    }
    Ok(())
}

/// Where the tenant's API is reached, as the operator or as somebody else; none while keys are
/// missing.
fn place(
    ctx: &Context,
    observed: &Observed,
    address: (IpAddr, u16),
    identity: Option<pki::KeyPair>,
) -> Option<tenant::Visit> {
    let cluster = &observed.cluster;
    let ns = api::names::tenant_namespace(&cluster.name_any(), &cluster.uid().unwrap_or_default());
    let store = &observed.material.store;
    Some(tenant::Visit {
        address: (ctx.dial)(&ns, SocketAddr::new(address.0, address.1)),
        authority: store.get("ca")?.certificate.clone(),
        identity: identity.or_else(|| store.get("operator").cloned())?,
    })
}

/// One hour in system:masters, in memory only, because the rights of everybody else are among the
/// objects that are laid. None where it is not needed.
fn administrator(
    ctx: &Context,
    observed: &Observed,
    address: (IpAddr, u16),
    needed: bool,
    now: Timestamp,
) -> Result<Option<tenant::Visit>, Error> {
    let Some(ca) = observed.material.store.get("ca").filter(|_| needed) else {
        return Ok(None);
    };
    let pair = pki::issue(&certificates::super_admin(), Some(ca), now).map_err(Error::Issue)?;
    Ok(place(ctx, observed, address, Some(pair)))
}

/// Lays the objects where that is due, then asks with our ordinary identity, so that an answer
/// means that this identity is let in too.
struct Visitor<'a> {
    /// Lays only rights.
    administrator: Option<tenant::Visit>,
    operator: tenant::Visit,
    /// Rights that are still to be laid.
    rights: Vec<&'a Object>,
    /// Everything else that is still to be laid.
    others: Vec<&'a Object>,
    laid: bool,
    look: bool,
    workloads: &'a [Key],
}

impl Visitor<'_> {
    async fn once(&mut self) -> Result<Tenant, tenant::Error> {
        if let Some(administrator) = &self.administrator
            && !self.rights.is_empty()
        {
            lay(&administrator.client()?, &mut self.rights).await?;
        }
        let client = self.operator.client()?;
        lay(&client, &mut self.others).await?;
        let version = tenant::version(&client).await?;
        let seen = match (self.laid, self.look) {
            (true, _) => Seen::Laid,
            (false, true) => match tenant::look(&client).await? {
                Some(objects) => Seen::Objects(objects),
                None => Seen::Hidden,
            },
            (false, false) => Seen::Nothing,
        };
        let pods = match &seen {
            Seen::Objects(live) => count(live, self.workloads),
            _ => count(
                &tenant::workloads(&client, self.workloads).await?,
                self.workloads,
            ),
        };
        Ok(Tenant::Answers {
            version,
            seen,
            pods,
        })
    }
}

fn count(live: &BTreeMap<Key, Value>, workloads: &[Key]) -> BTreeMap<Key, Pods> {
    let of = |key: &Key| Some((key.clone(), pods(live.get(key)?)));
    workloads.iter().filter_map(of).collect()
}

/// Lays objects; what is left afterwards is what failed.
async fn lay(client: &Client, objects: &mut Vec<&Object>) -> Result<(), tenant::Error> {
    match tenant::bootstrap(client, objects).await {
        Ok(()) => objects.clear(),
        Err(left) => {
            *objects = left.objects;
            return Err(left.error);
        }
    }
    Ok(())
}
