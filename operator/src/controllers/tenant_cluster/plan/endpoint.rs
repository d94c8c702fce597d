//! The Services at which the API is reached, and the addresses that follow from them.
//!
//! Invariant: an address that was known stays known. Nodes, certificates and kubeconfigs hold it, so a
//! Service that is lost comes back with its own, and a load balancer that has none for a while changes
//! nothing.

use std::net::IpAddr;

use api::Reason;
use api::tenant_cluster::{AddressesStatus, EndpointStatus, EndpointType, TenantClusterStatus};
use kit_objects::known::Known;
use kit_objects::object::Object;
use serde_json::{Value, json};
use tenant_cp::names;
use tenant_cp::{Addresses, Validated};

use super::types::Part;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::status::Waiting;

pub(super) fn plan(
    valid: &Validated,
    observed: &Observed,
    services: Vec<Object>,
    addresses: Option<&Addresses>,
) -> Part {
    let mut part = Part::new(PartName::Endpoint);
    let services = services.into_iter().map(|service| {
        let service = keep_address(valid, observed, service);
        match publishes_early(valid, observed) {
            true => publish_early(service),
            false => service,
        }
    });
    part.apply("endpoint", observed, services.collect());
    if addresses.is_some_and(|addresses| addresses.endpoint.is_none()) {
        // A serving certificate without the load balancer's address would be of no use, and a
        // running kube-apiserver takes minutes to notice a better one.
        let ns = &valid.tenant_namespace;
        part.waiting = Some(Waiting {
            reason: Reason::WaitingForAddress,
            message: format!("the Service {ns}/control-plane has no address yet"),
        });
    }
    part
}

/// All addresses that have to be known before certificates and pods are made.
pub(super) fn addresses(valid: &Validated, observed: &Observed) -> Option<Addresses> {
    let ns = valid.tenant_namespace.as_str();
    let kept = kept(observed);
    let service = |name: &str| observed.find("Service", ns, name).there();
    let (service, konnectivity) = (service(names::CONTROL_PLANE), service(names::KONNECTIVITY));
    let cluster_ip = service
        .and_then(cluster_ip)
        .or_else(|| kept?.control_plane.parse().ok())?;
    let konnectivity_ip = konnectivity
        .and_then(self::cluster_ip)
        .or_else(|| kept?.konnectivity.as_ref()?.parse().ok());
    if valid.addons.konnectivity.enabled && konnectivity_ip.is_none() {
        return None;
    }
    let last = observed.cluster.status.as_ref();
    let last = last.and_then(|status| status.endpoint.clone());
    let endpoint = service
        .and_then(|service| endpoint(valid, service))
        // The type of a Service never changes, so the last address is of this one.
        .or(last);
    Some(Addresses {
        cluster_ip,
        konnectivity_ip: konnectivity_ip.filter(|_| valid.addons.konnectivity.enabled),
        endpoint,
    })
}

/// Where the API is published now, as the Service says; absent while a load balancer has no address.
pub(super) fn published(valid: &Validated, observed: &Observed) -> Known<EndpointStatus> {
    let (ns, name) = (&valid.tenant_namespace, names::CONTROL_PLANE);
    let service = observed.find("Service", ns, name);
    service.and_then(|service| Known::found(endpoint(valid, service)))
}

fn endpoint(valid: &Validated, service: &Value) -> Option<EndpointStatus> {
    let port = match valid.endpoint.type_ {
        EndpointType::NodePort => i32::try_from(node_port(service)?).ok()?,
        _ => i32::from(service_port(valid)),
    };
    let ingress = service.pointer("/status/loadBalancer/ingress/0");
    let text = |name: &str| ingress?.get(name)?.as_str().filter(|t| !t.is_empty());
    let host = match (&valid.endpoint.host, valid.endpoint.type_) {
        (Some(host), _) => host.clone(),
        (None, EndpointType::LoadBalancer) => text("ip").or(text("hostname"))?.to_owned(),
        (None, _) => cluster_ip(service)?.to_string(),
    };
    Some(EndpointStatus { host, port })
}

fn cluster_ip(service: &Value) -> Option<IpAddr> {
    service.pointer("/spec/clusterIP")?.as_str()?.parse().ok()
}

fn node_port(service: &Value) -> Option<i64> {
    service.pointer("/spec/ports/0/nodePort")?.as_i64()
}

fn kept(observed: &Observed) -> Option<&AddressesStatus> {
    observed.cluster.status.as_ref()?.addresses.as_ref()
}

/// The addresses to keep, as the Services have them; those of a Service that is not there stay.
pub(super) fn keep(valid: &Validated, observed: &Observed, status: &mut TenantClusterStatus) {
    let ns = valid.tenant_namespace.as_str();
    let service = |name: &str| observed.find("Service", ns, name).there();
    let Some(control_plane) = service(names::CONTROL_PLANE) else {
        return;
    };
    let Some(address) = cluster_ip(control_plane) else {
        return;
    };
    let before = status.addresses.take().unwrap_or_default();
    let konnectivity = service(names::KONNECTIVITY).and_then(cluster_ip);
    let port = node_port(control_plane).and_then(|port| i32::try_from(port).ok());
    status.addresses = Some(AddressesStatus {
        control_plane: address.to_string(),
        konnectivity: match valid.addons.konnectivity.enabled {
            true => konnectivity
                .map(|ip| ip.to_string())
                .or(before.konnectivity),
            false => None,
        },
        node_port: port.filter(|_| valid.endpoint.type_ == EndpointType::NodePort),
    });
}

/// Asks for the address that a Service had which is gone; one that is there has it.
fn keep_address(valid: &Validated, observed: &Observed, service: Object) -> Object {
    let is_gone = observed.look_up(&service.key()).is_absent();
    let Some(kept) = kept(observed).filter(|_| is_gone) else {
        return service;
    };
    let address = match service.name.as_str() {
        names::CONTROL_PLANE => Some(&kept.control_plane),
        names::KONNECTIVITY => kept.konnectivity.as_ref(),
        _ => None,
    };
    let named = valid.endpoint.port.is_some() || valid.endpoint.type_ != EndpointType::NodePort;
    let port = kept.node_port.filter(|_| !named);
    let is_control_plane = service.name == names::CONTROL_PLANE;
    let mut value = service.value;
    if let Some(address) = address {
        value["spec"]["clusterIP"] = json!(address);
    }
    if let Some(port) = port.filter(|_| is_control_plane) {
        value["spec"]["ports"][0]["nodePort"] = json!(port);
    }
    Object::from_value(value)
}

/// Until the first answer, and then until the first pod is Ready, the Service leads to a pod that is
/// not Ready yet: nobody depends on it, and the first answer comes a probe's period earlier. From
/// then on only ready pods get traffic.
fn publishes_early(valid: &Validated, observed: &Observed) -> bool {
    let (ns, name) = (&valid.tenant_namespace, names::CONTROL_PLANE);
    let live = observed.find("Service", ns, name);
    let flag = live
        .there()
        .and_then(|s| s.pointer("/spec/publishNotReadyAddresses"));
    let ready = observed.number("Deployment", ns, name, "/status/readyReplicas");
    !observed.has_been_ready()
        || (ready.or_absent(0) == Some(0) && flag == Some(&Value::Bool(true)))
}

fn publish_early(object: Object) -> Object {
    if object.name != names::CONTROL_PLANE {
        return object;
    }
    let mut value = object.value;
    value["spec"]["publishNotReadyAddresses"] = json!(true);
    Object::from_value(value)
}

/// URL for a kubeconfig.
/// Port of the Service.
pub(super) fn service_port(valid: &Validated) -> u16 {
    let named = match valid.endpoint.type_ {
        EndpointType::NodePort => None,
        _ => valid.endpoint.port,
    };
    named.and_then(|p| u16::try_from(p).ok()).unwrap_or(6443)
}

/// Where the API of a tenant cluster is asked of which nobody can say what is wanted.
pub(super) fn observed_address(observed: &Observed) -> Option<(IpAddr, u16)> {
    let (ns, name) = (observed.tenant_namespace(), names::CONTROL_PLANE);
    let service = observed.find("Service", &ns, name).there()?;
    let port = service.pointer("/spec/ports/0/port")?.as_u64()?;
    Some((cluster_ip(service)?, u16::try_from(port).ok()?))
}
