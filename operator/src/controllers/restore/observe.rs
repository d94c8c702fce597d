//! Reads what the plan of a Restore may depend on. Decides nothing.
//!
//! Invariant: the process only reads its target for it, one moment at a time.

use api::{Restore, TenantCluster};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use super::plan::{Observed, has_to_be_chosen};
use crate::context::Context;
use crate::controllers::tenant_backup::error::Error;
use crate::controllers::tenant_backup::observe;
use crate::controllers::tenant_backup::report::{self, Choice};
use crate::restoring::begin::{cluster_id, moment, short, source};

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
        if !has_to_be_chosen(restore, cluster) {
            return None;
        }
        let inside = cluster.status.as_ref()?.namespace.clone()?;
        let of_now = cluster_id(cluster)?.to_owned();
        let source = source(restore, cluster)?.to_owned();
        Some((inside, (source, of_now), moment(restore)?))
    });
    let mut observed = Observed {
        cluster,
        choice: None,
        durable: None,
    };
    let Some((inside, (source, of_now), moment)) = asks else {
        return Ok(observed);
    };
    let pod = observe::newest_pod(ctx, &inside).await?;
    if let Some(address) = pod.and_then(|(_, address)| address) {
        let choice = report::ask_moment(address, &source, &moment).await;
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
        if !restore.spec.dry_run {
            let report = report::ask(address).await.ok();
            // How far the one is that is replaced, whichever is read.
            let known = report.filter(|report| {
                let of_it = report.cluster.as_deref().map(short) == Some(of_now.as_str());
                report.looked && report.durable > 0 && of_it
            });
            observed.durable = known.map(|report| report.durable);
        }
    }
    Ok(observed)
}
