//! NetworkPolicies of the addon: the Cluster Autoscaler reaches the adapter and the tenant's API, the
//! adapter both APIs, and whoever reads metrics the adapter's admin port.
//!
//! Invariant: nobody but the Cluster Autoscaler reaches the adapter's gRPC service.

use k8s_openapi::api::networking::v1::{
    NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicySpec,
};
use kit_objects::object::Object;

use crate::addons::adapter;
use crate::addons::autoscaler::names::{NAME, PORT, STOCK};
use crate::settings::Settings;
use crate::validate::validated::Validated;

pub(crate) fn policies(v: &Validated, settings: &Settings) -> [Object; 2] {
    let grpc = || Some(vec![adapter::port("TCP", PORT, None)]);
    let types = |types: &[&str]| Some(types.iter().map(|&text| text.to_owned()).collect());
    let mut ingress = vec![NetworkPolicyIngressRule {
        from: Some(vec![adapter::peer(STOCK)]),
        ports: grpc(),
    }];
    ingress.extend(adapter::from_scrapers(settings));
    let adapter = NetworkPolicySpec {
        pod_selector: Some(adapter::pods(NAME)),
        policy_types: types(&["Ingress", "Egress"]),
        ingress: Some(ingress),
        egress: Some(adapter::to_both_apis(settings)),
    };
    let stock = NetworkPolicySpec {
        pod_selector: Some(adapter::pods(STOCK)),
        policy_types: types(&["Egress"]),
        egress: Some(vec![
            NetworkPolicyEgressRule {
                to: Some(vec![adapter::peer(NAME)]),
                ports: grpc(),
            },
            adapter::to_tenant_api(),
        ]),
        ..NetworkPolicySpec::default()
    };
    [
        adapter::policy(v, NAME, adapter),
        adapter::policy(v, STOCK, stock),
    ]
}
