//! NetworkPolicies of the tenant namespace: nothing goes in or out but what is listed here.
//!
//! | from | to | port |
//! |---|---|---|
//! | anywhere | control-plane | 6443 |
//! | workers, machines of `providers.static.ranges`; anywhere, where it is published | control-plane | 8132 (konnectivity) |
//! | control-plane | control-plane | 6443 (konnectivity's server, through the Service) |
//! | controllers | control-plane | 6443 |
//! | control-plane | etcd | 2379 |
//! | control-plane | etcd-events | 2379 |
//! | control-plane with a KMS plugin | what `encryption.kms` of the configuration says | what that says |
//! | operator | etcd | 2382 |
//! | etcd | etcd | 2379, 2380 |
//! | all pods, but workers that have resolvers of their own | DNS of the management cluster | 53 |
//! | workers | resolvers of their own (`providers.kubevirt.nameservers`) | 53 |
//! | all pods here | workers | all |
//! | workers | workers | all |
//! | workers | the endpoint, where that is a port of nodes | that port |
//! | workers | everywhere else, but for `network.reserved` and cloud metadata | all |
//!
//! What an addon needs besides, and who reads the metrics of its programs, is in its own folder below [`crate::addons`].
//!
//! Workers are the pods that virtual machines run in; a machine has the address of its pod, so what
//! holds for the pod holds for the node and, behind its address, for the tenant's pods. That workers
//! of one tenant cluster do not reach the pods of another is said twice: here, because the management
//! cluster's ranges are reserved, found or configured, and always by the other's own policies.
//! Invariant: no way from the control plane to the management cluster's API or nodes: a tenant's
//! administrator can make its API server call any address (webhooks, aggregated APIs, node proxies).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use api::tenant_cluster::EndpointType;
use ipnet::IpNet;
use kit_objects::object::Object;

use k8s_openapi::{
    api::networking::v1::{
        IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule,
        NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
        util::intstr::IntOrString,
    },
};

use crate::meta::{meta, selector};
use crate::names;
use crate::network::metadata::{METADATA_V4, METADATA_V6};
use crate::settings::Settings;
use crate::settings::encryption::KmsPlugin;
use crate::validate::validated::Validated;

pub(crate) fn network_policies(v: &Validated, settings: &Settings) -> Vec<Object> {
    let policy = |name: &str, spec: NetworkPolicySpec| {
        Object::new(&NetworkPolicy {
            metadata: meta(v, name, "network"),
            spec: Some(spec),
        })
    };
    let types = |types: &[&str]| Some(types.iter().map(|&text| text.to_owned()).collect());
    let mut policies = vec![
        policy(
            "default-deny",
            NetworkPolicySpec {
                pod_selector: Some(LabelSelector::default()),
                policy_types: types(&["Ingress", "Egress"]),
                // Said, not left out: a rule that somebody adds is then found and taken away.
                ingress: Some(vec![]),
                egress: Some(vec![]),
            },
        ),
        policy(
            "dns",
            NetworkPolicySpec {
                pod_selector: Some(asking_cluster_dns(settings)),
                policy_types: types(&["Egress"]),
                egress: Some(vec![NetworkPolicyEgressRule {
                    ports: Some(dns_ports()),
                    to: Some(vec![dns(settings)]),
                }]),
                ..NetworkPolicySpec::default()
            },
        ),
        policy(
            names::CONTROLLERS,
            NetworkPolicySpec {
                pod_selector: Some(pods(selector(names::CONTROLLERS))),
                policy_types: types(&["Ingress", "Egress"]),
                // They listen on loopback: nobody has anything to ask them.
                ingress: Some(vec![]),
                egress: Some(vec![to_pods(names::CONTROL_PLANE, &[names::API_PORT])]),
            },
        ),
    ];
    let own = control_plane(v, settings).map(|spec| policy(names::CONTROL_PLANE, spec));
    if let Some(own) = own {
        policies.insert(2, own);
    }
    // While it is not known what it must leave out, the one that is there stays as it is.
    let workers = settings.network.reserved_unknown.is_none().then(|| {
        policy(
            "workers",
            NetworkPolicySpec {
                pod_selector: Some(pods(selector(api::names::COMPONENT_WORKER))),
                policy_types: types(&["Ingress", "Egress"]),
                ingress: Some(vec![NetworkPolicyIngressRule {
                    from: Some(vec![NetworkPolicyPeer {
                        pod_selector: Some(LabelSelector::default()),
                        ..NetworkPolicyPeer::default()
                    }]),
                    ports: None,
                }]),
                egress: Some(workers_egress(v, settings)),
            },
        )
    });
    policies.extend(workers);
    policies.push(policy(
        names::ETCD,
        NetworkPolicySpec {
            pod_selector: Some(pods(selector(names::ETCD))),
            policy_types: types(&["Ingress", "Egress"]),
            ingress: Some(vec![
                from_pods(names::CONTROL_PLANE, &[names::ETCD_CLIENT_PORT]),
                from_pods(
                    names::ETCD,
                    &[names::ETCD_CLIENT_PORT, names::ETCD_PEER_PORT],
                ),
                from_operator(settings, &[names::ETCD_HTTP_PORT]),
            ]),
            egress: Some(vec![to_pods(
                names::ETCD,
                &[names::ETCD_CLIENT_PORT, names::ETCD_PEER_PORT],
            )]),
        },
    ));
    if v.etcd.events.is_some() {
        policies.push(policy(
            names::ETCD_EVENTS,
            NetworkPolicySpec {
                pod_selector: Some(pods(selector(names::ETCD_EVENTS))),
                policy_types: types(&["Ingress", "Egress"]),
                ingress: Some(vec![from_pods(
                    names::CONTROL_PLANE,
                    &[names::ETCD_CLIENT_PORT],
                )]),
                egress: Some(vec![]),
            },
        ));
    }
    policies
}

/// From pods of the operator's namespace: how its pods are labelled is the chart's.
fn from_operator(settings: &Settings, ports: &[i32]) -> NetworkPolicyIngressRule {
    let name = settings.operator_namespace.clone();
    let namespace = pods(BTreeMap::from([(
        "kubernetes.io/metadata.name".to_owned(),
        name,
    )]));
    NetworkPolicyIngressRule {
        from: Some(vec![NetworkPolicyPeer {
            namespace_selector: Some(namespace),
            ..NetworkPolicyPeer::default()
        }]),
        ports: Some(ports.iter().map(|&number| port("TCP", number)).collect()),
    }
}

/// None where a KMS that is used was taken out of the configuration: the one that is there stays as it is.
fn control_plane(v: &Validated, settings: &Settings) -> Option<NetworkPolicySpec> {
    let mut kms = v.kms.iter();
    let is_known = kms.all(|name| settings.encryption.of(name).is_some());
    is_known.then(|| NetworkPolicySpec {
        pod_selector: Some(pods(selector(names::CONTROL_PLANE))),
        policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
        ingress: Some(control_plane_ingress(v, settings)),
        egress: Some(control_plane_egress(v, settings)),
    })
}

fn control_plane_ingress(v: &Validated, settings: &Settings) -> Vec<NetworkPolicyIngressRule> {
    let mut rules = vec![NetworkPolicyIngressRule {
        ports: Some(vec![port("TCP", names::API_PORT)]),
        from: None,
    }];
    if v.endpoint.konnectivity_port.is_some() {
        // As with the API: who comes by a load balancer has that one's address, or any.
        rules.push(NetworkPolicyIngressRule {
            ports: Some(vec![port("TCP", names::KONNECTIVITY_PORT)]),
            from: None,
        });
    } else if v.addons.konnectivity.enabled {
        rules.push(from_pods(
            api::names::COMPONENT_WORKER,
            &[names::KONNECTIVITY_PORT],
        ));
        rules.extend(from_hosts(settings));
    }
    rules
}

/// Machines that are reached by SSH are no pods. An agent shows its tenant cluster's token all the same.
fn from_hosts(settings: &Settings) -> Option<NetworkPolicyIngressRule> {
    let ranges = &settings.providers.static_.ranges;
    let blocks = ranges
        .iter()
        .map(|range| block(range.to_string(), Vec::new()));
    (!ranges.is_empty()).then(|| NetworkPolicyIngressRule {
        from: Some(blocks.collect()),
        ports: Some(vec![port("TCP", names::KONNECTIVITY_PORT)]),
    })
}

/// Without konnectivity the kube-apiserver reaches kubelets straight, and nothing else of a node.
fn control_plane_egress(v: &Validated, settings: &Settings) -> Vec<NetworkPolicyEgressRule> {
    let beyond = if v.addons.konnectivity.enabled {
        to_pods(names::CONTROL_PLANE, &[names::API_PORT])
    } else {
        to_pods(api::names::COMPONENT_WORKER, &[names::KUBELET_PORT])
    };
    let client = &[names::ETCD_CLIENT_PORT];
    let mut rules = vec![
        to_pods(names::ETCD, client),
        // Whether there is one or not: kube-apiservers name it for a while after it was wanted.
        to_pods(names::ETCD_EVENTS, client),
        beyond,
    ];
    let plugins = v.kms.iter().filter_map(|name| settings.encryption.of(name));
    rules.extend(plugins.filter_map(to_kms));
    rules
}

/// What a plugin reaches; the kube-apiserver is in the same pod, so the platform names as little as it can.
fn to_kms(plugin: &KmsPlugin) -> Option<NetworkPolicyEgressRule> {
    let blocks = plugin.cidrs.iter();
    let blocks = blocks.map(|range| block(range.to_string(), Vec::new()));
    let ports = plugin.ports.iter();
    (!plugin.cidrs.is_empty()).then(|| NetworkPolicyEgressRule {
        to: Some(blocks.collect()),
        ports: Some(
            ports
                .map(|number| port("TCP", i32::from(*number)))
                .collect(),
        ),
    })
}

fn workers_egress(v: &Validated, settings: &Settings) -> Vec<NetworkPolicyEgressRule> {
    let metadata = METADATA_V4.into_iter().chain(METADATA_V6);
    let reserved = || settings.network.reserved.iter().map(IpNet::to_string);
    let outside = |everything: &str, v6: bool| {
        let except = reserved().chain(metadata.clone().map(str::to_owned));
        let mut except: Vec<String> = except.filter(|range| range.contains(':') == v6).collect();
        except.sort();
        except.dedup();
        block(everything.to_owned(), except)
    };
    let mut rules = vec![
        NetworkPolicyEgressRule {
            to: Some(vec![peer(api::names::COMPONENT_WORKER)]),
            ports: None,
        },
        to_pods(
            names::CONTROL_PLANE,
            &[names::API_PORT, names::KONNECTIVITY_PORT],
        ),
        NetworkPolicyEgressRule {
            to: Some(vec![outside("0.0.0.0/0", false), outside("::/0", true)]),
            ports: None,
        },
    ];
    rules.extend(to_nameservers(settings));
    rules.extend(to_node_port(v));
    rules
}

/// Resolvers may be in a range that is reserved.
fn to_nameservers(settings: &Settings) -> Option<NetworkPolicyEgressRule> {
    let nameservers = &settings.providers.kubevirt.nameservers;
    let only = |address: &Ipv4Addr| {
        let address = IpNet::from(IpAddr::V4(*address));
        block(address.to_string(), Vec::new())
    };
    (!nameservers.is_empty()).then(|| NetworkPolicyEgressRule {
        to: Some(nameservers.iter().map(only).collect()),
        ports: Some(dns_ports()),
    })
}

/// All pods; but for machines that have resolvers of their own, once new ones get them. One that was
/// made before knows no other resolver than the management cluster's until it is replaced.
fn asking_cluster_dns(settings: &Settings) -> LabelSelector {
    let own = !settings.providers.kubevirt.nameservers.is_empty();
    let without = LabelSelectorRequirement {
        key: api::names::LABEL_RESOLVER.to_owned(),
        operator: "DoesNotExist".to_owned(),
        values: None,
    };
    LabelSelector {
        match_expressions: own.then(|| vec![without]),
        ..LabelSelector::default()
    }
}

fn dns_ports() -> Vec<NetworkPolicyPort> {
    vec![port("UDP", 53), port("TCP", 53)]
}

/// Ports of nodes, where the kube-apiserver's `--service-node-port-range` is not another one.
const NODE_PORTS: (i32, i32) = (30_000, 32_767);

/// Workers join at the endpoint. Where that is a port of a node, it is translated to the control plane's
/// pods on that node and not before, and nodes are reserved. A name may stand for any of them.
fn to_node_port(v: &Validated) -> Option<NetworkPolicyEgressRule> {
    let host = v.endpoint.host.as_deref();
    let host = host.filter(|_| v.endpoint.type_ == EndpointType::NodePort)?;
    let blocks = match host.parse::<IpAddr>() {
        Ok(address) => vec![block(IpNet::from(address).to_string(), Vec::new())],
        Err(_) => vec![
            block("0.0.0.0/0".to_owned(), owned(&METADATA_V4)),
            block("::/0".to_owned(), owned(&METADATA_V6)),
        ],
    };
    let ports = match v.endpoint.port {
        Some(number) => port("TCP", number),
        // Chosen by the API server once there is the Service.
        None => NetworkPolicyPort {
            end_port: Some(NODE_PORTS.1),
            ..port("TCP", NODE_PORTS.0)
        },
    };
    Some(NetworkPolicyEgressRule {
        to: Some(blocks),
        ports: Some(vec![ports]),
    })
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn block(cidr: String, except: Vec<String>) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        ip_block: Some(IPBlock {
            cidr,
            except: (!except.is_empty()).then_some(except),
        }),
        ..NetworkPolicyPeer::default()
    }
}

fn from_pods(component: &str, ports: &[i32]) -> NetworkPolicyIngressRule {
    NetworkPolicyIngressRule {
        from: Some(vec![peer(component)]),
        ports: Some(ports.iter().map(|&number| port("TCP", number)).collect()),
    }
}

fn to_pods(component: &str, ports: &[i32]) -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule {
        to: Some(vec![peer(component)]),
        ports: Some(ports.iter().map(|&number| port("TCP", number)).collect()),
    }
}

fn peer(component: &str) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        pod_selector: Some(pods(selector(component))),
        ..NetworkPolicyPeer::default()
    }
}

fn dns(settings: &Settings) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        namespace_selector: Some(pods(BTreeMap::from([(
            "kubernetes.io/metadata.name".to_owned(),
            settings.dns.namespace.clone(),
        )]))),
        pod_selector: Some(pods(settings.dns.labels.clone())),
        ..NetworkPolicyPeer::default()
    }
}

fn pods(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels),
        ..LabelSelector::default()
    }
}

fn port(protocol: &str, number: i32) -> NetworkPolicyPort {
    NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(IntOrString::Int(number)),
        ..NetworkPolicyPort::default()
    }
}
