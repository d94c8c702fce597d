//! Turns pods, namespaces and NetworkPolicies into the ruleset of one node. Pure.
//!
//! Invariant: what cannot be understood allows nothing and is named in [`Compiled::problems`].
//! Semantics: networking.k8s.io/v1 `NetworkPolicySpec` and its documentation.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;
use k8s_openapi::{
    api::networking::v1::{IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort},
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use kube::core::{Selector, SelectorExt};

use super::{
    model::{Gate, Peers, Port, Ports, Protocol, Rule, Ruleset},
    pods::Pod,
};

/// Labels of every namespace, by its name.
pub type Namespaces = BTreeMap<String, BTreeMap<String, String>>;

/// The outcome of [`compile`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// What to enforce.
    pub ruleset: Ruleset,
    /// Parts of policies that were left out because they make no sense, one sentence each.
    pub problems: Vec<String>,
}

/// Works out what this node has to enforce. The order of the inputs does not matter.
pub fn compile<P>(pods: &[Pod], namespaces: &Namespaces, policies: &[P]) -> Compiled
where
    P: Borrow<NetworkPolicy>,
{
    let pods = settle(pods);
    let mut policies: Vec<&NetworkPolicy> = policies.iter().map(Borrow::borrow).collect();
    policies.sort_by_key(|policy| identity(policy));
    let mut compiler = Compiler {
        pods: &pods,
        namespaces,
        problems: Vec::new(),
    };
    let mut egress = Direction::default();
    let mut ingress = Direction::default();
    for policy in policies {
        let Some(spec) = &policy.spec else { continue };
        let name = identity(policy);
        let home = policy.metadata.namespace.as_deref().unwrap_or_default();
        let Some(selector) = compiler.selector(&name, spec.pod_selector.as_ref()) else {
            continue;
        };
        let subjects: Vec<usize> = (0..pods.len())
            .filter(|&index| pods[index].local && pods[index].namespace == home)
            .filter(|&index| selector.matches(&pods[index].labels))
            .collect();
        if subjects.is_empty() {
            continue;
        }
        let (to_ingress, to_egress) = match spec.policy_types.as_deref() {
            Some(types) if !types.is_empty() => (
                types.iter().any(|kind| kind == "Ingress"),
                types.iter().any(|kind| kind == "Egress"),
            ),
            _ => (
                true,
                spec.egress.as_ref().is_some_and(|rules| !rules.is_empty()),
            ),
        };
        if to_ingress {
            let rules = spec.ingress.iter().flatten().map(|rule| {
                compiler.rule(
                    &name,
                    home,
                    rule.from.as_deref(),
                    rule.ports.as_deref(),
                    &subjects,
                )
            });
            let rules = rules.collect();
            ingress.add(name.clone(), &subjects, rules);
        }
        if to_egress {
            let everybody: Vec<usize> = (0..pods.len()).collect();
            let rules = spec.egress.iter().flatten().map(|rule| {
                compiler.rule(
                    &name,
                    home,
                    rule.to.as_deref(),
                    rule.ports.as_deref(),
                    &everybody,
                )
            });
            let rules = rules.collect();
            egress.add(name, &subjects, rules);
        }
    }
    let ruleset = Ruleset {
        egress: egress.gates(&pods),
        ingress: ingress.gates(&pods),
    };
    Compiled {
        ruleset,
        problems: compiler.problems,
    }
}

/// Leaves every address to one pod, the newest: an old pod's record may outlive its address.
fn settle(pods: &[Pod]) -> Vec<Pod> {
    let mut pods = pods.to_vec();
    pods.sort_by(|one, other| {
        other
            .created
            .cmp(&one.created)
            .then_with(|| one.addresses.cmp(&other.addresses))
    });
    let mut taken = BTreeSet::new();
    for pod in &mut pods {
        pod.addresses.retain(|address| taken.insert(*address));
    }
    pods.retain(|pod| !pod.addresses.is_empty());
    pods
}

fn identity(policy: &NetworkPolicy) -> String {
    let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
    format!(
        "{namespace}/{}",
        policy.metadata.name.as_deref().unwrap_or_default()
    )
}

/// The policies of one direction and, for each pod, which of them isolate it.
#[derive(Default)]
struct Direction {
    policies: Vec<(String, Vec<Rule>)>,
    isolated: BTreeMap<usize, Vec<usize>>,
}

impl Direction {
    fn add(&mut self, name: String, subjects: &[usize], rules: Vec<Rule>) {
        for &subject in subjects {
            self.isolated
                .entry(subject)
                .or_default()
                .push(self.policies.len());
        }
        self.policies.push((name, rules));
    }

    /// One gate for all pods that the same policies isolate, so that twins share a chain.
    fn gates(self, pods: &[Pod]) -> Vec<Gate> {
        let mut groups: BTreeMap<Vec<usize>, BTreeSet<IpAddr>> = BTreeMap::new();
        for (subject, policies) in self.isolated {
            groups
                .entry(policies)
                .or_default()
                .extend(&pods[subject].addresses);
        }
        let gate = |(members, addresses): (Vec<usize>, BTreeSet<IpAddr>)| Gate {
            addresses,
            policies: members
                .iter()
                .map(|&index| self.policies[index].0.clone())
                .collect(),
            rules: members
                .iter()
                .flat_map(|&index| self.policies[index].1.clone())
                .collect(),
        };
        groups.into_iter().map(gate).collect()
    }
}

struct Compiler<'a> {
    pods: &'a [Pod],
    namespaces: &'a Namespaces,
    problems: Vec<String>,
}

impl Compiler<'_> {
    /// `receivers` are the pods a named port may belong to.
    fn rule(
        &mut self,
        policy: &str,
        home: &str,
        peers: Option<&[NetworkPolicyPeer]>,
        ports: Option<&[NetworkPolicyPort]>,
        receivers: &[usize],
    ) -> Rule {
        let peers = match peers {
            None | Some([]) => Peers::Any,
            Some(peers) => {
                let networks: Vec<IpNet> = peers
                    .iter()
                    .flat_map(|peer| self.peer(policy, home, peer))
                    .collect();
                Peers::Within(IpNet::aggregate(&networks))
            }
        };
        let ports = match ports {
            None | Some([]) => Ports::Any,
            Some(ports) => Ports::Only(
                ports
                    .iter()
                    .filter_map(|port| self.port(policy, port, receivers))
                    .collect(),
            ),
        };
        Rule { peers, ports }
    }

    fn peer(&mut self, policy: &str, home: &str, peer: &NetworkPolicyPeer) -> Vec<IpNet> {
        if let Some(block) = &peer.ip_block {
            return self.block(policy, block);
        }
        if peer.namespace_selector.is_none() && peer.pod_selector.is_none() {
            self.problems
                .push(format!("{policy}: a peer names nobody; give it a selector"));
            return Vec::new();
        }
        let pod_selector = self.selector(policy, peer.pod_selector.as_ref());
        // No namespace selector means the policy's own namespace, an empty one means all.
        let namespace_selector = match &peer.namespace_selector {
            None => None,
            Some(selector) => match self.selector(policy, Some(selector)) {
                None => return Vec::new(),
                selector => selector,
            },
        };
        let Some(pod_selector) = pod_selector else {
            return Vec::new();
        };
        let nothing = BTreeMap::new();
        let in_scope = |pod: &&Pod| match &namespace_selector {
            None => pod.namespace == home,
            Some(selector) => {
                selector.matches(self.namespaces.get(&pod.namespace).unwrap_or(&nothing))
            }
        };
        self.pods
            .iter()
            .filter(in_scope)
            .filter(|pod| pod_selector.matches(&pod.labels))
            .flat_map(|pod| pod.addresses.iter().copied().map(IpNet::from))
            .collect()
    }

    fn block(&mut self, policy: &str, block: &IPBlock) -> Vec<IpNet> {
        let Some(network) = self.network(policy, &block.cidr) else {
            return Vec::new();
        };
        let mut holes = Vec::new();
        for except in block.except.iter().flatten() {
            // A hole that cannot be read could be any: then the block allows nothing.
            let Some(hole) = self.network(policy, except) else {
                return Vec::new();
            };
            holes.push(hole);
        }
        let mut rest = Vec::new();
        subtract(network, &holes, &mut rest);
        rest
    }

    fn network(&mut self, policy: &str, text: &str) -> Option<IpNet> {
        let network = text.parse::<IpNet>().ok().map(|network| network.trunc());
        if network.is_none() {
            self.problems.push(format!(
                "{policy}: {text:?} is no network; write it as a.b.c.d/n"
            ));
        }
        network
    }

    fn port(
        &mut self,
        policy: &str,
        port: &NetworkPolicyPort,
        receivers: &[usize],
    ) -> Option<Port> {
        let Some(protocol) = Protocol::parse(port.protocol.as_deref()) else {
            let protocol = port.protocol.as_deref().unwrap_or_default();
            self.problems.push(format!(
                "{policy}: no protocol {protocol:?}; use TCP, UDP or SCTP"
            ));
            return None;
        };
        match &port.port {
            None => Some(Port::Every(protocol)),
            Some(IntOrString::Int(first)) => {
                let last = port.end_port.unwrap_or(*first);
                let range = u16::try_from(*first).ok().zip(u16::try_from(last).ok());
                let range = range.filter(|(first, last)| first <= last);
                if range.is_none() {
                    self.problems.push(format!(
                        "{policy}: {first} to {last} are no ports; keep to 1 to 65535, rising"
                    ));
                }
                range.map(|(first, last)| Port::Range(protocol, first..=last))
            }
            Some(IntOrString::String(name)) => {
                let mut endpoints = BTreeSet::new();
                for pod in receivers.iter().map(|&index| &self.pods[index]) {
                    for port in &pod.ports {
                        if port.name == *name && port.protocol == protocol {
                            let at = |&address| (address, protocol, port.number);
                            endpoints.extend(pod.addresses.iter().map(at));
                        }
                    }
                }
                Some(Port::Named(endpoints))
            }
        }
    }

    /// Nothing said selects everything; what cannot be read selects nothing.
    fn selector(&mut self, policy: &str, selector: Option<&LabelSelector>) -> Option<Selector> {
        let selector = Selector::try_from(selector.cloned().unwrap_or_default()).ok();
        if selector.is_none() {
            self.problems.push(format!(
                "{policy}: unreadable label selector; check its operators"
            ));
        }
        selector
    }
}

/// The parts of `network` outside all `holes`, as networks.
fn subtract(network: IpNet, holes: &[IpNet], rest: &mut Vec<IpNet>) {
    if holes.iter().any(|hole| hole.contains(&network)) {
        return;
    }
    if !holes.iter().any(|hole| network.contains(hole)) {
        rest.push(network);
        return;
    }
    // A hole is smaller than the network, so the network has two halves.
    for half in network
        .subnets(network.prefix_len() + 1)
        .into_iter()
        .flatten()
    {
        subtract(half, holes, rest);
    }
}

#[cfg(test)]
mod tests;
