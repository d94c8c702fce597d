//! Reads what the plan of a Restore may depend on. Decides nothing.
//!
//! Invariant: the process only reads its target for it, one moment at a time.

use std::sync::Arc;

use api::restore::Orphan;
use api::{Restore, TenantCluster};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use tenant_cp::backup::source::needed_kms;

use super::inside;
use super::into::{self, Into};
use super::plan::{
    Observed, Reached, has_to_be_chosen, looks_for_orphans, looks_for_volumes, newest, reached,
};
use crate::context::Context;
use crate::controllers::tenant_backup::error::Error;
use crate::controllers::tenant_backup::observe;
use crate::controllers::tenant_backup::report::{self, Choice};
use crate::controllers::tenant_cluster::observe::restore::balancers;
use crate::restoring::Mark;
use crate::restoring::begin::{awaits, cluster_id, moment, other, source};
use crate::restoring::volumes::Listed;

/// The moment that is asked for where none is named.
const LATEST: &str = "latest";

/// Looks.
///
/// # Errors
/// [`Error::Read`]; then nothing is known.
pub async fn observe(ctx: &Context, restore: &Restore) -> Result<Observed, Error> {
    let namespace = restore.namespace().unwrap_or_default();
    let named = ObjectRef::<TenantCluster>::new(&restore.spec.cluster_name).within(&namespace);
    let cluster = ctx.stores.clusters.get(&named);
    if let Some(cluster) = &cluster
        && let Some(uid) = other(restore, cluster)
        && awaits(cluster)
        && has_to_be_chosen(restore, cluster)
    {
        return of_another(ctx, restore, cluster, uid).await;
    }
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
    let lacks_kms = cluster.as_ref().and_then(|cluster| {
        let known = &ctx.settings.encryption;
        let mut needed = needed_kms(cluster).into_iter();
        let lacking = needed.find(|kms| known.of(&kms.name).is_none());
        lacking.map(|kms| kms.name)
    });
    let mut observed = Observed {
        cluster,
        lacks_kms,
        ..Observed::default()
    };
    observed.balancers = match &observed.cluster {
        Some(cluster) if looks_for_orphans(restore, cluster) => kept(ctx, restore, cluster).await?,
        Some(_) | None => None,
    };
    observed.volumes = match &observed.cluster {
        Some(cluster) => volumes(ctx, restore, cluster).await?,
        None => None,
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
        if !restore.spec.dry_run {
            let report = report::ask(address).await.ok();
            observed.durable = match report.as_ref().map(|report| reached(report, &of_now)) {
                // One that came up after etcd was lost never asked that, and the target says how far watches had come.
                Some(Reached::Unasked) if moment == LATEST && source == of_now => newest(&choice),
                Some(Reached::Unasked) => {
                    newest(&report::ask_moment(address, &of_now, LATEST).await)
                }
                Some(Reached::At(durable)) => Some(durable),
                Some(Reached::Unknown) | None => None,
            };
        }
        observed.choice = Some(choice);
    }
    Ok(observed)
}

/// Load balancers of the tenant namespace; none where there is no such namespace.
async fn kept(
    ctx: &Context,
    restore: &Restore,
    cluster: &TenantCluster,
) -> Result<Option<Vec<(Mark, Orphan)>>, Error> {
    let inside = cluster.status.as_ref().and_then(|s| s.namespace.clone());
    let (Some(inside), Some(uid)) = (inside, restore.uid()) else {
        return Ok(None);
    };
    let found = balancers(ctx, &inside, &uid).await;
    let found = found.map_err(|unread| Error::Read {
        what: "load balancers of the tenant namespace",
        source: unread.source,
    })?;
    let each = found
        .into_values()
        .map(|balancer| (balancer.mark, balancer.told));
    Ok(Some(each.collect()))
}

/// Volumes of the tenant cluster, and when the restore began; none where nobody has to know.
async fn volumes(
    ctx: &Context,
    restore: &Restore,
    cluster: &TenantCluster,
) -> Result<Option<(Listed, Timestamp)>, Error> {
    let namespace = cluster.status.as_ref().and_then(|s| s.namespace.as_ref());
    let (Some(since), Some(namespace)) = (looks_for_volumes(restore, cluster), namespace) else {
        return Ok(None);
    };
    let look = inside::list(ctx, restore, cluster, namespace).await?;
    Ok(Some((look, since)))
}

/// Of one that is to become another TenantCluster.
async fn of_another(
    ctx: &Context,
    restore: &Restore,
    cluster: &Arc<TenantCluster>,
    uid: &str,
) -> Result<Observed, Error> {
    let into = into::reconcile(ctx, restore, cluster, uid).await?;
    let mut observed = Observed {
        cluster: Some(Arc::clone(cluster)),
        into: Some(into),
        ..Observed::default()
    };
    let inside = cluster.status.as_ref().and_then(|s| s.namespace.clone());
    let asks = (inside, source(restore, cluster), moment(restore));
    let (Some(inside), Some(source), Some(moment)) = asks else {
        return Ok(observed);
    };
    let pod = match observed.into {
        Some(Into::Ready) => observe::newest_pod(ctx, &inside).await?,
        _ => None,
    };
    if let Some(address) = pod.and_then(|(_, address)| address) {
        let choice = report::ask_moment(address, source, &moment).await;
        // How far watches of then had come is what its backup has, and what raises are above.
        let found = match moment == LATEST {
            true => choice.clone(),
            false => report::ask_moment(address, source, LATEST).await,
        };
        observed.choice = Some(choice);
        observed.durable = newest(&found);
    }
    Ok(observed)
}
