//! The list of certificates of a tenant cluster.
//!
//! Invariant: only [`super_admin`] is in `system:masters`.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use pki::Want;

use crate::addons::registry::wanted;
use crate::names;
use crate::network::addresses::{Addresses, network_address};
use crate::settings::Settings;
use crate::validate::validated::Validated;

/// Common name of the cluster's authority.
pub(super) const CLUSTER_NAME: &str = "kubernetes";

/// Every certificate that is stored. `apiserver`, which holds the ClusterIP, is left out while
/// there are no addresses, and so is what addons need addresses for.
#[must_use]
pub fn wants(v: &Validated, settings: &Settings, addresses: Option<&Addresses>) -> Vec<Want> {
    let authority = |name: &str, common_name: &str| {
        Want::authority(name, common_name, settings.certificates.authority_hours)
    };
    let client = |name: &str, signer: &str, user: &str, group: Option<&str>| Want {
        lifetime_hours: settings.certificates.leaf_hours,
        ..client(name, signer, user, group)
    };

    let mut list = vec![
        authority(names::CA, CLUSTER_NAME),
        authority(names::KUBELET_SERVING_CA, names::KUBELET_SERVING_CA),
        authority(names::CLIENT_CA, names::CLIENT_CA),
        authority(names::USERS_CA, names::USERS_CA),
        authority(names::FRONT_PROXY_CA, names::FRONT_PROXY_CA),
        authority(names::ETCD_CA, names::ETCD_CA),
        // Not by `client-ca`: `kubeadm join` lets kubelets believe the one authority of cluster-info, and
        // nobody else that it signed is a client (docs/adr/0009).
        client(
            "apiserver-kubelet-client",
            names::CA,
            "kube-apiserver-kubelet-client",
            None,
        ),
        client(
            "controller-manager",
            names::CLIENT_CA,
            "system:kube-controller-manager",
            None,
        ),
        client("scheduler", names::CLIENT_CA, "system:kube-scheduler", None),
        client(
            "admin",
            names::USERS_CA,
            "kubernetes-admin",
            Some("kubeadm:cluster-admins"),
        ),
        client(
            "operator",
            names::CLIENT_CA,
            names::OPERATOR_USER,
            Some(names::OPERATOR_GROUP),
        ),
        client(
            "front-proxy-client",
            names::FRONT_PROXY_CA,
            "front-proxy-client",
            None,
        ),
        client(
            "apiserver-etcd-client",
            names::ETCD_CA,
            "kube-apiserver-etcd-client",
            None,
        ),
        client(
            "etcd-healthcheck-client",
            names::ETCD_CA,
            "kube-etcd-healthcheck-client",
            None,
        ),
    ];
    if let Some(addresses) = addresses {
        list.push(api_server(v, settings, addresses));
    }
    list.extend(wanted(v).flat_map(|addon| addon.certificates(v, settings, addresses)));
    for member in 0..v.etcd.replicas {
        list.push(member_pair(v, settings, member, "server"));
        list.push(member_pair(v, settings, member, "peer"));
    }
    if v.etcd.events.is_some() {
        list.push(of_events(v, settings));
    }
    list
}

/// One hour in `system:masters`, to lay the objects that [`crate::desired::is_privileged`] names.
/// It is issued in memory and never stored.
#[must_use]
pub fn super_admin() -> Want {
    Want {
        lifetime_hours: 1,
        ..client(
            "super-admin",
            names::CLIENT_CA,
            "kubernetes-super-admin",
            Some("system:masters"),
        )
    }
}

fn client(name: &str, signer: &str, user: &str, group: Option<&str>) -> Want {
    Want {
        organizations: group.into_iter().map(str::to_owned).collect(),
        ..Want::client(name, signer, user, 0)
    }
}

/// The serving certificate: every name under which somebody reaches the API.
fn api_server(v: &Validated, settings: &Settings, addresses: &Addresses) -> Want {
    let (service, ns, domain) = (
        names::CONTROL_PLANE,
        &v.tenant_namespace,
        &v.network.dns_domain,
    );
    let mut hosts: BTreeSet<String> = [
        "kubernetes".to_owned(),
        "kubernetes.default".to_owned(),
        "kubernetes.default.svc".to_owned(),
        format!("kubernetes.default.svc.{domain}"),
        "localhost".to_owned(),
        service.to_owned(),
        format!("{service}.{ns}"),
        format!("{service}.{ns}.svc"),
        format!("{service}.{ns}.svc.cluster.local"),
        v.name.clone(),
        // Whoever reaches a pod by `kubectl port-forward`.
        Ipv4Addr::LOCALHOST.to_string(),
        addresses.cluster_ip.to_string(),
        network_address(&v.network.service_cidr, 1).to_string(),
    ]
    .into();
    hosts.extend(v.endpoint.host.clone());
    hosts.extend(
        addresses
            .endpoint
            .as_ref()
            .map(|endpoint| endpoint.host.clone()),
    );
    hosts.extend(v.endpoint.cert_sans.iter().cloned());
    hosts.remove("");

    let mut want = Want {
        server: true,
        client: false,
        lifetime_hours: settings.certificates.leaf_hours,
        ..client("apiserver", names::CA, "kube-apiserver", None)
    };
    for host in hosts {
        match host.parse::<IpAddr>() {
            Ok(address) => want.addresses.push(address),
            Err(_) => want.dns_names.push(host),
        }
    }
    want.addresses.sort_unstable();
    want.addresses.dedup();
    want
}

/// Server certificate of the etcd that has Events.
fn of_events(v: &Validated, settings: &Settings) -> Want {
    let (name, ns) = (names::ETCD_EVENTS, &v.tenant_namespace);
    let dns_names = vec![
        name.to_owned(),
        format!("{name}.{ns}"),
        format!("{name}.{ns}.svc"),
        format!("{name}.{ns}.svc.cluster.local"),
        "localhost".to_owned(),
    ];
    Want {
        server: true,
        client: false,
        dns_names,
        addresses: vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        lifetime_hours: settings.certificates.leaf_hours,
        ..client(&format!("{name}-server"), names::ETCD_CA, name, None)
    }
}

/// Server or peer certificate of one etcd member. Both are for server and client, because a member
/// is its own client (gRPC gateway) and the client of its peers.
fn member_pair(v: &Validated, settings: &Settings, member: i32, role: &str) -> Want {
    let (pod, ns) = (names::etcd_member(member), &v.tenant_namespace);
    let peers = names::ETCD_PEERS;
    let mut dns_names = vec![
        pod.clone(),
        format!("{pod}.{ns}"),
        format!("{pod}.{ns}.svc"),
        format!("{pod}.{ns}.svc.cluster.local"),
        format!("{pod}.{peers}"),
        format!("{pod}.{peers}.{ns}.svc"),
        format!("{pod}.{peers}.{ns}.svc.cluster.local"),
        "localhost".to_owned(),
    ];
    if role == "peer" {
        // What `--peer-cert-allowed-hostname` asks for: only peers may join.
        dns_names.push(peers.to_owned());
    }
    Want {
        server: true,
        dns_names,
        addresses: vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        lifetime_hours: settings.certificates.leaf_hours,
        ..client(&format!("{pod}-{role}"), names::ETCD_CA, &pod, None)
    }
}
