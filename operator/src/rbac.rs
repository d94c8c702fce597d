//! The rights that the code of operator and webhook needs, next to why. `operator print rbac` renders them;
//! the chart's roles are that output.
//!
//! Invariant: no right on Secrets outside tenant namespaces, users' namespaces with a
//! TenantCluster or, once it is gone, with a Host that a Machine has, and our own; no wildcard; `bind` only on roles by name
//! (docs/adr/0001; the chart's admission policies fence where they may be bound).

use std::slice::from_ref;

use api::names::SLEEPERS;
use api::storage::Hotplug;
use kit_objects::kinds;
use kit_objects::rbac::Rule;
use serde_json::{Value, json};
use tenant_cp::addons::addon::Leftover;
use tenant_cp::addons::registry;

use crate::admission::certificate;

pub mod people;

/// Name of the ClusterRole that the operator is bound to in every tenant namespace.
pub const TENANT_NAMESPACE_ROLE: &str = "covey-tenant-namespace";
/// Name of the webhook's account, ClusterRole and Role.
pub const WEBHOOK: &str = "covey-webhook";
/// Name of the ClusterRole that the operator is bound to in users' namespaces.
pub const USER_NAMESPACE_ROLE: &str = "covey-user-namespace";
/// Name of the role in the namespace of control planes that wait.
pub const STANDBY_ROLE: &str = "covey-standby";

const WATCH: &[&str] = &["list", "watch"];
const APPLY: &[&str] = &["create", "list", "patch"];
const BIND: Rule = Rule::new(&["rbac.authorization.k8s.io"], &["clusterroles"], &["bind"]);

/// The operator's, cluster-wide: the kinds of ours, metadata of what was applied, to notice drift, nodes, and
/// what takes room on them.
#[must_use]
pub fn cluster() -> Vec<Rule> {
    let mut rules = vec![
        Rule::new(
            &["covey.dev"],
            &["tenantclusters"],
            &["get", "list", "patch", "watch"],
        ),
        Rule::new(
            &["covey.dev"],
            &["nodepools"],
            &["get", "list", "patch", "watch"],
        ),
        // Node pools make and delete their Machines; nobody else's are touched.
        Rule::new(
            &["covey.dev"],
            &["machines"],
            &["create", "delete", "get", "list", "patch", "watch"],
        ),
        // Their finalizers.
        Rule::new(
            &["covey.dev"],
            &["hosts", "providerconfigs"],
            &["list", "patch", "watch"],
        ),
        // One that ended goes; each is read live before its rights are given.
        Rule::new(
            &["covey.dev"],
            &["accessgrants"],
            &["delete", "get", "list", "patch", "watch"],
        ),
        Rule::new(
            &["covey.dev"],
            &[
                "backuptargets",
                "fleetpolicies",
                "machineaddresses",
                "restores",
                "snapshots",
                "tenantquotas",
            ],
            WATCH,
        ),
        // One that is carried out is read live: what follows from it cannot be undone. One is made where all volumes of
        // an etcd are gone and the user said so.
        Rule::new(&["covey.dev"], &["restores"], &["create", "get"]),
        // One is made before an upgrade.
        Rule::new(&["covey.dev"], &["snapshots"], &["create"]),
        Rule::new(
            &["covey.dev"],
            &[
                "accessgrants/status",
                "backuptargets/status",
                "fleetpolicies/status",
                "hosts/status",
                "machines/status",
                "nodepools/status",
                "providerconfigs/status",
                "restores/status",
                "snapshots/status",
                "tenantclusters/status",
                "tenantquotas/status",
            ],
            &["patch"],
        ),
        // They own objects that block their deletion.
        Rule::new(
            &["covey.dev"],
            &["nodepools/finalizers", "tenantclusters/finalizers"],
            &["update"],
        ),
        Rule::new(
            &[""],
            &["namespaces"],
            &["create", "delete", "get", "list", "patch", "watch"],
        ),
        Rule::new(
            &[""],
            &["persistentvolumeclaims", "serviceaccounts", "services"],
            WATCH,
        ),
        // The volume of a member of etcd is kept when its claim goes: an admission policy of the chart lets
        // nothing else of a volume be changed.
        Rule::new(&[""], &["persistentvolumes"], &["get", "patch"]),
        Rule::new(&["apps"], &["deployments", "statefulsets"], WATCH),
        Rule::new(&["networking.k8s.io"], &["networkpolicies"], WATCH),
        Rule::new(&["policy"], &["poddisruptionbudgets"], WATCH),
        Rule::new(
            &["rbac.authorization.k8s.io"],
            &["rolebindings"],
            &["create", "get", "list", "patch", "watch"],
        ),
        BIND.named(&[TENANT_NAMESPACE_ROLE, USER_NAMESPACE_ROLE]),
        // Events about a TenantCluster stand beside it.
        Rule::new(&["events.k8s.io"], &["events"], &["create"]),
        // The webhook's caBundle.
        Rule::new(
            &["admissionregistration.k8s.io"],
            &["validatingwebhookconfigurations"],
            &["list", "patch", "watch"],
        )
        .named(&["covey"]),
        provider_kubevirt::provider::NODE_RULE,
        // What is left of them for machines (docs/adr/0005).
        Rule::new(&[""], &["nodes", "pods", "resourcequotas"], WATCH),
        // With those of the nodes the ranges that workers must not reach.
        Rule::new(&["networking.k8s.io"], &["servicecidrs"], WATCH),
        // Whether KubeVirt has published holes: its version.
        Rule::new(&["kubevirt.io"], &["kubevirts"], WATCH),
    ];
    let roles = registry::ALL.iter().map(|addon| addon.cluster_roles());
    rules.extend(
        roles
            .filter(|names| !names.is_empty())
            .map(|names| BIND.named(names)),
    );
    rules
}

/// The webhook's, cluster-wide: what it decides from. It writes nothing, and reads no Secret but its own.
#[must_use]
pub fn webhook() -> Vec<Rule> {
    vec![
        Rule::new(
            &["covey.dev"],
            &["nodepools", "tenantclusters", "tenantquotas"],
            WATCH,
        ),
        // Which ranges no tenant cluster may have.
        Rule::new(&[""], &["nodes"], WATCH),
        Rule::new(&["networking.k8s.io"], &["servicecidrs"], WATCH),
    ]
}

/// The webhook's, in our own namespace: its certificate and key.
#[must_use]
pub fn webhook_system_namespace() -> Vec<Rule> {
    vec![Rule::new(&[""], &["secrets"], WATCH).named(&[certificate::NAME])]
}

/// In every tenant namespace: the parts of a control plane, which go with the namespace (one by one
/// only what addons leave when they are switched off); and the virtual machines of Machines with
/// the Secrets that they boot with.
#[must_use]
pub fn tenant_namespace() -> Vec<Rule> {
    let mut rules = control_plane();
    rules.extend([
        // What a Machine boots with; those of addons that are switched off.
        Rule::new(&[""], &["secrets"], &["delete", "get"]),
        Rule::new(
            &["kubevirt.io"],
            &["virtualmachineinstances", "virtualmachines"],
            &["watch"],
        ),
        // Which addresses they have.
        Rule::new(&["covey.dev"], &["machineaddresses"], &["create", "patch"]),
    ]);
    rules.extend(addons_off());
    rules.extend(backup_off());
    rules.extend(events_off());
    rules.extend(provider_kubevirt::provider::RULES);
    rules
}

/// To take addons away when they are switched off: each of their parts by name, and what their programs made
/// is looked for by name, too. Of Secrets and Services all may go, for other reasons.
fn addons_off() -> Vec<Rule> {
    let parts = registry::ALL.iter().flat_map(|addon| addon.leftovers());
    let by_name = parts.filter(|part| ![kinds::SECRET, kinds::SERVICE].contains(&part.kind));
    let rule = |part: &'static Leftover| {
        let verbs: &[&str] = match part.made_by_itself {
            true => &["delete", "get"],
            false => &["delete"],
        };
        let (group, resource) = (from_ref(&part.kind.group), from_ref(&part.kind.plural));
        Rule::new(group, resource, verbs).named(from_ref(&part.name))
    };
    by_name.map(rule).collect()
}

/// To take away what backs a tenant cluster up, by name, when no backup is wanted any more. Its claim and the data key
/// stay; of Secrets all may go, for other reasons.
fn backup_off() -> Vec<Rule> {
    use tenant_cp::backup::process::{BACKUP, TO_ETCD};
    const DELETE: &[&str] = &["delete"];
    vec![
        Rule::new(&["apps"], &["deployments"], DELETE).named(&[BACKUP]),
        Rule::new(&["networking.k8s.io"], &["networkpolicies"], DELETE).named(&[BACKUP, TO_ETCD]),
        Rule::new(&[""], &["serviceaccounts"], DELETE).named(&[BACKUP]),
    ]
}

/// To take the etcd of Events away, by name, when it is not wanted any more. Of Secrets and Services all may go, for other
/// reasons.
fn events_off() -> Vec<Rule> {
    const DELETE: &[&str] = &["delete"];
    const NAME: &[&str] = &[tenant_cp::names::ETCD_EVENTS];
    vec![
        Rule::new(&["apps"], &["deployments"], DELETE).named(NAME),
        Rule::new(&["networking.k8s.io"], &["networkpolicies"], DELETE).named(NAME),
        Rule::new(&[""], &["serviceaccounts"], DELETE).named(NAME),
    ]
}

fn control_plane() -> Vec<Rule> {
    vec![
        Rule::new(&[""], &["secrets"], &["create", "list", "patch", "watch"]),
        // Konnectivity's, the autoscaler's, and mirrors of the tenant's load balancers, whose names are
        // hashes.
        Rule::new(&[""], &["services"], &["delete"]),
        Rule::new(
            &[""],
            &["persistentvolumeclaims", "serviceaccounts", "services"],
            APPLY,
        ),
        Rule::new(&["apps"], &["deployments", "statefulsets"], APPLY),
        // Only so that it is made anew with another StorageClass; its pods stay.
        Rule::new(&["apps"], &["statefulsets"], &["delete"]).named(&[tenant_cp::names::ETCD]),
        // To end them without grace when the tenant cluster is deleted.
        // Those of etcd are ended one by one when they are rolled out.
        Rule::new(&[""], &["pods"], &["delete", "deletecollection", "list"]),
        Rule::new(
            &["apps"],
            &["deployments", "replicasets", "statefulsets"],
            &["deletecollection"],
        ),
        Rule::new(
            &["kubevirt.io"],
            &["virtualmachineinstances", "virtualmachines"],
            &["deletecollection"],
        ),
        // One by one only those of a member of etcd that was replaced, and volumes that a tenant cluster which was
        // brought back does not know.
        Rule::new(
            &[""],
            &["persistentvolumeclaims"],
            &["delete", "deletecollection"],
        ),
        // Those that a tenant cluster which was brought back does not know; the driver makes them.
        Rule::new(
            &["snapshot.storage.k8s.io"],
            &["volumesnapshots"],
            &["delete", "list"],
        ),
        // What builds the data of etcd's members when it is restored, and removes what they had before.
        Rule::new(&["batch"], &["jobs"], &["create", "delete", "list"]),
        Rule::new(&["networking.k8s.io"], &["networkpolicies"], APPLY),
        Rule::new(&["policy"], &["poddisruptionbudgets"], APPLY),
        // What leads to the activator while it sleeps.
        Rule::new(
            &["discovery.k8s.io"],
            &["endpointslices"],
            &["create", "delete", "get", "patch"],
        )
        .named(&[tenant_cp::names::ACTIVATOR_SLICE]),
    ]
}

/// In a user's namespace: the kubeconfig Secrets, and what let an autoscaler that is switched off size
/// node pools (which names those have is said by an admission policy of the chart).
#[must_use]
pub fn user_namespace() -> Vec<Rule> {
    vec![
        Rule::new(
            &[""],
            &["secrets"],
            &["create", "get", "list", "patch", "watch"],
        ),
        Rule::new(
            &["rbac.authorization.k8s.io"],
            &["rolebindings"],
            &["delete"],
        ),
    ]
}

/// In our own namespace: the Lease, the webhook's certificate, what checks BackupTargets, and the Secrets that
/// those name.
#[must_use]
pub fn system_namespace() -> Vec<Rule> {
    let mut rules = kit::lease::RULES.to_vec();
    // At which port the activator waits for which tenant cluster. "create" cannot be limited by name.
    rules.push(Rule::new(&[""], &["configmaps"], &["create"]));
    rules.push(Rule::new(&[""], &["configmaps"], &["get", "patch"]).named(&[SLEEPERS]));
    // By which requests wake tenant clusters that sleep.
    rules.push(Rule::new(&["coordination.k8s.io"], &["leases"], WATCH));
    rules.push(Rule::new(&[""], &["secrets"], &["create"]));
    rules.push(
        Rule::new(&[""], &["secrets"], &["list", "patch", "watch"]).named(&[certificate::NAME]),
    );
    // Those that a BackupTarget names: of two tenant namespaces get copies, of the recovery key nobody does. Which they are
    // is not known here.
    rules.push(Rule::new(&[""], &["secrets"], &["get"]));
    // Its pods may be read by the right of the whole cluster.
    rules.push(Rule::new(
        &["batch"],
        &["jobs"],
        &["create", "delete", "list", "watch"],
    ));
    rules
}

/// Where control planes wait that nobody has asked for: there alone TenantClusters are made and deleted.
#[must_use]
pub fn standby_namespace() -> Vec<Rule> {
    vec![Rule::new(
        &["covey.dev"],
        &["tenantclusters"],
        &["create", "delete"],
    )]
}

/// The chart's roles.
///
/// # Errors
/// When they cannot be written as YAML, which is a bug.
pub fn yaml() -> anyhow::Result<String> {
    let role = |kind: &str, name: &str, rules: Value| {
        let mut metadata = json!({ "name": name });
        if kind == "Role" {
            metadata["namespace"] = "{{ .Release.Namespace }}".into();
        }
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": metadata,
            "rules": rules,
        })
    };
    let ours =
        |kind, name, rules: &[Rule]| role(kind, name, json!(kit_objects::rbac::render(rules)));
    let roles = [
        ours("ClusterRole", "covey-operator", &cluster()),
        ours("ClusterRole", WEBHOOK, &webhook()),
        ours("ClusterRole", TENANT_NAMESPACE_ROLE, &tenant_namespace()),
        ours("ClusterRole", USER_NAMESPACE_ROLE, &user_namespace()),
        ours("ClusterRole", STANDBY_ROLE, &standby_namespace()),
        ours("Role", "covey-operator", &system_namespace()),
        ours("Role", WEBHOOK, &webhook_system_namespace()),
    ];
    let mut text = String::from("# Generated from operator/src/rbac.rs by `cargo xtask deploy`.\n");
    for role in roles {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&role)?);
    }
    // Not the operator's: bound to accounts of addons in a tenant namespace.
    for addon in registry::ALL {
        for name in addon.cluster_roles() {
            let text_of = |hotplug| {
                let rules = json!(addon.rules_outside(hotplug));
                serde_saphyr::to_string(&role("ClusterRole", name, rules))
            };
            let declarative = text_of(Hotplug::Declarative)?;
            let subresources = text_of(Hotplug::Subresources)?;
            text.push_str("---\n");
            if declarative == subresources {
                text.push_str(&declarative);
                continue;
            }
            let hotplug = "eq (dig \"storage\" \"hotplug\" \"\" .Values.config) \"declarative\"";
            text.push_str(&format!("{{{{- if {hotplug} }}}}\n{declarative}"));
            text.push_str(&format!("{{{{- else }}}}\n{subresources}{{{{- end }}}}\n"));
        }
    }
    // Not the operator's either: what people have who have Kubernetes' own roles.
    text.push_str("{{- if .Values.aggregatedRoles.enabled }}\n");
    for people in &people::ALL {
        let mut role = ours("ClusterRole", people.name, people.rules);
        role["metadata"]["labels"] = json!({ people.label(): "true" });
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&role)?);
    }
    text.push_str("{{- end }}\n");
    Ok(text)
}

#[cfg(test)]
mod tests;
