//! Nodes: their network, the Machines that they are, what keeps pods from them, their version.
//!
//! Invariant: a node of a pool whose Machines are not known is nobody's fault.

use std::collections::BTreeSet;

use api::names::LABEL_MACHINE;
use api::tenant_cluster::CniType;
use k8s_openapi::api::core::v1::Node;
use kit_objects::known::Known;
use kube::ResourceExt as _;

use super::{NAMED, Seen, minor_of};
use crate::check::Check;
use crate::finding::{Finding, Level};
use crate::text;

/// Until the cloud controller manager has looked at a node (`kubelet --cloud-provider=external`).
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// How much older nodes may be (Kubernetes' version skew policy).
const OLDER: u32 = 3;

pub(super) fn check(look: &Seen<'_>) -> Vec<Finding> {
    let nodes = match look.list(&look.inside.nodes, Check::Nodes, "which nodes there are") {
        Ok(nodes) => nodes,
        Err(found) => return found,
    };
    let mut found = network(look, nodes);
    found.extend(taints(look, nodes));
    found.extend(machines(look, nodes));
    found.extend(versions(look, nodes));
    found
}

/// Names of nodes, some of them.
fn named(nodes: &[&Node]) -> String {
    let names: Vec<_> = nodes.iter().map(|node| node.name_any()).collect();
    text::names(names.iter().map(String::as_str), NAMED)
}

fn is_old(look: &Seen<'_>, node: &Node) -> bool {
    look.is_old(node.creation_timestamp().as_ref())
}

fn network(look: &Seen<'_>, nodes: &[Node]) -> Vec<Finding> {
    let lacks = |node: &&Node| {
        let conditions = node
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|condition| {
            let message = condition.message.as_deref().unwrap_or_default();
            let is_unavailable =
                condition.type_ == "NetworkUnavailable" && condition.status == "True";
            let is_without = condition.type_ == "Ready"
                && condition.status == "False"
                && message.contains("cni plugin not initialized");
            is_unavailable || is_without
        })
    };
    let without: Vec<_> = nodes
        .iter()
        .filter(lacks)
        .filter(|node| is_old(look, node))
        .collect();
    if without.is_empty() {
        return Vec::new();
    }
    let cause = format!(
        "{} of {} nodes have no network for pods: {}",
        without.len(),
        nodes.len(),
        named(&without)
    );
    let is_tenants = look.cluster.spec.addons.cni.type_ == CniType::None;
    let mend = match is_tenants {
        true => {
            "`spec.addons.cni.type` is `none`, so the network is the tenant's to bring: install one"
                .to_owned()
        }
        false => format!(
            "look at what makes it: `covey connect {} -- kubectl -n kube-system get pods`",
            look.subject.name
        ),
    };
    vec![look.told(Check::NodeNetwork, Level::Error, &cause, &mend)]
}

fn taints(look: &Seen<'_>, nodes: &[Node]) -> Vec<Finding> {
    let waits = |node: &&Node| {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        taints
            .into_iter()
            .flatten()
            .any(|taint| taint.key == UNINITIALIZED)
    };
    let waiting: Vec<_> = nodes
        .iter()
        .filter(waits)
        .filter(|node| is_old(look, node))
        .collect();
    if waiting.is_empty() {
        return Vec::new();
    }
    let name = &look.subject.name;
    let cause = format!(
        "{} of {} nodes wait for the cloud controller manager, and get no pods: {}",
        waiting.len(),
        nodes.len(),
        named(&waiting)
    );
    let mend = match look.cluster.spec.addons.cloud_controller.enabled {
        true => format!("`covey logs {name} ccm` says what keeps it"),
        false => "switch it on: `spec.addons.cloudController.enabled`".to_owned(),
    };
    vec![look.told(Check::Nodes, Level::Error, &cause, &mend)]
}

/// Nodes of Machines that are gone, and Machines whose node is gone.
fn machines(look: &Seen<'_>, nodes: &[Node]) -> Vec<Finding> {
    let Known::Known(machines) = &look.facts.machines else {
        return Vec::new();
    };
    let known: BTreeSet<_> = machines.iter().map(|machine| machine.name_any()).collect();
    let of_nobody = |node: &&Node| {
        let machine = node.labels().get(LABEL_MACHINE);
        machine.is_some_and(|machine| !known.contains(machine))
    };
    let left: Vec<_> = nodes
        .iter()
        .filter(of_nobody)
        .filter(|node| is_old(look, node))
        .collect();
    let names: BTreeSet<_> = nodes.iter().map(|node| node.name_any()).collect();
    let without = machines.iter().filter(|machine| {
        let status = machine.status.as_ref();
        let node = status.and_then(|status| status.node_name.as_ref());
        let is_going = machine.metadata.deletion_timestamp.is_some();
        !is_going && node.is_some_and(|node| !names.contains(node))
    });
    let without: Vec<_> = without.map(|machine| machine.name_any()).collect();
    let mut found = Vec::new();
    if !without.is_empty() {
        let cause = format!(
            "the nodes of {} machines are gone: {}",
            without.len(),
            text::names(without.iter().map(String::as_str), NAMED)
        );
        let mend = "somebody deleted the nodes: the kubelet of each makes its own anew when it is started again, or `kubectl delete machine` has the machine replaced";
        found.push(look.told(Check::Nodes, Level::Warning, &cause, mend));
    }
    if !left.is_empty() {
        let cause = format!("nodes are left of machines that are gone: {}", named(&left));
        let mend = format!(
            "the operator deletes them: `covey logs {} operator --grep node` says what keeps it",
            look.subject.name
        );
        found.push(look.told(Check::Nodes, Level::Warning, &cause, &mend));
    }
    found
}

fn versions(look: &Seen<'_>, nodes: &[Node]) -> Vec<Finding> {
    let status = look.cluster.status.as_ref();
    let version = status.and_then(|status| status.version.as_deref());
    let Some((runs, control_plane)) = version.zip(version.and_then(minor_of)) else {
        return Vec::new();
    };
    let kubelet = |node: &Node| {
        let info = node.status.as_ref()?.node_info.as_ref()?;
        minor_of(&info.kubelet_version)
    };
    let of = |is: &dyn Fn((u32, u32)) -> bool| -> Vec<&Node> {
        let all = nodes.iter();
        all.filter(|node| kubelet(node).is_some_and(is)).collect()
    };
    let newer = of(&|of| of > control_plane);
    let older = of(&|of| of.0 == control_plane.0 && of.1 + OLDER < control_plane.1);
    let mut found = Vec::new();
    if !newer.is_empty() {
        let cause = format!(
            "nodes are newer than the control plane, which runs {runs}: {}",
            named(&newer)
        );
        let mend = "upgrade the control plane first: `spec.version` of the TenantCluster";
        found.push(look.told(Check::Skew, Level::Error, &cause, mend));
    }
    if !older.is_empty() {
        let cause = format!(
            "nodes are more than {OLDER} minors older than the control plane, which runs {runs}: {}",
            named(&older)
        );
        let mend = "raise `spec.version` of their NodePool, which replaces its machines";
        found.push(look.told(Check::Skew, Level::Error, &cause, mend));
    }
    found
}
