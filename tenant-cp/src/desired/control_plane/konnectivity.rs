//! Konnectivity's server: the container beside the kube-apiserver through which that reaches the
//! tenant's nodes and pods.
//!
//! It is the first container of the pod and so the last to end (restartable init containers end in
//! reverse order): the kube-apiserver finishes what is under way through a tunnel that still stands.
//! Other servers are counted by Leases, which each server keeps through the Service, so that agents
//! look for a new server at once and for one that ended no longer.
//! Flags are those of apiserver-network-proxy v0.34.0, `cmd/server/app/options`.
//! Invariant: an agent without a token for our audience is not let in, and nothing in the pod
//! template depends on the number of replicas.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerPort};

use crate::desired::pod;
use crate::flags::table::CIPHER_SUITES;
use crate::names;
use crate::settings::Settings;
use crate::validate::quantity::with_memory_limit;
use crate::validate::validated::Validated;

/// Namespace inside the tenant cluster with the Leases of the servers, and nothing else, so that
/// their rights on Leases are rights on their own.
pub(crate) const LEASES: &str = "konnectivity";
/// Label of the Leases.
pub(crate) const LEASE_LABEL: &str = "k8s-app=konnectivity-server";
/// ServiceAccount of the agents, in `kube-system`.
pub(crate) const AGENT: &str = "konnectivity-agent";

/// A pod counts as ready so many seconds after its server started, at the earliest. A
/// kube-apiserver needs four or five to start; in that time two agents that dial twice a second miss
/// one of three servers together once in ten thousand times.
const SECONDS_FOR_AGENTS: i32 = 6;

pub(crate) fn flags() -> Vec<String> {
    let (dir, socket) = (names::SECRET_DIR, names::KONNECTIVITY_DIR);
    [
        ("admin-bind-address", "127.0.0.1".to_owned()),
        ("admin-port", names::KONNECTIVITY_ADMIN_PORT.to_string()),
        ("agent-namespace", "kube-system".to_owned()),
        ("agent-port", names::KONNECTIVITY_PORT.to_string()),
        ("agent-service-account", AGENT.to_owned()),
        (
            "authentication-audience",
            names::KONNECTIVITY_USER.to_owned(),
        ),
        ("cipher-suites", CIPHER_SUITES.to_owned()),
        ("cluster-cert", format!("{dir}/konnectivity-server.crt")),
        ("cluster-key", format!("{dir}/konnectivity-server.key")),
        ("enable-lease-controller", "true".to_owned()),
        ("health-port", names::KONNECTIVITY_HEALTH_PORT.to_string()),
        // A machine that was cut off is noticed within half a minute (another 20 s are gRPC's own).
        ("keepalive-time", "10s".to_owned()),
        ("kubeconfig", format!("{dir}/kubeconfig")),
        ("lease-label", LEASE_LABEL.to_owned()),
        ("lease-namespace", LEASES.to_owned()),
        ("mode", "grpc".to_owned()),
        // What is for a node goes to the agent on that node; everything else to any.
        ("proxy-strategies", "destHost,default".to_owned()),
        ("server-port", "0".to_owned()),
        ("uds-name", format!("{socket}/konnectivity.sock")),
    ]
    .into_iter()
    .map(|(name, value)| format!("--{name}={value}"))
    .collect()
}

pub(crate) fn container(v: &Validated, settings: &Settings) -> Container {
    let health = names::KONNECTIVITY_HEALTH_PORT;
    let probe = |period, failures| pod::probe("/healthz", health, "HTTP", period, failures);
    let requests = &settings.resources.konnectivity;
    let most = &settings.memory_limits.konnectivity;
    let limits = with_memory_limit(BTreeMap::new(), requests, most);
    Container {
        name: names::KONNECTIVITY_SERVER.to_owned(),
        image: Some(format!(
            "{}/{}",
            v.registry, settings.images.konnectivity_server
        )),
        command: Some(vec!["/proxy-server".to_owned()]),
        args: Some(flags()),
        // The name stays when the container restarts, and with it the Lease.
        env: Some(vec![pod::own_name("PROXY_SERVER_ID")]),
        restart_policy: Some("Always".to_owned()),
        ports: Some(vec![ContainerPort {
            name: Some("agents".to_owned()),
            container_port: names::KONNECTIVITY_PORT,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        // Never whether an agent is there: a tenant cluster without nodes has none, and one whose
        // nodes all restart needs its API to get them back.
        readiness_probe: Some(pod::delayed(probe(2, 3), SECONDS_FOR_AGENTS)),
        liveness_probe: Some(probe(10, 9)),
        resources: Some(pod::resources(requests, &limits)),
        security_context: Some(pod::container_security()),
        volume_mounts: Some(vec![
            pod::mount(names::KONNECTIVITY_SERVER, names::SECRET_DIR, true),
            pod::mount(names::KONNECTIVITY, names::KONNECTIVITY_DIR, false),
        ]),
        ..Container::default()
    }
}
