//! What addons left in the tenant namespace, and in the user's, when they were switched off.
//!
//! Invariant: only objects of names that we gave, and mirrors of the tenant's Services by their
//! labels; each by its UID. In the user's namespace, which others write to, only what has our label.

use api::Reason;
use api::names::{LABEL_COMPONENT, LABEL_TENANT_UID};
use kit_objects::object::Key;
use serde_json::Value;
use tenant_cp::Validated;
use tenant_cp::addons::addon::{Addon, Release};
use tenant_cp::addons::registry;
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

/// What addons left when they were switched off and that may go now: first what runs, and then all else; of
/// one that is in the control plane's pods once none is left with it. Volumes stay.
fn prune(valid: &Validated, observed: &Observed, control_plane: Progress) -> Vec<Target> {
    let ns = valid.tenant_namespace.as_str();
    let mut parts = Vec::new();
    for addon in registry::ALL {
        let waits = addon.is_in_control_plane() && control_plane != Progress::Current;
        if addon.is_wanted(valid) || waits {
            continue;
        }
        let running = running(addon, ns, observed);
        if !running.is_empty() {
            parts.extend(running);
            continue;
        }
        if let Some(release) = addon.release() {
            parts.extend(mirrors(&release, valid, observed).cloned());
        }
        parts.extend(addon.parts(ns, &valid.namespace, &valid.name));
    }
    let target = |key: Key| {
        let live = observed.objects.get(&key)?;
        let ours = live["metadata"]["labels"][LABEL_TENANT_UID] == valid.identity.uid.as_str();
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

/// An addon that goes, and what has to go before the tenant's Services are told that they have no load
/// balancer: pods that would put the finalizer on again, and mirrors, whose addresses may still be in use.
pub(super) struct Going {
    /// The addon's name.
    pub(super) addon: &'static str,
    /// Why it is not gone.
    pub(super) reason: Reason,
    /// What is waited for.
    pub(super) message: String,
}

/// None when every addon with load balancers is wanted, or nothing of them is left.
pub(super) fn going(valid: &Validated, observed: &Observed) -> Option<Going> {
    let mut all = registry::ALL.into_iter();
    all.find_map(|addon| {
        let release = addon.release().filter(|_| !addon.is_wanted(valid))?;
        Some(Going {
            addon: addon.name(),
            reason: release.reason,
            message: waited_for(addon, &release, valid, observed)?,
        })
    })
}

fn waited_for(
    addon: &dyn Addon,
    release: &Release,
    valid: &Validated,
    observed: &Observed,
) -> Option<String> {
    let ns = valid.tenant_namespace.as_str();
    if let Some(deployment) = running(addon, ns, observed).first() {
        return Some(format!(
            "waits until the pods of the Deployment {ns}/{} are gone",
            deployment.name
        ));
    }
    let mut mirrors = mirrors(release, valid, observed);
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

/// Deployments of the addon that are there.
fn running(addon: &dyn Addon, ns: &str, observed: &Observed) -> Vec<Key> {
    let names = addon.deployment_names().iter();
    let keys = names.map(|name| Key::new("Deployment", ns, name));
    keys.filter(|key| observed.objects.contains_key(key))
        .collect()
}

/// What an addon made of the tenant's Services.
fn mirrors<'a>(
    release: &Release,
    valid: &Validated,
    observed: &'a Observed,
) -> impl Iterator<Item = &'a Key> + use<'a> {
    let (ns, uid) = (valid.tenant_namespace.clone(), valid.identity.uid.clone());
    let component = release.component;
    let is_mirror = move |key: &Key, live: &Value| {
        let labels = &live["metadata"]["labels"];
        key.kind == "Service"
            && key.namespace == ns
            && labels[LABEL_COMPONENT] == component
            && labels[LABEL_TENANT_UID] == uid.as_str()
    };
    let all = observed.objects.iter();
    all.filter(move |(key, live)| is_mirror(key, live))
        .map(|(key, _)| key)
}
