//! The kube-controller-manager: flags and container.
//!
//! It listens on loopback only (CIS 1.3.7), so the kubelet cannot probe it. It ends by itself when it
//! loses its Lease, which is what a liveness probe would find.
//! Invariant: what it signs with is read from its own Secret alone.

use k8s_openapi::api::core::v1::Container;

use crate::desired::pod;
use crate::flags::controller_manager::{
    SIGNING_CERTIFICATE, SIGNING_KEY, SIGNING_KUBELETS, SIGNING_KUBELETS_KEY, TOKENS_SIGNED_BY,
};
use crate::flags::{Program, args, features, lease_times};
use crate::material::{Material, service_account_file};
use crate::names;
use crate::network::node_ranges::{MASK_FLAG, node_mask};
use crate::profile::{self, Runtime};
use crate::validate::validated::Validated;

pub(crate) fn flags(v: &Validated, material: &Material) -> Vec<String> {
    let mut computed = vec![
        ("cluster-cidr", v.network.pod_cidr.to_string()),
        ("cluster-name", v.identity.name.clone()),
        (
            "service-cluster-ip-range",
            v.network.service_cidr.to_string(),
        ),
    ];
    if let Some((generation, _)) = material.service_account.active() {
        let file = service_account_file(generation);
        let path = format!("{}/{file}.key", names::SECRET_DIR);
        computed.push((TOKENS_SIGNED_BY, path));
    }
    // Named also where nothing is known of it yet: without it requests would go unsigned for good.
    for (authority, certificate, key) in [
        (names::USERS_CA, SIGNING_CERTIFICATE, SIGNING_KEY),
        (names::CLIENT_CA, SIGNING_KUBELETS, SIGNING_KUBELETS_KEY),
    ] {
        let signer = material.signer(authority).map_or(authority, String::as_str);
        let path = |end: &str| format!("{}/{signer}.{end}", names::SECRET_DIR);
        computed.push((certificate, path("crt")));
        computed.push((key, path("key")));
    }
    // A default, and yet computed.
    if !v.controller_manager.extra_args.contains_key(MASK_FLAG) {
        computed.push((MASK_FLAG, node_mask(&v.network.pod_cidr).to_string()));
    }
    computed.extend(features::flag("feature-gates", &v.feature_gates));
    let (program, extra) = (Program::ControllerManager, &v.controller_manager.extra_args);
    computed.extend(lease_times(extra));
    computed.extend(profile::flags(v.profile, program, extra));
    args(program, &computed, extra)
}

pub(crate) fn container(v: &Validated, material: &Material) -> Container {
    Container {
        name: names::CONTROLLER_MANAGER.to_owned(),
        image: Some(format!(
            "{}/kube-controller-manager:v{}",
            v.registry, v.version
        )),
        command: Some(vec!["kube-controller-manager".to_owned()]),
        args: Some(flags(v, material)),
        env: pod::variables(profile::environment(
            v.profile,
            Runtime::ControllerManager,
            &v.controller_manager.limits,
        )),
        resources: Some(pod::resources(
            &v.controller_manager.requests,
            &v.controller_manager.limits,
        )),
        termination_message_policy: pod::last_lines(),
        security_context: Some(pod::container_security()),
        volume_mounts: Some(vec![pod::mount(
            names::CONTROLLER_MANAGER,
            names::SECRET_DIR,
            true,
        )]),
        ..Container::default()
    }
}
