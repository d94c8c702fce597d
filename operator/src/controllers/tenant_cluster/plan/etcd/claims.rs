//! Claims of etcd's members, as they were seen.
//!
//! Invariant: one without a UID is not known, rather than absent.

use kit_objects::known::Known;
use serde_json::Value;
use tenant_cp::names;

use crate::controllers::tenant_cluster::observed::Observed;
use crate::etcd_replacement::facts::Claim;

/// The claim of a member.
pub(super) fn claim(observed: &Observed, number: i32) -> Known<Claim> {
    let ns = observed.tenant_namespace();
    let claim = observed.find("PersistentVolumeClaim", &ns, &names::etcd_volume(number));
    let text = |claim: &Value, pointer: &str| claim.pointer(pointer)?.as_str().map(str::to_owned);
    claim.and_then(|claim| match text(claim, "/metadata/uid") {
        Some(uid) => Known::Known(Claim {
            uid,
            terminating: !claim["metadata"]["deletionTimestamp"].is_null(),
            volume: text(claim, "/spec/volumeName"),
            created: text(claim, "/metadata/creationTimestamp").and_then(|time| time.parse().ok()),
            class: text(claim, "/spec/storageClassName"),
            kept: !claim["metadata"]["annotations"][names::KEEP_UNTIL].is_null(),
        }),
        None => Known::Unknown {
            why: "the claim has no UID",
        },
    })
}
