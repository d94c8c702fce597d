//! Looks for PersistentVolumes whose claims are gone, and asks for a Restore where all of them are.
//!
//! Invariant: nothing of a volume is changed; a volume that could not be looked for is unknown.

use kit_client::untyped;
use kit_objects::kinds;
use kit_objects::known::Known;
use kit_objects::object::Object;
use kube::api::PostParams;

use crate::FIELD_MANAGER;
use crate::context::Context;
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

/// Makes it; one of its name is that which was made before.
pub(super) async fn ask_for_restore(ctx: &Context, restore: &Object) -> Result<(), kube::Error> {
    let api = untyped::of(kinds::RESTORE, &ctx.client, restore.namespace.as_deref());
    let typed = serde_json::from_value(restore.value.clone()).map_err(kube::Error::SerdeError)?;
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    match api.create(&params, &typed).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => made.map(drop),
    }
}
