//! Reads what the plan of a Snapshot may depend on. Decides nothing.
//!
//! Invariant: of the process only what it says of itself is asked, which changes nothing there.

use std::net::SocketAddr;
use std::sync::Arc;

use api::{Snapshot, TenantCluster};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use super::plan::Observed;
use crate::context::Context;
use crate::controllers::tenant_backup::error::Error;
use crate::controllers::tenant_backup::{observe, report};

/// Looks; beside it, where the process answers.
///
/// # Errors
/// [`Error::Read`]; then nothing is known.
pub async fn observe(
    ctx: &Context,
    snapshot: &Snapshot,
) -> Result<(Observed, Option<SocketAddr>), Error> {
    let namespace = snapshot.namespace().unwrap_or_default();
    let named = ObjectRef::<TenantCluster>::new(&snapshot.spec.cluster_name).within(&namespace);
    let cluster = ctx.stores.clusters.get(&named);
    let has_backup = |cluster: &&Arc<TenantCluster>| cluster.spec.backup.is_some();
    let tenant_namespace = cluster
        .as_ref()
        .filter(has_backup)
        .and_then(|cluster| cluster.status.as_ref()?.namespace.clone());
    let mut observed = Observed {
        cluster,
        ..Observed::default()
    };
    let Some(tenant_namespace) = tenant_namespace else {
        return Ok((observed, None));
    };
    let pod = observe::newest_pod(ctx, &tenant_namespace).await?;
    let Some(address) = pod.and_then(|(_, address)| address) else {
        return Ok((observed, None));
    };
    observed.report = report::ask(address).await.ok();
    let name = snapshot.status.as_ref().and_then(|s| s.name.as_deref());
    if let (Some(name), Some(_)) = (name, &observed.report) {
        observed.answer = Some(report::ask_of(address, name, None).await);
    }
    Ok((observed, Some(address)))
}
