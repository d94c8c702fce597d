//! What addons left in the tenant namespace when they were switched off.
//!
//! Invariant: only objects of names that we gave, and mirrors of the tenant's Services by their
//! labels; each by its UID.

use api::names::{COMPONENT_LOAD_BALANCER, LABEL_COMPONENT, LABEL_TENANT_UID};
use serde_json::Value;
use tenant_cp::desired::{cloud_controller, names};
use tenant_cp::object::Key;
use tenant_cp::{Validated, certificates};

use super::{Observed, Target, status};

/// What addons left when they were switched off: of konnectivity once no pod needs it any more, of
/// the cloud controller manager in the order that [`cloud_controller::parts`] asks for, and then the
/// mirrors of Services that it made.
pub(super) fn left_over(valid: &Validated, observed: &Observed) -> Vec<Target> {
    let ns = valid.tenant_namespace.as_str();
    let mut parts = Vec::new();
    if !valid.addons.konnectivity && status::rolled_out(valid, observed) {
        parts.extend([
            Key::new("Service", ns, names::KONNECTIVITY),
            Key::new("Secret", ns, names::KONNECTIVITY_SERVER),
            Key::new("Secret", ns, certificates::KONNECTIVITY_AUTHORITY),
        ]);
    }
    if !valid.addons.cloud_controller {
        parts.extend(cloud_controller::parts(ns));
        let mirrors = observed.objects.iter().filter(|(key, live)| {
            key.kind == "Service" && key.namespace == ns && is_mirror(valid, live)
        });
        parts.extend(mirrors.map(|(key, _)| key.clone()));
    }
    let target = |key: Key| {
        let live = observed.objects.get(&key)?;
        if live.pointer("/metadata/deletionTimestamp").is_some() {
            // Somebody's finalizer; asked once is enough.
            return None;
        }
        let uid = live.pointer("/metadata/uid")?.as_str()?.to_owned();
        Some(Target {
            key,
            uid,
            resource_version: None,
        })
    };
    parts.into_iter().filter_map(target).collect()
}

/// Whether a Service is what the cloud controller manager made of one of the tenant's.
fn is_mirror(valid: &Validated, live: &Value) -> bool {
    let labels = &live["metadata"]["labels"];
    labels[LABEL_COMPONENT] == COMPONENT_LOAD_BALANCER
        && labels[LABEL_TENANT_UID] == valid.uid.as_str()
}
