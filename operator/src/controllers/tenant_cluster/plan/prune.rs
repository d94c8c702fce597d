//! What addons left in the tenant namespace, and in the user's, when they were switched off.
//!
//! Invariant: only objects of names that we gave, and mirrors of the tenant's Services by their
//! labels; each by its UID. In the user's namespace, which others write to, only what has our label.

use api::names::{COMPONENT_LOAD_BALANCER, LABEL_COMPONENT, LABEL_TENANT_UID};
use kit_objects::object::Key;
use serde_json::Value;
use tenant_cp::Validated;
use tenant_cp::addons::{autoscaler, cloud_controller, csi};
use tenant_cp::names;
use tenant_cp::rollout::order::Progress;

use super::types::{Part, Target};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::part_name::PartName;

pub(super) fn plan(valid: &Validated, observed: &Observed, control_plane: Progress) -> Part {
    Part {
        deletions: prune(valid, observed, control_plane),
        ..Part::new(PartName::Prune)
    }
}

/// What addons left when they were switched off and that may go now: of konnectivity once no pod
/// needs it any more, of the cloud controller manager, the CSI driver and the autoscaler first what runs
/// and then all else. Volumes stay.
fn prune(valid: &Validated, observed: &Observed, control_plane: Progress) -> Vec<Target> {
    let ns = valid.tenant_namespace.as_str();
    let mut parts = Vec::new();
    if !valid.addons.konnectivity && control_plane == Progress::Current {
        parts.extend([
            Key::new("Service", ns, names::KONNECTIVITY),
            Key::new("Secret", ns, names::KONNECTIVITY_SERVER),
            Key::new("Secret", ns, names::KONNECTIVITY_AUTHORITY),
        ]);
    }
    if !valid.addons.cloud_controller {
        let deployment = deployment(ns, cloud_controller::NAME);
        if observed.objects.contains_key(&deployment) {
            parts.push(deployment);
        } else {
            parts.extend(mirrors(valid, observed).cloned());
            parts.extend(cloud_controller::parts(ns));
        }
    }
    if valid.storage.is_none() {
        let deployment = deployment(ns, csi::NAME);
        match observed.objects.contains_key(&deployment) {
            true => parts.push(deployment),
            false => parts.extend(csi::parts(ns)),
        }
    }
    if valid.autoscaler.is_none() {
        let runs: Vec<_> = [autoscaler::STOCK, autoscaler::NAME]
            .map(|name| deployment(ns, name))
            .into_iter()
            .filter(|key| observed.objects.contains_key(key))
            .collect();
        match runs.is_empty() {
            true => parts.extend(autoscaler::parts(ns, &valid.namespace, &valid.name)),
            false => parts.extend(runs),
        }
    }
    let target = |key: Key| {
        let live = observed.objects.get(&key)?;
        let ours = live["metadata"]["labels"][LABEL_TENANT_UID] == valid.uid.as_str();
        if key.namespace != ns && !ours {
            return None;
        }
        if live.pointer("/metadata/deletionTimestamp").is_some() {
            // Something holds it; asked once is enough.
            return None;
        }
        let uid = live.pointer("/metadata/uid")?.as_str()?.to_owned();
        Some(Target {
            uid,
            resource_version: None,
            // A Deployment that is gone says that no pod of it works any more.
            with_dependents: key.kind == "Deployment",
            key,
        })
    };
    parts.into_iter().filter_map(target).collect()
}

/// What has to go before the tenant's Services are told that they have no load balancer: pods that
/// would put the finalizer on again, and mirrors, whose addresses may still be in use. None when the
/// cloud controller manager is wanted, or nothing of that is left.
pub(super) fn cloud_controller_goes(valid: &Validated, observed: &Observed) -> Option<String> {
    if valid.addons.cloud_controller {
        return None;
    }
    let ns = valid.tenant_namespace.as_str();
    if observed
        .objects
        .contains_key(&deployment(ns, cloud_controller::NAME))
    {
        return Some(format!(
            "waits until the pods of the Deployment {ns}/ccm are gone"
        ));
    }
    let mut mirrors = mirrors(valid, observed);
    let first = mirrors.next()?;
    let more = match mirrors.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "waits until the load balancers of the tenant cluster are gone: Service {ns}/{}{more}",
        first.name
    ))
}

fn deployment(ns: &str, name: &str) -> Key {
    Key::new("Deployment", ns, name)
}

/// What the cloud controller manager made of the tenant's Services.
fn mirrors<'a>(valid: &Validated, observed: &'a Observed) -> impl Iterator<Item = &'a Key> {
    let (ns, uid) = (valid.tenant_namespace.clone(), valid.uid.clone());
    let is_mirror = move |key: &Key, live: &Value| {
        let labels = &live["metadata"]["labels"];
        key.kind == "Service"
            && key.namespace == ns
            && labels[LABEL_COMPONENT] == COMPONENT_LOAD_BALANCER
            && labels[LABEL_TENANT_UID] == uid.as_str()
    };
    let all = observed.objects.iter();
    all.filter(move |(key, live)| is_mirror(key, live))
        .map(|(key, _)| key)
}
