//! Objects inside the tenant cluster: asks its API once per reconcile, and writes what differs there.
//!
//! Invariant: nothing is deleted inside by a list of which something is not known; it is asked whatever
//! else waits or failed, so that Ready is what the API answered.

use std::collections::BTreeMap;

use kit_objects::object::{Key, Object};
use serde_json::{Value, json};
use tenant_cp::addons::registry;
use tenant_cp::generations::bundle;
use tenant_cp::rollout::order::Allowed;
use tenant_cp::rollout::template;
use tenant_cp::tenant_objects;
use tenant_cp::{Addresses, Settings, Validated, names};

use super::endpoint::service_port;
use super::prune;
use super::types::{Action, Part};
use crate::controllers::tenant_cluster::observed::{Observed, Seen, Tenant};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::status::Waiting;

mod changes;
mod footing;
pub mod recount;
pub mod release;

/// What is wanted inside the tenant cluster.
pub(super) struct Wanted {
    addresses: Addresses,
    objects: Vec<Object>,
    hash: String,
    /// Whether nothing is left out because it is not known yet.
    is_complete: bool,
}

impl Wanted {
    /// None before there is an API that it could be in.
    pub(super) fn new(
        served: &Validated,
        observed: &Observed,
        settings: &Settings,
        addresses: &Addresses,
    ) -> Option<Self> {
        let trusted = |name: &str| bundle(&observed.material.store, name);
        observed.started().there()?;
        let authority = trusted(names::CA)?;
        let kubelets = trusted(names::KUBELET_SERVING_CA);
        let konnectivity = trusted(names::KONNECTIVITY_AUTHORITY);
        let trust = tenant_objects::Trust {
            authority: &authority,
            kubelets: kubelets.as_deref(),
            konnectivity: konnectivity.as_deref(),
        };
        let mut objects = tenant_objects::wanted(served, settings, addresses, trust);
        if let Some(overlay) = &observed.overlay {
            objects.extend(registry::members(served, &overlay.texts()));
        }
        Some(Self {
            hash: hash(&objects),
            objects,
            is_complete: addresses.endpoint.is_some()
                && (trust.konnectivity.is_some() || !served.addons.konnectivity.enabled),
            addresses: addresses.clone(),
        })
    }

    /// Whether the status says that all of it is there.
    pub(super) fn is_in_place(&self, observed: &Observed) -> bool {
        hash_before(observed) == Some(self.hash.as_str())
    }

    /// The objects as they may be applied now: a workload whose turn has not come keeps its template.
    fn held_back(&self, live: &BTreeMap<Key, Value>, allowed: Allowed) -> Vec<Object> {
        let hold = |object: &Object| match live.get(&object.key()) {
            Some(live) if !allowed.rest && template::is_behind(object, live) => {
                template::pinned(object.clone(), live)
            }
            _ => object.clone(),
        };
        self.objects.iter().map(hold).collect()
    }

    /// Those that make no pods, where others may not be changed now.
    fn without_held_back(&self, allowed: Allowed) -> Vec<Object> {
        let is_held =
            |object: &&Object| !allowed.rest && template::of_workload(&object.value).is_some();
        let all = self.objects.iter();
        all.filter(|object| !is_held(object)).cloned().collect()
    }
}

fn hash_before(observed: &Observed) -> Option<&str> {
    let before = observed.cluster.status.as_ref();
    before.and_then(|s| s.bootstrap_hash.as_deref())
}

/// What is to be done, and the hash of the objects once all of them are in place.
pub(super) fn plan(
    valid: &Validated,
    observed: &Observed,
    wanted: Option<Wanted>,
    allowed: Allowed,
) -> (Part, Option<String>) {
    let mut part = Part::new(PartName::TenantObjects);
    let Some(wanted) = wanted else {
        return (part, None);
    };
    let Wanted {
        addresses,
        objects,
        hash,
        is_complete,
    } = &wanted;
    let before = hash_before(observed);
    let address = (addresses.cluster_ip, service_port(valid));
    let going = prune::going(valid, observed);
    let probe = |apply: Vec<Object>, list: Option<Vec<Key>>, starts| Action::Probe {
        address,
        endpoint: addresses.endpoint.clone(),
        published: addresses.endpoint.clone(),
        // What is applied at the first start is a write.
        prove_write: apply.is_empty() && !observed.answered_before(),
        apply,
        list,
        provisional: going.is_some(),
        workloads: match observed.workers {
            true => registry::wanted(valid)
                .flat_map(|addon| addon.workloads(valid))
                .collect(),
            false => Vec::new(),
        },
        starts,
    };
    match &observed.tenant {
        Tenant::NotAsked if before.is_none() => {
            part.actions.push(probe(objects.clone(), None, true));
        }
        Tenant::NotAsked => {
            let due = observed.list_due || before != Some(hash.as_str());
            let list = due.then(|| objects.iter().map(Object::key).collect());
            part.actions.push(probe(Vec::new(), list, false));
        }
        // Somebody took our rights away; the administrator's way gives them back. And then they are listed: what was
        // applied says nothing of what is left of an addon.
        Tenant::Answers {
            seen: Seen::Hidden, ..
        } => {
            let list = objects.iter().map(Object::key).collect();
            let objects = wanted.without_held_back(allowed);
            part.actions.push(probe(objects, Some(list), false));
        }
        Tenant::Answers {
            seen: Seen::Objects(live),
            ..
        } => {
            let is_wanted =
                |addon: &str| registry::wanted(valid).any(|wanted| wanted.name() == addon);
            let held = footing::held(valid, live, &observed.left_in_overlay);
            let stays = |addon: &str| {
                (!is_complete && is_wanted(addon))
                    || going.as_ref().is_some_and(|going| going.addon == addon)
                    || held.as_ref().is_some_and(|held| held.addon == addon)
            };
            let may_apply = wanted.held_back(live, allowed);
            let changes = changes::changes(&may_apply, live, stays);
            if !changes.is_empty() {
                part.actions
                    .push(Action::ApplyTenantObjects { address, changes });
            } else if let Some(going) = going {
                part.waiting = Some(Waiting {
                    reason: going.reason,
                    message: going.message,
                });
            } else if let Some(held) = held {
                part.waiting = Some(Waiting {
                    reason: held.reason,
                    message: held.message,
                });
            } else if may_apply == *objects {
                return (part, Some(hash.clone()));
            }
        }
        Tenant::Answers {
            seen: Seen::Applied,
            ..
        } if allowed.rest => return (part, Some(hash.clone())),
        Tenant::Answers {
            seen: Seen::Applied | Seen::Nothing,
            ..
        }
        | Tenant::Postponed
        | Tenant::Silent { .. } => {}
    }
    (part, None)
}

fn hash(objects: &[Object]) -> String {
    let hashes: Vec<_> = objects.iter().map(Object::hash).collect();
    kit_objects::object::hash(&json!(hashes))
}
