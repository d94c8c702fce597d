//! An addon: what Covey installs for a tenant cluster besides its control plane. Everything that deals with
//! addons goes through this trait and the list [`super::registry::ALL`]; nothing else names one.
//!
//! Invariant: names never change once released: objects of an addon that was switched off are found
//! again by its name.

use std::collections::BTreeMap;
use std::fmt::Debug;

use api::storage::Hotplug;
use api::tenant_cluster::Addons;
use api::{ConditionType, Reason, TenantCluster};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kit_objects::kinds::Kind;
use kit_objects::object::{Key, Object};
use pki::{Store, Want};
use serde_json::Value;

use crate::addons::manifest::Inputs;
use crate::amounts::Amounts;
use crate::network::addresses::Addresses;
use crate::secret_files::Files;
use crate::settings::Settings;
use crate::validate::validated::Validated;

/// What an addon leaves in the tenant namespace when it is switched off.
#[derive(Clone, Copy, Debug)]
pub struct Leftover {
    /// Kind.
    pub kind: Kind,
    /// metadata.name
    pub name: &'static str,
    /// Whether a program of the addon makes it, and not the operator.
    pub made_by_itself: bool,
}

impl Leftover {
    /// One that the operator applied.
    #[must_use]
    pub(crate) const fn applied(kind: Kind, name: &'static str) -> Self {
        Self {
            kind,
            name,
            made_by_itself: false,
        }
    }
}

/// What has to be undone inside the tenant cluster before an addon's objects there may go: load balancers
/// of the tenant's Services.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// Label `app.kubernetes.io/component` of the Services that the addon made of them in the tenant
    /// namespace.
    pub component: &'static str,
    /// Why the addon is not gone meanwhile.
    pub reason: Reason,
}

/// Another addon that the pods of one go by.
#[derive(Clone, Copy, Debug)]
pub struct Footing {
    /// Name of the other one.
    pub addon: &'static str,
    /// What the pods' template has only while they go by it.
    pub mark: &'static str,
    /// Why the other one is not gone, where it was switched off and some of them still do.
    pub reason: Reason,
}

/// An addon.
pub trait Addon: Debug + Send + Sync {
    /// Value of the label `covey.dev/addon`.
    fn name(&self) -> &'static str;

    /// Which condition of the TenantCluster says whether it works.
    fn condition(&self) -> ConditionType;

    /// Whether the spec asks for it.
    fn is_enabled(&self, spec: &Addons) -> bool;

    /// Whether the tenant cluster wants it.
    fn is_wanted(&self, v: &Validated) -> bool {
        self.is_enabled(&v.addons)
    }

    /// What it takes of the management cluster while it is switched on. Default: nothing.
    fn takes(&self, tc: &TenantCluster, settings: &Settings) -> Amounts {
        let _ = (tc, settings);
        Amounts::default()
    }

    /// Its certificates; those that need addresses are left out while there are none. Default: none.
    fn certificates(
        &self,
        v: &Validated,
        settings: &Settings,
        addresses: Option<&Addresses>,
    ) -> Vec<Want> {
        let _ = (v, settings, addresses);
        Vec::new()
    }

    /// Authorities, each with a Secret of its own, that only the two ends of one connection know. They are
    /// made anew when they are lost or end, and written as any leaf is. Default: none.
    fn authorities(&self) -> &'static [&'static str] {
        &[]
    }

    /// Secrets that hold its other certificates. Default: none.
    fn secrets(&self) -> &'static [&'static str] {
        &[]
    }

    /// What is in such a Secret; none while something of it is not there. Asked only where the addon is
    /// wanted.
    fn secret(&self, v: &Validated, store: &Store, name: &str) -> Option<Files> {
        let _ = (v, store, name);
        None
    }

    /// Authorities without which the Secret of one of its certificates cannot be written, so that the
    /// certificate is not worth making; those of who signs it aside. Default: none of its own.
    fn companions(&self, certificate: &str) -> &'static [&'static str] {
        let _ = certificate;
        &[]
    }

    /// What it has in the tenant namespace before there are addresses: accounts, rights, NetworkPolicies,
    /// Services. Default: nothing.
    fn base(&self, v: &Validated, settings: &Settings) -> Vec<Object> {
        let _ = (v, settings);
        Vec::new()
    }

    /// Names of its Deployments in the tenant namespace. Default: none.
    fn deployment_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// The Deployments. `store` is what the Secrets hold: what a program reads only when it starts shows in
    /// its pod.
    fn deployments(&self, v: &Validated, settings: &Settings, store: &Store) -> Vec<Object> {
        let _ = (v, settings, store);
        Vec::new()
    }

    /// Those of its Deployments that are made only once the tenant cluster's API has answered, because they
    /// end without it. Default: none.
    fn deployments_that_need_the_api(&self) -> &'static [&'static str] {
        &[]
    }

    /// Deployments of the tenant namespace that have machines made or deleted: they end before machines do when the tenant
    /// cluster is put to sleep. Default: none.
    fn deployments_that_size_pools(&self) -> &'static [&'static str] {
        &[]
    }

    /// ClusterRoles of the chart that its accounts are bound to, one at most. Default: none.
    fn cluster_roles(&self) -> &'static [&'static str] {
        &[]
    }

    /// The rules of that ClusterRole, by how volumes are attached.
    fn rules_outside(&self, hotplug: Hotplug) -> Vec<PolicyRule> {
        let _ = hotplug;
        Vec::new()
    }

    /// Name of the binding that it has in the namespace of the TenantCluster. Default: none.
    fn user_binding(&self, cluster: &str) -> Option<String> {
        let _ = cluster;
        None
    }

    /// Everything in the tenant namespace by name, in the order in which it has to go. First what runs: no
    /// pod of it is to make anew what is deleted after it. Last a Secret: whoever lists the namespace sees
    /// by it that something is left. Default: nothing.
    fn leftovers(&self) -> &'static [Leftover] {
        &[]
    }

    /// Whether its server runs in the pods of the kube-apiserver, so that nothing of it goes before those
    /// are without it. Default: no.
    fn is_in_control_plane(&self) -> bool {
        false
    }

    /// What is to be undone inside before its objects there go. Default: nothing.
    fn release(&self) -> Option<Release> {
        None
    }

    /// What the pods of its [`Self::workload`] go by: that stays, switched off, until none of them does. Default:
    /// nothing.
    fn footing(&self) -> Option<Footing> {
        None
    }

    /// The object inside that says who is in it, where its nodes are told that: by the name of the node. Default: none.
    fn members(&self, members: &BTreeMap<String, String>) -> Option<Value> {
        let _ = members;
        None
    }

    /// Its objects inside the tenant cluster. Default: none.
    fn manifests(&self, inputs: &Inputs<'_>) -> Vec<Value> {
        let _ = inputs;
        Vec::new()
    }

    /// Names of all that [`Self::manifests`] may ever give. Default: what it gives now.
    fn every_manifest(&self, inputs: &Inputs<'_>) -> Vec<Value> {
        self.manifests(inputs)
    }

    /// The object inside the tenant cluster whose pods say whether it works, there whenever the addon is: a
    /// Deployment or a DaemonSet. Default: its pods are not inside.
    fn workload(&self) -> Option<Key> {
        None
    }

    /// Such objects where its nodes do not all have the same one: together they say whether it works. Default:
    /// [`Self::workload`].
    fn workloads(&self, v: &Validated) -> Vec<Key> {
        let _ = v;
        self.workload().into_iter().collect()
    }

    /// Whether it has something to do only once there are nodes. Default: yes.
    fn needs_nodes(&self) -> bool {
        true
    }

    /// Keys of what it leaves outside the tenant cluster when it is switched off, in the order in which it
    /// has to go.
    fn parts(&self, tenant_namespace: &str, user_namespace: &str, cluster: &str) -> Vec<Key> {
        let binding = self.user_binding(cluster);
        let binding = binding.map(|name| Key::new("RoleBinding", user_namespace, &name));
        let left = self.leftovers().iter();
        let left = left.map(|left| Key::new(left.kind.kind, tenant_namespace, left.name));
        binding.into_iter().chain(left).collect()
    }
}
