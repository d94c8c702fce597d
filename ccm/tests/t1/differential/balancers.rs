//! What a cloud has been asked for, as lines that can be compared: of the stock controllers what they gave the cloud
//! last, of ours mirrors and their EndpointSlices.
//!
//! Invariant: whatever of a Service a load balancer may go by is in the lines.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;

use super::effects::Effects;

/// A load balancer.
#[derive(Deserialize)]
pub(super) struct Balancer {
    /// Node ports of this are where its ports lead to.
    pub(super) spec: ServiceSpec,
    /// Names of the nodes that it sends to.
    pub(super) nodes: Vec<String>,
}

/// The tenant's Services by name.
pub(super) async fn services(client: &Client) -> Result<BTreeMap<String, ServiceSpec>> {
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let all = services.list(&ListParams::default()).await?;
    let spec = |service: Service| (service.name_any(), service.spec.unwrap_or_default());
    Ok(all.items.into_iter().map(spec).collect())
}

/// What the load balancer of a Service is like.
pub(super) fn of(name: &str, balancer: &Balancer, service: Option<&ServiceSpec>) -> Effects {
    let spec = &balancer.spec;
    let mut lines = vec![String::new()];
    for port in spec.ports.iter().flatten() {
        let ports = service.and_then(|service| service.ports.as_deref());
        let is = |its: &&_| key(its) == key(port);
        let its = ports.and_then(|ports| ports.iter().find(is));
        let to = match (port.node_port, its.and_then(|its| its.node_port)) {
            (None | Some(0), _) => "nowhere".to_owned(),
            (to, own) if to == own => "its node port".to_owned(),
            (Some(other), _) => other.to_string(),
        };
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (name, app) = (text(&port.name), text(&port.app_protocol));
        let (port, protocol) = (port.port, text(&port.protocol));
        lines.push(format!(" port {port}/{protocol} {name:?} {app:?} to {to}"));
    }
    let timeout = spec.session_affinity_config.as_ref();
    let timeout = timeout.and_then(|config| config.client_ip.as_ref()?.timeout_seconds);
    let timeout = timeout.map(|seconds| seconds.to_string());
    for (what, value) in [
        ("affinity", &spec.session_affinity),
        ("affinity for", &timeout),
        ("traffic policy", &spec.external_traffic_policy),
        ("distribution", &spec.traffic_distribution),
        ("address", &spec.load_balancer_ip),
    ] {
        lines.extend(value.iter().map(|value| format!(" {what} {value}")));
    }
    for (what, values) in [
        ("family", &spec.ip_families),
        ("external IP", &spec.external_ips),
        ("clients from", &spec.load_balancer_source_ranges),
        ("sends to", &Some(balancer.nodes.clone())),
    ] {
        let values = values.iter().flatten();
        lines.extend(values.map(|value| format!(" {what} {value}")));
    }
    let lines = lines.into_iter();
    lines.map(|line| format!("Balancer {name}{line}")).collect()
}

fn key(port: &k8s_openapi::api::core::v1::ServicePort) -> (i32, Option<&str>) {
    (port.port, port.protocol.as_deref())
}
