//! Deletes Leases of before from the etcd of a tenant cluster that was restored, before any kube-apiserver uses it: who held
//! one then would be waited for, and a kube-apiserver of then would be listed as one that serves.
//!
//! Where it was another TenantCluster, what names machines, processes and requests of that one goes with them.
//!
//! Invariant: those that control planes hold, and nothing else; asked again it is the same.

use super::{CHANGE_PATIENCE, Members, call, speaker};
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::restoring::into::REMOVED;
use crate::tenant_session::etcd;

/// Where kube-apiservers keep them, from and before which key: those of leader elections and of kube-apiservers
/// themselves (`k8s.io/kubernetes/pkg/registry/coordination/lease`, namespace kube-system), and their endpoints
/// (`pkg/controlplane/reconcilers`).
const RANGES: [(&str, &str); 2] = [
    (
        "/registry/leases/kube-system/",
        "/registry/leases/kube-system0",
    ),
    ("/registry/masterleases/", "/registry/masterleases0"),
];

/// What came of it is noted in the observation.
pub(in super::super) async fn forget(ctx: &Context, members: Members<'_>, observed: &mut Observed) {
    let mut done = Ok(());
    let status = observed.cluster.status.as_ref();
    let restore = status.and_then(|status| status.restore.as_ref());
    let ranges = match restore.is_some_and(|restore| restore.source_uid.is_some()) {
        true => REMOVED.as_slice(),
        false => RANGES.as_slice(),
    };
    for (from, before) in ranges {
        let Some(member) = speaker(members, observed) else {
            done = Err("no member of etcd answers that has a leader".to_owned());
            break;
        };
        let deleted = call(ctx, observed, member, CHANGE_PATIENCE, async |client| {
            etcd::delete_range(&client, from, before).await
        });
        if let Err(why) = deleted.await {
            tracing::info!(why, "Leases of before could not be deleted");
            done = Err(why);
            break;
        }
    }
    if let Some(seen) = &mut observed.restore {
        seen.leases = Some(done);
    }
}
