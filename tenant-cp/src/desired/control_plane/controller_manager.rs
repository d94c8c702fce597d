//! The kube-controller-manager: flags and container.
//!
//! It listens on loopback only (CIS 1.3.7), so the kubelet cannot probe it. It ends by itself when it
//! loses its Lease, which is what a liveness probe would find.
//! Invariant: it speaks to the kube-apiserver of its own pod, never through the Service.

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Container;

use crate::desired::pod;
use crate::flags::{Program, args, lease_times};
use crate::names;
use crate::validate::validated::Validated;

pub(crate) fn flags(v: &Validated) -> Vec<String> {
    let mut computed = vec![
        ("cluster-cidr", v.network.pod_cidr.to_string()),
        ("cluster-name", v.name.clone()),
        (
            "service-cluster-ip-range",
            v.network.service_cidr.to_string(),
        ),
    ];
    // A default, and yet computed.
    let mask = "node-cidr-mask-size";
    if !v.controller_manager.extra_args.contains_key(mask) {
        computed.push((mask, node_mask(&v.network.pod_cidr).to_string()));
    }
    computed.extend(lease_times(&v.controller_manager.extra_args));
    args(
        Program::ControllerManager,
        &computed,
        &v.controller_manager.extra_args,
    )
}

/// Prefix length of one node's share of the pod addresses: 254 addresses (a kubelet runs at most
/// 110 pods) as long as that leaves room for 64 nodes, 62 for smaller ranges. IPv6: a /64, at most
/// 65536 of them (a limit of the allocator).
fn node_mask(pods: &IpNet) -> u8 {
    let prefix = pods.prefix_len();
    match pods {
        IpNet::V4(_) => prefix.saturating_add(6).clamp(24, 26).max(prefix),
        IpNet::V6(_) => prefix.saturating_add(16).min(64).max(prefix),
    }
}

pub(crate) fn container(v: &Validated) -> Container {
    Container {
        name: names::CONTROLLER_MANAGER.to_owned(),
        image: Some(format!(
            "{}/kube-controller-manager:v{}",
            v.registry, v.version
        )),
        command: Some(vec!["kube-controller-manager".to_owned()]),
        args: Some(flags(v)),
        env: pod::go_threads(&v.controller_manager.limits),
        resources: Some(pod::resources(
            &v.controller_manager.requests,
            &v.controller_manager.limits,
        )),
        security_context: Some(pod::container_security()),
        volume_mounts: Some(vec![pod::mount(
            names::CONTROLLER_MANAGER,
            names::SECRET_DIR,
            true,
        )]),
        ..Container::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_gets_room_for_its_pods() {
        let mask = |text: &str| node_mask(&text.parse().unwrap());
        assert_eq!(mask("10.0.0.0/8"), 24);
        assert_eq!(mask("10.128.0.0/18"), 24);
        assert_eq!(mask("10.128.0.0/19"), 25);
        assert_eq!(mask("10.128.0.0/22"), 26);
        assert_eq!(mask("10.128.0.0/28"), 28);
        assert_eq!(mask("fd00::/48"), 64);
        assert_eq!(mask("fd00::/40"), 56);
        assert_eq!(mask("fd00::/112"), 112);
    }
}
