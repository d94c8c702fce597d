//! Visits the tenant's API: lays what is missing inside the tenant cluster, and asks whether it
//! answers.
//!
//! Invariant: `system:masters` is held in memory only, for the rights alone, and only while they are
//! missing; whether the API answers is asked with the operator's ordinary identity.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use kube::{Client, ResourceExt};
use tenant_cp::{Object, certificates, desired};

use super::apply::Error;
use super::observed::{Observed, Tenant};
use super::plan::{Action, START_PATIENCE};
use crate::context::Context;
use crate::tenant;

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
        objects,
        hash,
        apply,
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
    let store = &observed.material.store;
    let (Some(ca), Some(operator)) = (store.get("ca"), store.get("operator")) else {
        return Ok(());
    };
    let dial = (ctx.dial)(&ns, SocketAddr::new(address.0, address.1));
    let place = |identity: &pki::KeyPair| tenant::Visit {
        address: dial,
        authority: ca.certificate.clone(),
        identity: identity.clone(),
    };
    // One hour in system:masters, in memory only, because the rights of everybody else are among
    // the objects that are laid here.
    let mut administrator = None;
    if *apply {
        let want = certificates::super_admin();
        administrator = Some(place(
            &pki::issue(&want, Some(ca), now).map_err(Error::Issue)?,
        ));
    }
    let (rights, others) = objects.iter().partition(|o| desired::is_privileged(o));
    let mut visit = Visitor {
        administrator,
        operator: place(operator),
        rights,
        others,
    };
    let deadline = tokio::time::Instant::now() + *patience;
    let mut result = visit.once().await;
    while result.is_err() && tokio::time::Instant::now() < deadline && ctx.leadership.is_leader() {
        tokio::time::sleep(VISIT_PAUSE).await;
        result = visit.once().await;
    }
    observed.tenant = match result {
        Ok(version) => {
            ctx.breaker.close(&uid);
            if ctx.starts.done(&uid) {
                ctx.wake_next();
            }
            Tenant::Answers {
                version,
                bootstrap_hash: hash.clone(),
            }
        }
        Err(error) => {
            let message = kit::errors::chain(&error);
            if *patience < START_PATIENCE {
                ctx.breaker.trip(&uid, pods, &message);
            }
            Tenant::Silent { message }
        }
    };
    Ok(())
}

/// Lays the objects where that is due, then asks with our ordinary identity, so that an answer
/// means that this identity is let in too.
struct Visitor<'a> {
    /// Lays only the rights of administrators and of the operator.
    administrator: Option<tenant::Visit>,
    operator: tenant::Visit,
    /// Rights that are still to be laid.
    rights: Vec<&'a Object>,
    /// Everything else that is still to be laid.
    others: Vec<&'a Object>,
}

impl Visitor<'_> {
    async fn once(&mut self) -> Result<String, tenant::Error> {
        if let Some(administrator) = &self.administrator
            && !self.rights.is_empty()
        {
            lay(&administrator.client()?, &mut self.rights).await?;
        }
        let client = self.operator.client()?;
        lay(&client, &mut self.others).await?;
        tenant::version(&client).await
    }
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
