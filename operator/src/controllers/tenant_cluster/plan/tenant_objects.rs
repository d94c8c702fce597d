//! Objects inside the tenant cluster: asks its API once per reconcile, and writes what differs there.
//!
//! Invariant: nothing is deleted inside by a list of which something is not known; it is asked whatever
//! else waits or failed, so that Ready is what the API answered.

use serde_json::json;
use tenant_cp::addons::addon::Addon;
use tenant_cp::generations::bundle;
use tenant_cp::object::{Key, Object};
use tenant_cp::tenant_objects;
use tenant_cp::{Settings, Validated, names};

use super::endpoint::{addresses, service_port};
use super::prune;
use super::types::{Action, Part};
use crate::controllers::tenant_cluster::observed::{Observed, Seen, Tenant};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::status::Waiting;

mod changes;
pub mod release;

/// What is to be done, and the hash of the objects once all of them are in place.
pub(super) fn plan(
    valid: &Validated,
    observed: &Observed,
    settings: &Settings,
) -> (Part, Option<String>) {
    let mut part = Part::new(PartName::TenantObjects);
    let Some(addresses) = addresses(valid, observed).filter(|_| observed.is_started()) else {
        return (part, None);
    };
    let trusted = |name: &str| bundle(&observed.material.store, name);
    let Some(authority) = trusted(names::CA) else {
        return (part, None);
    };
    let kubelets = trusted(names::KUBELET_SERVING_CA);
    let konnectivity = trusted(names::KONNECTIVITY_AUTHORITY);
    let trust = tenant_objects::Trust {
        authority: &authority,
        kubelets: kubelets.as_deref(),
        konnectivity: konnectivity.as_deref(),
    };
    let objects = tenant_objects::wanted(valid, settings, &addresses, trust);
    // What is left out while that is not known is still wanted.
    let complete = addresses.endpoint.is_some()
        && (trust.konnectivity.is_some() || !valid.addons.konnectivity);
    let hash = hash(&objects);
    let before = observed.cluster.status.as_ref();
    let before = before.and_then(|s| s.bootstrap_hash.as_deref());
    let address = (addresses.cluster_ip, service_port(valid));
    let goes = prune::cloud_controller_goes(valid, observed);
    let probe = |apply: Vec<Object>, list: Option<Vec<Key>>, starts| Action::Probe {
        address,
        endpoint: addresses.endpoint.clone(),
        published: addresses.endpoint.clone(),
        // What is applied at the first start is a write.
        prove_write: apply.is_empty() && !observed.answered_before(),
        apply,
        list,
        provisional: goes.is_some(),
        workloads: match observed.workers {
            true => wanted_addons(valid).filter_map(Addon::workload).collect(),
            false => Vec::new(),
        },
        starts,
    };
    match &observed.tenant {
        Tenant::NotAsked if before.is_none() => {
            part.actions.push(probe(objects, None, true));
        }
        Tenant::NotAsked => {
            let due = observed.list_due || before != Some(hash.as_str());
            let list = due.then(|| objects.iter().map(Object::key).collect());
            part.actions.push(probe(Vec::new(), list, false));
        }
        // Somebody took our rights away; the administrator's way gives them back.
        Tenant::Answers {
            seen: Seen::Hidden, ..
        } => {
            part.actions.push(probe(objects, None, false));
        }
        Tenant::Answers {
            seen: Seen::Objects(live),
            ..
        } => {
            let is_wanted = |addon: &str| wanted_addons(valid).any(|wanted| wanted.name() == addon);
            let stays = |addon: &str| {
                (!complete && is_wanted(addon))
                    || (goes.is_some() && addon == Addon::CloudController.name())
            };
            let changes = changes::changes(&objects, live, stays);
            if !changes.is_empty() {
                part.actions
                    .push(Action::ApplyTenantObjects { address, changes });
            } else if let Some(message) = goes {
                let reason = prune::REMOVING_CLOUD_CONTROLLER;
                part.waiting = Some(Waiting { reason, message });
            } else {
                return (part, Some(hash));
            }
        }
        Tenant::Answers {
            seen: Seen::Applied,
            ..
        } => return (part, Some(hash)),
        Tenant::Answers {
            seen: Seen::Nothing,
            ..
        }
        | Tenant::Postponed
        | Tenant::Silent { .. } => {}
    }
    (part, None)
}

fn hash(objects: &[Object]) -> String {
    let hashes: Vec<_> = objects.iter().map(Object::hash).collect();
    tenant_cp::object::hash(&json!(hashes))
}

fn wanted_addons(valid: &Validated) -> impl Iterator<Item = Addon> {
    Addon::ALL
        .into_iter()
        .filter(|addon| addon.is_wanted(valid))
}
