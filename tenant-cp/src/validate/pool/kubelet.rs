//! Validation of `spec.kubelet`: a kubelet ends at once when it does not understand its configuration, and
//! nobody sees why.

use std::collections::BTreeMap;

use api::node_pool::{KubeVirt, Kubelet};
use api::tenant_cluster::CniType;
use api::{NodePool, Quantity, Reason, TenantCluster};
use ipnet::IpNet;

use crate::problem::Problem;
use crate::validate::quantity;

/// What can be reserved (kubelet `types.go`, `systemReserved`), without process IDs.
const RESERVABLE: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
/// Signals of kubelets on Linux (kubelet `eviction/api/types.go`), without those for allocatable memory
/// and for containers' own file systems.
const SIGNALS: [&str; 6] = [
    "imagefs.available",
    "imagefs.inodesFree",
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
];
/// Addresses of a node's share that no pod gets: of the range itself, of the bridge and the last one.
const NO_PODS: u64 = 3;

pub(super) fn check(kubelet: &Kubelet, problems: &mut Vec<Problem>) {
    if let Some(pods) = kubelet.max_pods.filter(|pods| !(1..=1000).contains(pods)) {
        problems.push(Problem::new(
            "spec.kubelet.maxPods",
            Reason::PodsRange,
            format!("{pods} pods cannot be had on a node: choose 1 to 1000"),
        ));
    }
    for (name, reserved) in reserved(kubelet) {
        for (resource, amount) in reserved {
            let (reason, message) = if !RESERVABLE.contains(&resource.as_str()) {
                let message = format!(
                    "{resource} cannot be reserved: choose of {}",
                    RESERVABLE.join(", ")
                );
                (Reason::ResourceUnknown, message)
            } else if quantity::nanos(&amount.0).is_none() {
                (Reason::QuantityMalformed, quantity::malformed(&amount.0))
            } else {
                continue;
            };
            let field = format!("spec.kubelet.{name}[{resource}]");
            problems.push(Problem::new(field, reason, message));
        }
    }
    for (signal, amount) in &kubelet.eviction_hard {
        let (reason, message) = if !SIGNALS.contains(&signal.as_str()) {
            let message = format!(
                "{signal} is no signal of a kubelet: choose of {}",
                SIGNALS.join(", ")
            );
            (Reason::SignalUnknown, message)
        } else if !is_threshold(amount) {
            let message = format!(
                "\"{amount}\" is neither an amount nor a share: write it as 500Mi, or as 10% (more \
                 than 0% and less than 100%)"
            );
            (Reason::ThresholdMalformed, message)
        } else {
            continue;
        };
        let field = format!("spec.kubelet.evictionHard[{signal}]");
        problems.push(Problem::new(field, reason, message));
    }
}

/// What is reserved, of a machine of this size.
pub(super) fn check_size(kubelet: &Kubelet, machine: &KubeVirt, problems: &mut Vec<Problem>) {
    let cpu = machine.cpu.to_string();
    for (resource, has) in [("cpu", cpu.as_str()), ("memory", machine.memory.0.as_str())] {
        let amounts = reserved(kubelet)
            .into_iter()
            .filter_map(|(_, reserved)| quantity::nanos(&reserved.get(resource)?.0));
        let all = amounts.fold(0_i128, i128::saturating_add);
        if quantity::nanos(has).is_some_and(|has| all > 0 && all >= has) {
            problems.push(Problem::new(
                "spec.kubelet",
                Reason::ReservedTooMuch,
                format!(
                    "systemReserved and kubeReserved leave pods no {resource} of the machine's {has}: \
                     reserve less"
                ),
            ));
        }
    }
}

/// Whether each pod that a node may have gets an address of its share; other networks than ours may
/// have addresses of their own.
pub(super) fn check_addresses(
    pool: &NodePool,
    tc: &TenantCluster,
    pods: &IpNet,
    mask: u8,
) -> Option<Problem> {
    let asked = pool.spec.kubelet.max_pods?;
    let bits = pods
        .max_prefix_len()
        .checked_sub(mask)
        .filter(|bits| *bits < 32)?;
    let most = (1u64 << bits).saturating_sub(NO_PODS);
    let is_more = u64::try_from(asked).is_ok_and(|asked| asked > most);
    (is_more && tc.spec.addons.cni.type_ == CniType::Flannel).then(|| {
        Problem::new(
            "spec.kubelet.maxPods",
            Reason::PodRangeTooSmall,
            format!(
                "{asked} pods are more than {most}, for which a node has addresses, because its share \
                 of the pod range of TenantCluster {} is a /{mask}: choose {most} or fewer",
                pool.spec.cluster_name
            ),
        )
    })
}

fn reserved(kubelet: &Kubelet) -> [(&'static str, &BTreeMap<String, Quantity>); 2] {
    [
        ("systemReserved", &kubelet.system_reserved),
        ("kubeReserved", &kubelet.kube_reserved),
    ]
}

/// An amount, or a share between none and all (kubelet `eviction/helpers.go`, `parseThresholdStatement`).
fn is_threshold(text: &str) -> bool {
    match text.strip_suffix('%') {
        Some(share) => {
            let digits = share.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let share = share.parse::<f32>().ok().filter(|_| digits);
            share.is_some_and(|share| share > 0.0 && share < 100.0)
        }
        None => quantity::nanos(text).is_some_and(|amount| amount > 0),
    }
}
