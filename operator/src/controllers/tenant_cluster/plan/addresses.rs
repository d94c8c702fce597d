//! Where a control plane is reached: from what its Services say.

use std::net::IpAddr;

use api::tenant_cluster::{EndpointStatus, EndpointType};
use serde_json::Value;
use tenant_cp::{Addresses, Validated, desired};

use super::Observed;

/// All addresses that have to be known before certificates and pods are made.
pub(super) fn all_addresses(valid: &Validated, observed: &Observed) -> Option<Addresses> {
    let ns = valid.tenant_namespace.as_str();
    let service = |name: &str| observed.object("Service", ns, name);
    let mut addresses = addresses(valid, service(desired::names::CONTROL_PLANE)?)?;
    if valid.addons.konnectivity {
        addresses.konnectivity_ip = Some(cluster_ip(service(desired::names::KONNECTIVITY)?)?);
    }
    Some(addresses)
}

fn cluster_ip(service: &Value) -> Option<IpAddr> {
    service.pointer("/spec/clusterIP")?.as_str()?.parse().ok()
}

/// ClusterIP and, where there is one yet, the address for clients.
pub(super) fn addresses(valid: &Validated, service: &Value) -> Option<Addresses> {
    let cluster_ip = cluster_ip(service)?;
    let port = match valid.endpoint.type_ {
        EndpointType::NodePort => service.pointer("/spec/ports/0/nodePort")?.as_i64()?,
        _ => i64::from(service_port(valid)),
    };
    let ingress = service.pointer("/status/loadBalancer/ingress/0");
    let text = |name: &str| ingress?.get(name)?.as_str().filter(|t| !t.is_empty());
    let host = match (&valid.endpoint.host, valid.endpoint.type_) {
        (Some(host), _) => Some(host.clone()),
        (None, EndpointType::LoadBalancer) => text("ip").or(text("hostname")).map(str::to_owned),
        (None, _) => Some(cluster_ip.to_string()),
    };
    let port = i32::try_from(port).ok()?;
    Some(Addresses {
        cluster_ip,
        konnectivity_ip: None,
        endpoint: host.map(|host| EndpointStatus { host, port }),
    })
}

/// URL for a kubeconfig.
pub(super) fn server(endpoint: &EndpointStatus) -> String {
    match endpoint.host.parse() {
        Ok(IpAddr::V6(ip)) => format!("https://[{ip}]:{}", endpoint.port),
        _ => format!("https://{}:{}", endpoint.host, endpoint.port),
    }
}

/// Port of the Service.
pub(super) fn service_port(valid: &Validated) -> u16 {
    let named = match valid.endpoint.type_ {
        EndpointType::NodePort => None,
        _ => valid.endpoint.port,
    };
    named.and_then(|p| u16::try_from(p).ok()).unwrap_or(6443)
}
