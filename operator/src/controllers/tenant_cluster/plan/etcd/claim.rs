//! The claim of a member of etcd, as far as it is seen.
//!
//! Invariant: what was not seen is unknown, and is not absent.

use jiff::Timestamp;
use kit_objects::known::Known;
use serde_json::Value;
use tenant_cp::names;

use crate::controllers::tenant_cluster::observed::Observed;
use crate::etcd_replacement::facts::Claim;

/// The claim of a member.
pub(super) fn claim(observed: &Observed, number: i32) -> Known<Claim> {
    let ns = observed.tenant_namespace();
    let claim = observed.find("PersistentVolumeClaim", &ns, &names::etcd_volume(number));
    claim.and_then(|claim| match text(claim, "/metadata/uid") {
        Some(uid) => Known::Known(Claim {
            uid: uid.to_owned(),
            terminating: !claim["metadata"]["deletionTimestamp"].is_null(),
            volume: text(claim, "/spec/volumeName").map(str::to_owned),
            created: time(claim, "/metadata/creationTimestamp"),
            class: text(claim, "/spec/storageClassName").map(str::to_owned),
            kept: !claim["metadata"]["annotations"][names::KEEP_UNTIL].is_null(),
        }),
        None => Known::Unknown {
            why: "the claim has no UID",
        },
    })
}

fn text<'a>(claim: &'a Value, pointer: &str) -> Option<&'a str> {
    claim.pointer(pointer)?.as_str()
}

fn time(claim: &Value, pointer: &str) -> Option<Timestamp> {
    text(claim, pointer)?.parse().ok()
}
