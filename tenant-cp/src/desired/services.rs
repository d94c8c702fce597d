//! Services: the endpoint, and how etcd's members are found.
//!
//! Each etcd member has a Service with an address of its own, made before its pod. So its name
//! resolves from the first look-up on; through a headless Service the first look-up would come
//! before the pod's address is known, and DNS would remember "no such name" for seconds.
//! Invariant: only `control-plane` waits for readiness; etcd's Services must not, because members
//! become ready through them, nor must konnectivity's, which makes pods ready to serve.

use std::collections::BTreeSet;
use std::net::IpAddr;

use api::tenant_cluster::EndpointType;
use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kit_objects::object::Object;

use crate::meta::{meta, selector};
use crate::names;
use crate::text::is_ours;
use crate::validate::validated::Validated;

/// Label of a slice: its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of a slice: who cares for it.
const SLICE_MANAGER: &str = "endpointslice.kubernetes.io/managed-by";

/// Port of the Service `control-plane`. The user's port is the node port where there is one; the
/// Service's own port then stays 6443, so that it is the same inside the management cluster
/// whatever node port was free.
#[must_use]
pub fn port(v: &Validated) -> i32 {
    match v.endpoint.type_ {
        EndpointType::NodePort => names::API_PORT,
        EndpointType::ClusterIP | EndpointType::LoadBalancer => {
            v.endpoint.port.unwrap_or(names::API_PORT)
        }
    }
}

/// What leads clients of the Service `control-plane` to these addresses and this port in the place of pods, of which there
/// are none: those of the family of the first address. None where there is no address.
#[must_use]
pub fn activator_slice(v: &Validated, addresses: &BTreeSet<IpAddr>, port: u16) -> Option<Object> {
    let first = addresses.first()?;
    let family = |address: &IpAddr| match address {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    };
    let of_family = |address: &&IpAddr| family(address) == family(first);
    let endpoint = |address: &IpAddr| Endpoint {
        addresses: vec![address.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(true),
            ..EndpointConditions::default()
        }),
        ..Endpoint::default()
    };
    let mut metadata = meta(v, names::ACTIVATOR_SLICE, names::CONTROL_PLANE);
    metadata.labels.get_or_insert_default().extend([
        (SERVICE_NAME.to_owned(), names::CONTROL_PLANE.to_owned()),
        // The controller of slices leaves those alone that are not its own.
        (SLICE_MANAGER.to_owned(), "covey.dev".to_owned()),
    ]);
    Some(Object::new(&EndpointSlice {
        metadata,
        address_type: family(first).to_owned(),
        endpoints: addresses.iter().filter(of_family).map(endpoint).collect(),
        ports: Some(vec![EndpointPort {
            name: Some("https".to_owned()),
            port: Some(i32::from(port)),
            protocol: Some("TCP".to_owned()),
            ..EndpointPort::default()
        }]),
    }))
}

pub(crate) fn services(v: &Validated) -> Vec<Object> {
    let mut services = vec![control_plane(v)];
    if v.addons.konnectivity.enabled {
        services.push(konnectivity(v));
    }
    for member in 0..v.etcd.replicas {
        services.push(etcd_member(v, member));
    }
    services.push(etcd_peers(v));
    services
}

fn control_plane(v: &Validated) -> Object {
    let endpoint = &v.endpoint;
    let balancer = endpoint.type_ == EndpointType::LoadBalancer;
    let mut metadata = meta(v, names::CONTROL_PLANE, names::CONTROL_PLANE);
    metadata.labels.get_or_insert_default().extend(
        endpoint
            .labels
            .clone()
            .into_iter()
            .filter(|(key, _)| !is_ours(key)),
    );
    metadata.annotations = Some(endpoint.annotations.clone()).filter(|map| !map.is_empty());
    let node_port = endpoint
        .port
        .filter(|_| endpoint.type_ == EndpointType::NodePort);
    let mut ports = vec![ServicePort {
        node_port,
        ..service_port("https", port(v), names::API_PORT)
    }];
    ports.extend(agents(v));
    Object::new(&Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some(endpoint.type_.as_str().to_owned()),
            selector: Some(selector(names::CONTROL_PLANE)),
            ports: Some(ports),
            external_traffic_policy: endpoint
                .external_traffic_policy
                .filter(|_| endpoint.type_ != EndpointType::ClusterIP)
                .map(|policy| policy.as_str().to_owned()),
            allocate_load_balancer_node_ports: endpoint.allocate_node_ports.filter(|_| balancer),
            load_balancer_class: endpoint.load_balancer_class.clone().filter(|_| balancer),
            load_balancer_source_ranges: Some(endpoint.source_ranges.clone())
                .filter(|ranges| balancer && !ranges.is_empty()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    })
}

/// Where agents dial that are not in the management cluster's network. Only pods that are ready get them, as it is with
/// the API, so a new pod has tunnels there some seconds after its first requests.
fn agents(v: &Validated) -> Option<ServicePort> {
    let (published, target) = (v.endpoint.konnectivity_port?, names::KONNECTIVITY_PORT);
    let is_of_nodes = match v.endpoint.type_ {
        EndpointType::ClusterIP => return None,
        EndpointType::NodePort => true,
        EndpointType::LoadBalancer => false,
    };
    let port = match is_of_nodes {
        true => target,
        false => published,
    };
    Some(ServicePort {
        node_port: Some(published).filter(|_| is_of_nodes),
        ..service_port("konnectivity", port, target)
    })
}

/// Where konnectivity's agents dial. It leads to pods that are not ready too, so that a new pod has
/// its tunnels before it gets requests; and it has an address inside the management cluster only,
/// because that is where the agents are: machines of KubeVirt are in its pod network. Others dial [`agents`].
fn konnectivity(v: &Validated) -> Object {
    let port = names::KONNECTIVITY_PORT;
    Object::new(&Service {
        metadata: meta(v, names::KONNECTIVITY, names::CONTROL_PLANE),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(selector(names::CONTROL_PLANE)),
            ports: Some(vec![service_port("agents", port, port)]),
            publish_not_ready_addresses: Some(true),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    })
}

fn etcd_member(v: &Validated, member: i32) -> Object {
    let name = names::etcd_member(member);
    let mut pods = selector(names::ETCD);
    pods.insert(
        "statefulset.kubernetes.io/pod-name".to_owned(),
        name.clone(),
    );
    Object::new(&Service {
        metadata: meta(v, &name, names::ETCD),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(pods),
            ports: Some(etcd_ports()),
            publish_not_ready_addresses: Some(true),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    })
}

/// The governing Service of the StatefulSet.
fn etcd_peers(v: &Validated) -> Object {
    Object::new(&Service {
        metadata: meta(v, names::ETCD_PEERS, names::ETCD),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            cluster_ip: Some("None".to_owned()),
            selector: Some(selector(names::ETCD)),
            ports: Some(etcd_ports()),
            publish_not_ready_addresses: Some(true),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    })
}

fn etcd_ports() -> Vec<ServicePort> {
    vec![
        service_port("client", names::ETCD_CLIENT_PORT, names::ETCD_CLIENT_PORT),
        service_port("peer", names::ETCD_PEER_PORT, names::ETCD_PEER_PORT),
        service_port("http", names::ETCD_HTTP_PORT, names::ETCD_HTTP_PORT),
    ]
}

pub(super) fn service_port(name: &str, port: i32, target: i32) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::Int(target)),
        ..ServicePort::default()
    }
}
