//! Looks for PersistentVolumes whose claims are gone, and for how much a backup has.
//!
//! Invariant: nothing of a volume is changed; a volume that could not be looked for is unknown.

use kit_client::untyped;
use kit_objects::kinds;
use kit_objects::known::Known;

use crate::context::Context;
use crate::controllers::tenant_backup::observe::newest_pod;
use crate::controllers::tenant_backup::report;
use crate::controllers::tenant_cluster::observed::Observed;

/// Looks for each of them, by the UID of the claim that it was bound to.
pub(super) async fn ask(ctx: &Context, volumes: &[(String, String)], observed: &mut Observed) {
    let api = untyped::of(kinds::PERSISTENT_VOLUME, &ctx.client, None);
    for (claim_uid, name) in volumes {
        let seen = match api.get_opt(name).await {
            Ok(None) => Known::Absent,
            Ok(Some(volume)) if volume.data["spec"]["claimRef"]["uid"] == claim_uid.as_str() => {
                Known::Known(())
            }
            // Another one of that name, or one that was freed for another claim, data and all.
            Ok(Some(_)) => Known::Unknown {
                why: "it is not that claim's any more",
            },
            Err(error) => {
                tracing::warn!(volume = name, %error, "a PersistentVolume could not be read");
                Known::Unknown {
                    why: "it could not be read",
                }
            }
        };
        observed.etcd_volumes.insert(claim_uid.clone(), seen);
    }
}

/// Asks of when the newest change in the backup is. While that is not answered it is not known, and nothing waits for it.
pub(super) async fn ask_newest(ctx: &Context, cluster: &str, observed: &mut Observed) {
    let pod = newest_pod(ctx, &observed.tenant_namespace()).await;
    let pod = pod.unwrap_or_else(|error| {
        tracing::info!(%error, "the pod of the backup could not be read");
        None
    });
    observed.newest_backup = Some(match pod.and_then(|(_, address)| address) {
        Some(address) => report::ask_newest(address, cluster).await,
        None => None,
    });
}
