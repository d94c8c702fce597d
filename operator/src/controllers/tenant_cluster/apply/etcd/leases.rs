//! Deletes Leases of before from the etcd of a tenant cluster that was restored, before any kube-apiserver uses it: who held
//! one then would be waited for, and a kube-apiserver of then would be listed as one that serves.
//!
//! Where it was another TenantCluster, what names machines, processes and requests of that one goes with them; and of a copy
//! what is of the other one's outer world, or believed there ([`copies`]).
//!
//! Invariant: those that control planes hold, and nothing else; asked again it is the same.

use super::{CHANGE_PATIENCE, Members, call, copies, speaker};
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::restoring::begin;
use crate::restoring::into::{REMOVED, REMOVED_FROM_COPIES, Way};
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
    let of_another = restore.filter(|restore| restore.source_uid.is_some());
    let way = of_another.map(|_| begin::way(&observed.cluster));
    let ranges = match way {
        None => RANGES.as_slice(),
        Some(Way::Move | Way::Copy) => REMOVED.as_slice(),
    };
    let more = match way {
        None | Some(Way::Move) => [].as_slice(),
        Some(Way::Copy) => REMOVED_FROM_COPIES.as_slice(),
    };
    // What is in the etcd of then was changed before, and what is written from now on after this.
    let raised = of_another.map(|restore| restore.revision.saturating_add(restore.bump));
    for (from, before) in ranges.iter().chain(more) {
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
    if let (Some(Way::Copy), Some(raised)) = (way, raised)
        && done.is_ok()
    {
        done = copies::rewrite(ctx, members, observed, raised).await;
        if let Err(why) = &done {
            tracing::info!(
                why,
                "not everything of then is gone over in the copy's etcd"
            );
        }
    }
    if let Some(seen) = &mut observed.restore {
        seen.leases = Some(done);
    }
}
