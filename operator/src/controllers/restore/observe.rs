//! Reads what the plan of a Restore may depend on. Decides nothing.
//!
//! Invariant: the process only reads its target for it, one moment at a time.

use api::{Restore, TenantCluster};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use super::plan::{Observed, cluster_id, moment};
use crate::context::Context;
use crate::controllers::tenant_backup::error::Error;
use crate::controllers::tenant_backup::observe;
use crate::controllers::tenant_backup::report::{self, Choice};

/// Looks.
///
/// # Errors
/// [`Error::Read`]; then nothing is known.
pub async fn observe(ctx: &Context, restore: &Restore) -> Result<Observed, Error> {
    let namespace = restore.namespace().unwrap_or_default();
    let named = ObjectRef::<TenantCluster>::new(&restore.spec.cluster_name).within(&namespace);
    let cluster = ctx.stores.clusters.get(&named);
    let asks = cluster.as_ref().and_then(|cluster| {
        cluster.spec.backup.as_ref()?;
        let inside = cluster.status.as_ref()?.namespace.clone()?;
        Some((inside, cluster_id(cluster)?.to_owned(), moment(restore)?))
    });
    let mut observed = Observed {
        cluster,
        choice: None,
    };
    let Some((inside, id, moment)) = asks else {
        return Ok(observed);
    };
    let pod = observe::newest_pod(ctx, &inside).await?;
    if let Some(address) = pod.and_then(|(_, address)| address) {
        let choice = report::ask_moment(address, &id, &moment).await;
        if let Choice::Unknown(why) = &choice {
            tracing::info!(
                restore.name = restore.name_any(),
                restore.namespace = namespace,
                moment,
                why,
                "the process that backs the tenant cluster up does not say whether it can be had"
            );
        }
        observed.choice = Some(choice);
    }
    Ok(observed)
}
