//! Where `default/kubernetes` leads: the ClusterIP of the management cluster's Service.
//!
//! The kube-apiserver makes the Service itself; its endpoints are ours
//! (`--endpoint-reconciler-type=none`), because all replicas share one address.
//! Invariant: one EndpointSlice; the Endpoints object says that it must not be mirrored.

use std::collections::BTreeMap;

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

pub(crate) fn endpoints(v: &Validated, addresses: &Addresses) -> Vec<Object> {
    let address = addresses.cluster_ip.to_string();
    let port = services::port(v);
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
