//! Writes into the status how far a restore is.
//!
//! Invariant: what etcd is from then on is written together with it.

use api::tenant_cluster::{EtcdStatus, RestoreProgress};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use super::Error;
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::Observed;

pub(super) async fn keep(
    ctx: &Context,
    observed: &mut Observed,
    (restore, etcd): (&Option<RestoreProgress>, &Option<EtcdStatus>),
) -> Result<(), Error> {
    let before = observed.cluster.status.as_ref();
    let before = before.and_then(|status| status.restore.clone());
    super::keep(ctx, observed, |status| {
        status.restore.clone_from(restore);
        if let Some(etcd) = etcd {
            status.etcd = Some(etcd.clone());
        }
    })
    .await?;
    if let Some(named) = restore.as_ref().or(before.as_ref()) {
        let namespace = observed.cluster.namespace().unwrap_or_default();
        let restore = ObjectRef::new(&named.name).within(&namespace);
        // Fails only once the controllers have ended.
        let _ = ctx.triggers.restores.send(restore);
    }
    Ok(())
}
