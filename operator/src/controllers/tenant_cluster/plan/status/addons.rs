//! Whether addons work, one condition each.
//!
//! An addon works as soon as one pod of it is ready: a node that is on its way is the business of its
//! Machine, and a condition that went back and forth with every node would say nothing.
//! The cloud controller manager's pods are in the tenant namespace, and are counted there; volumes need
//! a pod there, too. So are both pods of the autoscaler, and it works without nodes: it makes the first.
//! No node and no pod that runs needs it, so a tenant cluster is Ready without it.
//! Invariant: without nodes no addon keeps a tenant cluster from being Ready, because none can run, or
//! has anything to do.

use api::{ConditionType, Reason};
use tenant_cp::Validated;
use tenant_cp::addons::addon::Addon;
use tenant_cp::addons::registry;

use super::conditions::Conditions;
use crate::controllers::tenant_cluster::observed::{self, Observed, Pods, Tenant};

/// What is known of one addon.
pub(super) struct State {
    addon: &'static dyn Addon,
    what: What,
}

enum What {
    /// It is switched off.
    Off,
    /// It was not asked about now; what was said before stays.
    Unknown,
    /// There is no node that it could run on.
    NoNodes,
    /// It has pods, and nodes that need them.
    Has(Pods),
    /// It has pods, and nobody needs them yet.
    Idle(Pods),
}

pub(super) fn states(valid: &Validated, observed: &Observed) -> Vec<State> {
    let state = |addon: &'static dyn Addon| State {
        addon,
        what: what(addon, valid, observed),
    };
    registry::ALL.into_iter().map(state).collect()
}

fn what(addon: &dyn Addon, valid: &Validated, observed: &Observed) -> What {
    if !addon.is_wanted(valid) {
        return What::Off;
    }
    let workloads = addon.workloads(valid);
    if workloads.is_empty() {
        return match outside(addon, valid, observed) {
            None => What::Unknown,
            Some(pods) if addon.needs_nodes() && observed.workers => What::Has(pods),
            Some(pods) => What::Idle(pods),
        };
    }
    if !observed.workers {
        return What::NoNodes;
    }
    if !addon.deployment_names().is_empty() {
        match outside(addon, valid, observed) {
            None => return What::Unknown,
            Some(pods) if pods.ready == 0 => return What::Has(pods),
            Some(_) => {}
        }
    }
    let Tenant::Answers { pods, .. } = &observed.tenant else {
        return What::Unknown;
    };
    // A DaemonSet wants as many pods as there are nodes.
    let nodes: i64 = pods
        .iter()
        .filter(|(key, _)| key.kind == "DaemonSet")
        .map(|(_, pods)| pods.wanted)
        .sum();
    let daemon_sets = pods.keys().any(|key| key.kind == "DaemonSet");
    if daemon_sets && nodes == 0 {
        return What::NoNodes;
    }
    let mut all = Pods::default();
    for pods in workloads.iter().filter_map(|key| pods.get(key)) {
        all.ready += pods.ready;
        all.wanted += pods.wanted;
    }
    What::Has(all)
}

/// The pods of its Deployments in the tenant namespace; none where that is not known. One Deployment
/// without the other does nothing.
fn outside(addon: &dyn Addon, valid: &Validated, observed: &Observed) -> Option<Pods> {
    let ns = valid.tenant_namespace.as_str();
    let pods = |name: &&str| {
        let deployment = observed.find("Deployment", ns, name);
        deployment.map(observed::pods).or_absent(Pods::default())
    };
    let all: Option<Vec<Pods>> = addon.deployment_names().iter().map(pods).collect();
    let all = all?;
    Some(Pods {
        ready: match all.iter().any(|pods| pods.ready == 0) {
            true => 0,
            false => all.iter().map(|pods| pods.ready).sum(),
        },
        wanted: all.iter().map(|pods| pods.wanted).sum(),
    })
}

pub(super) fn report(set: &mut Conditions<'_>, states: &[State], observed: &Observed) {
    let overlay = observed.overlay.as_ref();
    let trouble = overlay.and_then(|overlay| overlay.trouble.as_ref());
    for state in states {
        let type_ = state.addon.condition();
        match state.what {
            What::Off => set.remove(type_),
            What::Unknown => {}
            What::NoNodes => {
                let message = "it runs once there are nodes";
                set.set(type_, false.into(), Reason::NoNodes, message);
            }
            What::Has(pods) | What::Idle(pods) => {
                let works = pods.ready > 0;
                // Its pods run, and some of them have nobody to send to.
                let is_troubled = works && type_ == ConditionType::OverlayReady;
                if let Some((reason, message)) = trouble.filter(|_| is_troubled) {
                    set.set(type_, false.into(), *reason, message);
                    continue;
                }
                let reason = if works {
                    Reason::PodsReady
                } else {
                    Reason::PodsNotReady
                };
                set.set(type_, works.into(), reason, &numbers(pods));
            }
        }
    }
}

/// Which addons do not work although there are nodes.
pub(super) fn missing(states: &[State]) -> Option<String> {
    let broken: Vec<_> = states
        .iter()
        .filter_map(|state| match state.what {
            What::Has(pods) if pods.ready == 0 => {
                Some(format!("{}: {}", state.addon.name(), numbers(pods)))
            }
            _ => None,
        })
        .collect();
    (!broken.is_empty()).then(|| {
        format!(
            "the API answers, but not all addons work: {}",
            broken.join("; ")
        )
    })
}

fn numbers(pods: Pods) -> String {
    format!("{} of {} pods are ready", pods.ready, pods.wanted)
}
