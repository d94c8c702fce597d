//! KubeVirt for one site, and the kubelets of its virtual machines.
//!
//! [`testkit::fakes::kubevirt`] plays the virtual machines; here is how one becomes a node: in the
//! tenant's stand-in as soon as its instance runs, if the bootstrap token is valid there.
//! Invariant: only the site's virtual machines are touched.

use std::sync::Arc;

use api::names;
use serde_json::{Value, json};
use testkit::TenantApis;
use testkit::fakes::kubevirt::{Behaviour, FakeKubeVirt, Guest, Instances, Selection};

use super::Site;

pub(crate) use testkit::fakes::kubevirt::{ZONE, address};

/// What it does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// Machines run, and their nodes join.
    Joining,
    /// Machines run, and no node joins.
    Mute,
    /// The management cluster has no room for instances.
    Full,
    /// Instances are refused.
    Refusing,
    /// Nothing happens, whatever is made or deleted.
    Asleep,
}

impl Mode {
    fn behaviour(self) -> Behaviour {
        Behaviour {
            awake: self != Self::Asleep,
            instances: match self {
                Self::Full => Instances::Full,
                Self::Refusing => Instances::Refused,
                Self::Joining | Self::Mute | Self::Asleep => Instances::Run,
            },
            joins: self == Self::Joining,
            ..Behaviour::default()
        }
    }
}

/// A running one; it ends when it is dropped.
pub(crate) struct KubeVirt(FakeKubeVirt);

impl KubeVirt {
    pub(crate) fn start(site: &Site) -> Self {
        let tenants = Arc::clone(&site.tenants);
        let join = move |guest: Guest<'_>| join(&tenants, guest);
        let selection = Selection::machines_of(&site.scope());
        Self(FakeKubeVirt::start(&site.admin, &selection, join))
    }

    /// Changes what it does; what is there already is looked at again.
    pub(crate) fn set(&self, mode: Mode) {
        self.0.set(mode.behaviour());
    }
}

/// The path of a node.
pub(crate) fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

/// Status of a node.
pub(crate) fn node_status(ready: &str) -> Value {
    let condition = json!({ "type": "Ready", "status": ready, "message": "as the test says" });
    json!({ "conditions": [condition], "nodeInfo": { "kubeletVersion": "v1.35.4" } })
}

/// As kubeadm does it: without a valid token there is no node.
fn join(tenants: &TenantApis, guest: Guest<'_>) {
    let Guest {
        namespace, name, ..
    } = guest;
    let path = node_path(name);
    let uid = guest.labels.get(names::LABEL_MACHINE_UID);
    let token = tenant_cp::node::bootstrap_token::token_secret_name(uid.map_or("", String::as_str));
    let token = format!("/api/v1/namespaces/kube-system/secrets/{token}");
    let there = |path: &str| tenants.object(namespace, path).is_some();
    if there(&path) || !there(&token) {
        return;
    }
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "spec": { "providerID": names::kubevirt_provider_id(name) },
        "status": node_status("True"),
    });
    tenants.put(namespace, &path, &node);
}
