//! The pod around an instance (virt-launcher), and the addresses that the management cluster's network gave it.
//!
//! Invariant: pure. With the `bridge` binding the guest has the pod's address; whatever else it says that it
//! has is not its own to have.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;

/// Addresses of the pod of an instance that runs on `node`, one for each family, in the order of the pod; none
/// while there is none, or more than one.
#[must_use]
pub fn addresses(pods: &[Pod], instance: &str, node: &str) -> Vec<IpAddr> {
    let of_it = |pod: &&Pod| is_of(pod, instance) && runs_on(pod, node);
    let mut running = pods.iter().filter(of_it);
    let (Some(pod), None) = (running.next(), running.next()) else {
        return Vec::new();
    };
    let status = pod.status.as_ref();
    let several = status.and_then(|status| status.pod_ips.as_deref());
    let several = several.unwrap_or_default();
    let addresses = several.iter().filter_map(|ip| ip.ip.parse::<IpAddr>().ok());
    let mut found: Vec<IpAddr> = Vec::new();
    for address in addresses {
        if found
            .iter()
            .all(|known| known.is_ipv4() != address.is_ipv4())
        {
            found.push(address);
        }
    }
    found
}

/// Whether KubeVirt made it for the instance: a label alone anybody may write who may make pods.
fn is_of(pod: &Pod, instance: &str) -> bool {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && owner.uid == instance)
}

fn runs_on(pod: &Pod, node: &str) -> bool {
    let spec = pod.spec.as_ref();
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    phase == Some("Running")
        && pod.metadata.deletion_timestamp.is_none()
        && spec.and_then(|spec| spec.node_name.as_deref()) == Some(node)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(node: &str, phase: &str, addresses: &[&str]) -> Pod {
        let addresses: Vec<_> = addresses.iter().map(|ip| json!({ "ip": ip })).collect();
        let pod = json!({
            "metadata": { "ownerReferences": [{
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "workers-a",
                "uid": "u", "controller": true,
            }] },
            "spec": { "nodeName": node, "containers": [] },
            "status": { "phase": phase, "podIPs": addresses },
        });
        serde_json::from_value(pod).unwrap()
    }

    /// Somebody gave it the labels of the instance.
    fn foreign(mut pod: Pod) -> Pod {
        pod.metadata.owner_references = None;
        pod
    }

    fn texts(pods: &[Pod]) -> Vec<String> {
        addresses(pods, "u", "n")
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn pod_where_the_instance_runs_has_its_addresses() {
        let running = pod("n", "Running", &["10.0.0.7", "fd00::7", "10.0.0.8"]);
        assert_eq!(
            texts(std::slice::from_ref(&running)),
            ["10.0.0.7", "fd00::7"]
        );
        // Where it was before a migration, or did not start.
        let others = [
            pod("m", "Running", &["10.0.0.9"]),
            pod("n", "Failed", &["10.0.0.10"]),
            foreign(pod("n", "Running", &["10.0.0.11"])),
            running,
        ];
        assert_eq!(texts(&others), ["10.0.0.7", "fd00::7"]);
    }

    #[test]
    fn nothing_is_known_without_such_a_pod_or_with_two() {
        assert_eq!(texts(&[]), [""; 0]);
        assert_eq!(texts(&[pod("n", "Running", &[])]), [""; 0]);
        let two = [
            pod("n", "Running", &["10.0.0.7"]),
            pod("n", "Running", &["10.0.0.8"]),
        ];
        assert_eq!(texts(&two), [""; 0]);
    }
}
