//! What `kubeadm join` reads: `cluster-info`, `kubeadm-config` and `kubelet-config`; and
//! `kubelet-serving-ca`, which tells whoever asks kubelets by himself whom to believe.
//!
//! Invariant: only fields that every supported minor knows and that differ from the defaults of
//! the program that reads them; a kubelet refuses a known field whose feature is off.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kit_objects::object::Object;
use serde_json::json;

use crate::meta::tenant_labels;
use crate::names;
use crate::network::addresses::{Addresses, host_and_port, network_address};
use crate::validate::validated::Validated;

/// Readable by everybody who can reach the API: authority and endpoint.
pub(crate) const CLUSTER_INFO: &str = "cluster-info";
pub(crate) const KUBEADM_CONFIG: &str = "kubeadm-config";
pub(crate) const KUBELET_CONFIG: &str = "kubelet-config";

/// The authority of kubelets' serving certificates, for pods of kube-system (a metrics server, say): the
/// `ca.crt` of their accounts is not theirs.
pub(crate) fn kubelet_authority(bundle: &str) -> Object {
    config_map(
        "kube-system",
        names::KUBELET_SERVING_CA,
        "ca.crt",
        bundle.to_owned(),
    )
}

pub(crate) fn configuration(v: &Validated, addresses: &Addresses, ca_pem: &str) -> Vec<Object> {
    let mut objects = Vec::new();
    if let Some(endpoint) = &addresses.endpoint {
        let endpoint = host_and_port(&endpoint.host, endpoint.port);
        objects.push(config_map(
            "kube-public",
            CLUSTER_INFO,
            "kubeconfig",
            cluster_info(&endpoint, ca_pem),
        ));
        objects.push(config_map(
            "kube-system",
            KUBEADM_CONFIG,
            "ClusterConfiguration",
            cluster_configuration(v, &endpoint),
        ));
    }
    objects.push(config_map(
        "kube-system",
        KUBELET_CONFIG,
        "kubelet",
        kubelet_configuration(v),
    ));
    objects
}

/// The same objects whatever is known, for the operator's rights.
pub(crate) fn everything(v: &Validated) -> Vec<Object> {
    let endpoint = Some(api::tenant_cluster::EndpointStatus::default());
    let addresses = Addresses {
        cluster_ip: std::net::Ipv4Addr::UNSPECIFIED.into(),
        konnectivity_ip: None,
        endpoint,
    };
    let mut objects = configuration(v, &addresses, "");
    objects.push(kubelet_authority(""));
    objects
}

fn config_map(namespace: &str, name: &str, key: &str, content: String) -> Object {
    Object::new(&ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(tenant_labels()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(key.to_owned(), content)])),
        ..ConfigMap::default()
    })
}

fn cluster_info(endpoint: &str, ca_pem: &str) -> String {
    let (ca, server) = (
        STANDARD.encode(ca_pem),
        json!(format!("https://{endpoint}")),
    );
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: ''
  cluster:
    certificate-authority-data: {ca}
    server: {server}
contexts: []
users: []
"
    )
}

/// `kubeadm.k8s.io/v1beta4`: kubeadm 1.31 and later.
fn cluster_configuration(v: &Validated, endpoint: &str) -> String {
    format!(
        "apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: {name}
controlPlaneEndpoint: {endpoint}
encryptionAlgorithm: ECDSA-P256
imageRepository: {registry}
kubernetesVersion: v{version}
networking:
  dnsDomain: {domain}
  podSubnet: {pods}
  serviceSubnet: {services}
",
        name = json!(v.name),
        endpoint = json!(endpoint),
        registry = json!(v.registry),
        version = v.version,
        domain = json!(v.network.dns_domain),
        pods = json!(v.network.pod_cidr),
        services = json!(v.network.service_cidr),
    )
}

/// `serverTLSBootstrap`: the kube-apiserver verifies kubelets (`--kubelet-certificate-authority`),
/// so their serving certificates must come from `kubelet-serving-ca`. `clientCAFile` is what `kubeadm join`
/// writes from [`CLUSTER_INFO`], so a kubelet takes from `ca` what its clients show, and that signs the
/// kube-apiserver's client certificate alone (docs/adr/0009).
fn kubelet_configuration(v: &Validated) -> String {
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
cgroupDriver: systemd
clusterDNS: [{dns}]
clusterDomain: {domain}
rotateCertificates: true
serverTLSBootstrap: true
staticPodPath: /etc/kubernetes/manifests
",
        dns = json!(network_address(&v.network.service_cidr, 10)),
        domain = json!(v.network.dns_domain),
    )
}
