//! Metadata services of clouds, which give credentials of the management cluster's nodes away.
//!
//! Invariant: no policy of a tenant namespace lets a pod reach one.

mod fixtures;

use std::net::IpAddr;

use fixtures::{addresses, limits, minimal, objects, offer};
use ipnet::IpNet;
use serde_json::Value;

const SERVICES: [&str; 8] = [
    "169.254.169.254",
    // Identities of pods, of ECS and EKS.
    "169.254.170.2",
    "169.254.170.23",
    "168.63.129.16",
    "100.100.100.200",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
];

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn reaches(block: &Value, address: IpAddr) -> bool {
    let holds = |range: &Value| -> bool {
        let range: IpNet = range.as_str().expect("text").parse().expect("a range");
        range.contains(&address)
    };
    holds(&block["cidr"]) && !list(&block["except"]).any(holds)
}

#[test]
fn nobody_in_a_tenant_namespace_reaches_the_metadata_of_any_cloud() {
    let mut v = minimal();
    v.addons.cloud_controller.enabled = true;
    v.storage = Some(offer());
    v.autoscaler = Some(limits());
    let mut blocks = 0;
    for object in objects(&v, &addresses("10.96.0.17")) {
        if object.kind != "NetworkPolicy" {
            continue;
        }
        for rule in list(&object.value["spec"]["egress"]) {
            for block in list(&rule["to"]).map(|peer| &peer["ipBlock"]) {
                if block.is_null() {
                    continue;
                }
                blocks += 1;
                for service in SERVICES {
                    let name = &object.value["metadata"]["name"];
                    let address = service.parse().unwrap();
                    assert!(!reaches(block, address), "{name} lets through to {service}");
                }
                // The Internet is not closed.
                let open = ["1.1.1.1", "2606:4700::1111"].map(|text| text.parse().unwrap());
                assert!(open.into_iter().any(|address| reaches(block, address)));
            }
        }
    }
    assert!(blocks >= 4, "{blocks}");
}
