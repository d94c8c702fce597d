//! Where `default/kubernetes` leads: the ClusterIP of the management cluster's Service, or where nodes are elsewhere
//! the published address.
//!
//! The kube-apiserver makes the Service itself; its endpoints are ours
//! (`--endpoint-reconciler-type=none`), because all replicas share one address.
//! Invariant: one EndpointSlice; the Endpoints object says that it must not be mirrored.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::{
    api::{
        core::v1::{EndpointAddress, EndpointPort as CorePort, EndpointSubset, Endpoints},
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kit_objects::object::Object;

use crate::desired::services;
use crate::meta::tenant_labels;
use crate::network::addresses::Addresses;
use crate::validate::validated::Validated;

/// What nodes elsewhere reach, too. Of the ClusterIP's family, because the type of an EndpointSlice cannot change, and
/// nothing that the API server refuses there (`ValidateEndpointIP`).
fn published(v: &Validated, addresses: &Addresses) -> Option<(String, i32)> {
    v.endpoint.konnectivity_port?;
    let endpoint = addresses.endpoint.as_ref()?;
    let address: IpAddr = endpoint.host.parse().ok()?;
    let is_refused = match address {
        IpAddr::V4(v4) => {
            v4.is_loopback() || v4.is_link_local() || v4.is_unspecified() || v4.is_multicast()
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.is_unspecified()
                || v6.is_multicast()
        }
    };
    let is_of_family = address.is_ipv6() == addresses.cluster_ip.is_ipv6();
    (is_of_family && !is_refused).then(|| (address.to_string(), endpoint.port))
}

pub(crate) fn endpoints(v: &Validated, addresses: &Addresses) -> Vec<Object> {
    let (address, port) = published(v, addresses)
        .unwrap_or_else(|| (addresses.cluster_ip.to_string(), services::port(v)));
    let metadata = |labels: &[(&str, &str)]| ObjectMeta {
        name: Some("kubernetes".to_owned()),
        namespace: Some("default".to_owned()),
        labels: Some(
            labels
                .iter()
                .map(|&(k, v)| (k.to_owned(), v.to_owned()))
                .chain(tenant_labels())
                .collect::<BTreeMap<_, _>>(),
        ),
        ..ObjectMeta::default()
    };
    let slice = EndpointSlice {
        metadata: metadata(&[
            ("kubernetes.io/service-name", "kubernetes"),
            ("endpointslice.kubernetes.io/managed-by", "covey.dev"),
        ]),
        address_type: if addresses.cluster_ip.is_ipv6() {
            "IPv6"
        } else {
            "IPv4"
        }
        .to_owned(),
        endpoints: vec![Endpoint {
            addresses: vec![address.clone()],
            conditions: Some(EndpointConditions {
                ready: Some(true),
                ..EndpointConditions::default()
            }),
            ..Endpoint::default()
        }],
        ports: Some(vec![EndpointPort {
            name: Some("https".to_owned()),
            port: Some(port),
            protocol: Some("TCP".to_owned()),
            ..EndpointPort::default()
        }]),
    };
    // Deprecated, but conformance tests and old clients still read it.
    let endpoints = Endpoints {
        metadata: metadata(&[("endpointslice.kubernetes.io/skip-mirror", "true")]),
        subsets: Some(vec![EndpointSubset {
            addresses: Some(vec![EndpointAddress {
                ip: address,
                ..EndpointAddress::default()
            }]),
            ports: Some(vec![CorePort {
                name: Some("https".to_owned()),
                port,
                protocol: Some("TCP".to_owned()),
                ..CorePort::default()
            }]),
            ..EndpointSubset::default()
        }]),
    };
    vec![Object::new(&slice), Object::new(&endpoints)]
}
