//! What rotations see of Machines and nodes.
//!
//! Invariant: nodes are known once they were asked for.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kit_objects::object::Key;

use super::World;
use crate::rotation::kubelets::Kubelets;

/// There is no Machine, and no node.
pub(super) fn no_kubelets() -> Kubelets {
    Kubelets {
        nodes: Some(Ok(BTreeSet::new())),
        ..Kubelets::default()
    }
}

impl World {
    pub(super) fn see_machines(&self) -> Kubelets {
        Kubelets {
            machines: self.kubelets.machines.clone(),
            nodes: None,
        }
    }

    /// What pods and new nodes are told to believe its API by. Kube-controller-managers tell pods what they were started
    /// with, once all are new.
    pub(super) fn roots(&mut self) -> BTreeSet<String> {
        let mut pods = self.pods.keys();
        let is_newest =
            |key: &Key| !key.name.starts_with("controllers-") || self.is_newest(&key.name);
        if pods.all(is_newest) {
            let live = self.secret("controller-manager");
            let live = live.and_then(|live| live["data"]["ca.crt"].as_str());
            let live = live.and_then(|text| STANDARD.decode(text).ok());
            let live = live.and_then(|bytes| String::from_utf8(bytes).ok());
            self.root = live.unwrap_or_default();
        }
        [self.root.clone(), self.told_to_nodes()].into()
    }

    /// What new nodes are told.
    pub(in super::super) fn told_to_nodes(&self) -> String {
        let key = Key::new("ConfigMap", "kube-public", "cluster-info");
        let info = self.inside.get(&key);
        let info = info.and_then(|live| live["data"]["kubeconfig"].as_str());
        let mut lines = info.unwrap_or_default().lines();
        let encoded =
            lines.find_map(|line| line.trim().strip_prefix("certificate-authority-data: "));
        let bundle = encoded.and_then(|text| STANDARD.decode(text).ok());
        let bundle = bundle.and_then(|bytes| String::from_utf8(bytes).ok());
        bundle.unwrap_or_default()
    }
}
