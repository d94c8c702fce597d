//! Takes the identity of a control plane over that runs already.
//!
//! Invariant: the tenant namespace says whose it is before the status does, and the status says it before anything is made:
//! a crash in between finds the same identity again.

use api::tenant_cluster::{TenantClusterStatus, TenantIdentity};
use api::{Reason, TenantCluster};
use kit::events::Notice;
use kit::lease::NotLeader;
use kube::{Api, ResourceExt as _};

use crate::context::Context;
use crate::standby::{fit, takeover};

/// Why it is not known whether one was taken over.
#[derive(Debug)]
pub(super) enum Error {
    /// Another operator may lead.
    Fence(NotLeader),
    /// What the API said.
    Ask(Box<kube::Error>),
}

/// Takes over the first that is free; gives the status that is to be written then, before anything else, and what people
/// are told. None where all are somebody's.
pub(super) async fn take_over(
    ctx: &Context,
    candidates: &[TenantIdentity],
    cluster: &TenantCluster,
) -> Result<Option<(TenantClusterStatus, Notice)>, Error> {
    let failed = |source| Error::Ask(Box::new(source));
    let uid = cluster.uid().unwrap_or_default();
    let mut taken = None;
    for candidate in candidates {
        ctx.leadership.ensure().map_err(Error::Fence)?;
        let is_ours = takeover::take(&ctx.client, candidate, &uid).await;
        if is_ours.map_err(failed)? {
            taken = Some(candidate.clone());
            break;
        }
    }
    let Some(identity) = taken else {
        return Ok(None);
    };
    let of = Api::<TenantCluster>::namespaced(ctx.client.clone(), &identity.namespace);
    let of = of.get_opt(&identity.name).await.map_err(failed)?;
    let of = of.filter(|of| of.metadata.uid.as_ref() == Some(&identity.uid));
    // Where it is gone, what is so of the parts is found anew.
    let status = of.and_then(|of| of.status).unwrap_or_default();
    // Whatever was begun for the identity was begun for the one that it was made for.
    ctx.forget(&identity.uid);
    if ctx.rollout_queue.done(&uid) {
        ctx.trigger_next();
    }
    let message = format!(
        "took over a control plane that ran already: its parts are in {} and bear the name {}",
        identity.tenant_namespace(),
        identity.name
    );
    let said = Notice::normal(Reason::TookOver, message);
    Ok(Some((fit::inherited(status, identity), said)))
}
