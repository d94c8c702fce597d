//! Who reaches whom: the Cluster Autoscaler the adapter and the tenant's API, the adapter both APIs.
//!
//! Invariant: nobody but the Cluster Autoscaler reaches the adapter's gRPC service.

use k8s_openapi::api::networking::v1::{
    NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicySpec,
};

use super::{NAME, PORT, STOCK};
use crate::{Object, Validated, desired::between};

pub(super) fn policies(v: &Validated) -> [Object; 2] {
    let grpc = || Some(vec![between::port("TCP", PORT, None)]);
    let types = |types: &[&str]| Some(types.iter().map(|&text| text.to_owned()).collect());
    let adapter = NetworkPolicySpec {
        pod_selector: Some(between::pods(NAME)),
        policy_types: types(&["Ingress", "Egress"]),
        ingress: Some(vec![NetworkPolicyIngressRule {
            from: Some(vec![between::peer(STOCK)]),
            ports: grpc(),
        }]),
        egress: Some(between::to_both_apis()),
    };
    let stock = NetworkPolicySpec {
        pod_selector: Some(between::pods(STOCK)),
        policy_types: types(&["Egress"]),
        egress: Some(vec![
            NetworkPolicyEgressRule {
                to: Some(vec![between::peer(NAME)]),
                ports: grpc(),
            },
            between::to_tenant_api(),
        ]),
        ..NetworkPolicySpec::default()
    };
    [
        between::policy(v, NAME, adapter),
        between::policy(v, STOCK, stock),
    ]
}
