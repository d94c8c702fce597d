//! Turns one observation of one TenantCluster into the next step. No I/O, no clock, no chance.
//!
//! The order of stages: what lets the operator in (tenant namespace, bindings) → what gives
//! addresses and takes time (Services, claims) with what must exist once (authorities) → leaf
//! certificates → pods → the kubeconfig → what is no longer wanted → objects inside the tenant cluster
//! ([`tenant_objects`]).
//!
//! Invariant: planning again after applying yields an empty plan; a plan never says to write what
//! is already so.

use std::net::IpAddr;
use std::time::Duration;

use api::tenant_cluster::{EndpointStatus, NetworkStatus, TenantClusterStatus};
use jiff::Timestamp;
use kit::apply::difference;
use kit::events::Notice;
use serde_json::{Value, json};
use tenant_cp::desired::{self, Addon};
use tenant_cp::object::{Key, Object};
use tenant_cp::validate::Problem;
use tenant_cp::{Addresses, Settings, Validated, certificates, validate};

use super::observed::{Observed, Seen, Tenant};
use crate::rollouts::queue::Answer;
use crate::status::Waiting;

mod addresses;
mod deletion;
mod prune;
mod status;
pub mod tenant_objects;

use addresses::{addresses, all_addresses, server, service_port};
use prune::{cloud_controller_goes, prune};
pub use status::{LIST_SWEEP, SLOW_SWEEP};
use tenant_objects::Changes;

/// How long a probe goes on trying while a control plane starts for the first time.
pub const START_PATIENCE: Duration = Duration::from_secs(15);
/// How long a probe goes on trying afterwards.
const PATIENCE: Duration = Duration::from_secs(1);

/// The next step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Objects to write, stage after stage.
    pub stages: Vec<Stage>,
    /// Objects to delete.
    pub deletions: Vec<Target>,
    /// What is not a write of a Kubernetes object of the management cluster.
    pub actions: Vec<Action>,
    /// The status as it should be.
    pub status: TenantClusterStatus,
    /// Events to publish.
    pub events: Vec<Notice>,
    /// What keeps the tenant cluster from being Ready; waiting is not an error.
    pub waiting_on: Option<Waiting>,
    /// Secrets that are lost and must not be made anew.
    pub lost: Vec<certificates::Problem>,
    /// Hash of the objects inside the tenant cluster, once all of them are in place.
    pub in_place: Option<String>,
    /// When to reconcile again although nothing happened.
    pub requeue_after: Option<Duration>,
}

/// Objects that may be written side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Name for logs.
    pub name: &'static str,
    /// How they are written.
    pub mode: Mode,
    /// The objects.
    pub objects: Vec<Object>,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Server-side apply.
    Apply,
    /// Only if absent: keys that must never be overwritten. Somebody else's is read, not replaced.
    Create,
}

/// An object to delete.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Target {
    /// What.
    pub key: Key,
    /// Only this one, not a namesake.
    pub uid: String,
    /// Only as it was seen, where that matters.
    pub resource_version: Option<String>,
    /// Whether it stays, marked, until what it owns is gone, instead of the other way round.
    pub with_dependents: bool,
}

/// What is not a write of a Kubernetes object.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Put our finalizer on the TenantCluster.
    AddFinalizer,
    /// Take our finalizer off.
    RemoveFinalizer,
    /// End the pods of the tenant namespace without grace, with whoever would make them anew, and
    /// delete its claims.
    Empty {
        /// The tenant namespace.
        namespace: String,
    },
    /// Write the address ranges into the status before anything depends on them.
    KeepNetwork(NetworkStatus),
    /// Issue certificates and keys, to be written by the next plan.
    Issue {
        /// All certificates that are wanted.
        wants: Vec<pki::Want>,
        /// Which of them, and which keys.
        due: certificates::Plan,
    },
    /// Ask the tenant's API.
    Probe {
        /// Address of the Service.
        address: (IpAddr, u16),
        /// Where nodes and users reach the API, once that is known.
        endpoint: Option<EndpointStatus>,
        /// Objects to apply first, whatever is there: all, where nothing can be seen yet.
        apply: Vec<Object>,
        /// Whether to list the objects inside.
        list: bool,
        /// Whether that list is not the last, because something is held back.
        provisional: bool,
        /// Workloads whose pods are to be counted.
        workloads: Vec<Key>,
        /// How long to keep trying: longer while a start is under way.
        patience: Duration,
    },
    /// Write what differs inside the tenant cluster.
    ApplyTenantObjects {
        /// Address of the Service.
        address: (IpAddr, u16),
        /// What differs.
        changes: Changes,
    },
}

impl Plan {
    /// True when nothing is left to do but, perhaps, to write the status.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.stages.is_empty() && self.deletions.is_empty() && self.actions.is_empty()
    }
}

/// The next step for one TenantCluster.
#[must_use]
pub fn plan(observed: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let cluster = &observed.cluster;
    if cluster.metadata.deletion_timestamp.is_some() {
        return deletion::plan(observed, now);
    }
    if cluster.spec.paused {
        return status::paused(observed, now);
    }
    let finalizers = cluster.metadata.finalizers.as_deref().unwrap_or_default();
    if !finalizers.iter().any(|f| f == api::names::FINALIZER) {
        return Plan {
            actions: vec![Action::AddFinalizer],
            ..unchanged(observed)
        };
    }
    let ranges = match &observed.network {
        Ok(ranges) => ranges,
        Err(problem) => return status::refused(observed, std::slice::from_ref(problem), now),
    };
    if cluster.status.as_ref().and_then(|s| s.network.as_ref()) != Some(ranges) {
        return Plan {
            actions: vec![Action::KeepNetwork(ranges.clone())],
            ..unchanged(observed)
        };
    }
    match validate::validate(cluster, settings) {
        Ok(valid) => plan_parts(&valid, observed, settings, now),
        Err(problems) => status::refused(observed, &problems, now),
    }
}

fn unchanged(observed: &Observed) -> Plan {
    Plan {
        status: observed.cluster.status.clone().unwrap_or_default(),
        ..Plan::default()
    }
}

fn plan_parts(valid: &Validated, observed: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let mut plan = unchanged(observed);
    let ns = valid.tenant_namespace.as_str();
    if namespace_is_going(observed, ns) {
        // Somebody deleted the tenant namespace; it must be gone before it can be made again.
        return status::namespace_lost(valid, observed, now);
    }
    let mut foundation = desired::foundation(valid, settings, observed.workers);
    foundation.push(user_binding(valid, observed, settings));
    stage(&mut plan, "foundation", observed, foundation);
    if !plan.stages.is_empty() {
        // The rest of the namespace cannot be read before the binding is there.
        return status::report(plan, valid, observed, now);
    }

    let addresses = all_addresses(valid, observed);
    let endpoint = addresses.as_ref().and_then(|a| a.endpoint.as_ref());
    let mut wants = certificates::wants(valid, settings, addresses.as_ref());
    let starts = is_started(observed, ns) || observed.start == Answer::Go;
    // The administrator's certificate lives in the kubeconfig, which needs an address and is written
    // with the start. Before that it would be made anew at every reconcile, and each new date in
    // the status would be the next.
    wants.retain(|want| want.name != "admin" || (endpoint.is_some() && starts));
    let material = &observed.material;
    let due = certificates::plan(&wants, material, was_running(observed, ns), now);
    // What was lost cannot be made anew, but everything that does not need it goes on.
    plan.lost = due.problems.clone();
    if !due.is_empty() {
        plan.actions.push(Action::Issue { wants, due });
        return status::report(plan, valid, observed, now);
    }

    let mut base = desired::base(valid, settings);
    if publishes_early(observed, ns) {
        base = base.into_iter().map(publish_early).collect();
    }
    stage(&mut plan, "base", observed, base);
    create(
        &mut plan,
        "authorities",
        observed,
        certificates::authority_secrets(valid, material),
    );
    let Some(addresses) = addresses else {
        return status::report(plan, valid, observed, now);
    };
    let leafs = certificates::leaf_secrets(valid, material);
    stage(&mut plan, "certificates", observed, leafs);

    if addresses.endpoint.is_none() && !is_started(observed, ns) {
        // A serving certificate without the load balancer's address would be of no use, and a
        // running kube-apiserver takes minutes to notice a better one.
        plan.waiting_on = Some(Waiting {
            reason: "WaitingForAddress",
            message: format!("the Service {ns}/control-plane has no address yet"),
        });
        return status::report(plan, valid, observed, now);
    }
    let workloads = desired::workloads(valid, settings, &addresses, &material.store);
    if starts {
        stage(&mut plan, "workloads", observed, workloads);
    } else {
        plan.waiting_on = Some(Waiting {
            reason: "WaitingForStart",
            message: "control planes that were asked for earlier start first".to_owned(),
        });
        return status::report(plan, valid, observed, now);
    }
    if let Some(endpoint) = &addresses.endpoint {
        let owner = serde_json::from_value(owner(observed)).ok();
        let kubeconfig = certificates::kubeconfig(valid, &material.store, &server(endpoint), owner);
        stage(
            &mut plan,
            "kubeconfig",
            observed,
            kubeconfig.into_iter().collect(),
        );
    }
    if plan.is_settled() {
        plan.deletions = prune(valid, observed);
    }
    if plan.is_settled() {
        plan_tenant_objects(&mut plan, valid, observed, settings, &addresses);
    }
    status::report(plan, valid, observed, now)
}

/// Asks the tenant's API once per reconcile, after everything else is in place, and writes what
/// differs inside.
fn plan_tenant_objects(
    plan: &mut Plan,
    valid: &Validated,
    observed: &Observed,
    settings: &Settings,
    addresses: &Addresses,
) {
    let certificate = |name: &str| {
        let pair = observed.material.store.get(name);
        pair.map(|pair| pair.certificate.as_str())
    };
    let Some(authority) = certificate("ca") else {
        return;
    };
    let trust = desired::Trust {
        authority,
        konnectivity: certificate(certificates::KONNECTIVITY_AUTHORITY),
    };
    let objects = desired::bootstrap(valid, settings, addresses, trust);
    let hash =
        tenant_cp::object::hash(&json!(objects.iter().map(Object::hash).collect::<Vec<_>>()));
    let before = observed
        .cluster
        .status
        .as_ref()
        .and_then(|s| s.bootstrap_hash.as_deref());
    let address = (addresses.cluster_ip, service_port(valid));
    let goes = cloud_controller_goes(valid, observed);
    let probe = |apply: Vec<Object>, list: bool, patience| Action::Probe {
        address,
        endpoint: addresses.endpoint.clone(),
        apply,
        list,
        provisional: goes.is_some(),
        workloads: match observed.workers {
            true => wanted_addons(valid).filter_map(Addon::workload).collect(),
            false => Vec::new(),
        },
        patience,
    };
    match &observed.tenant {
        Tenant::NotAsked if before.is_none() => {
            plan.actions.push(probe(objects, false, START_PATIENCE));
        }
        Tenant::NotAsked => {
            let list = observed.list_due || before != Some(hash.as_str());
            plan.actions.push(probe(Vec::new(), list, PATIENCE));
        }
        // Somebody took our rights away; the administrator's way gives them back.
        Tenant::Answers {
            seen: Seen::Hidden, ..
        } => {
            plan.actions.push(probe(objects, false, PATIENCE));
        }
        Tenant::Answers {
            seen: Seen::Objects(live),
            ..
        } => {
            let changes = tenant_objects::plan(&objects, live, goes.is_some());
            if !changes.is_empty() {
                plan.actions
                    .push(Action::ApplyTenantObjects { address, changes });
            } else if let Some(message) = goes {
                let reason = status::REMOVING_CLOUD_CONTROLLER;
                plan.waiting_on = Some(Waiting { reason, message });
            } else {
                plan.in_place = Some(hash);
            }
        }
        Tenant::Answers {
            seen: Seen::Applied,
            ..
        } => plan.in_place = Some(hash),
        Tenant::Answers {
            seen: Seen::Nothing,
            ..
        }
        | Tenant::Silent { .. } => {}
    }
}

fn wanted_addons(valid: &Validated) -> impl Iterator<Item = Addon> {
    Addon::ALL
        .into_iter()
        .filter(|addon| addon.is_wanted(valid))
}

/// Adds a stage with those objects that are not yet as wanted.
fn stage(plan: &mut Plan, name: &'static str, observed: &Observed, objects: Vec<Object>) {
    let objects: Vec<_> = objects
        .into_iter()
        .filter(|o| {
            let live = observed.objects.get(&o.key());
            live.is_none_or(|live| difference(&o.value, live).is_some())
        })
        .collect();
    if !objects.is_empty() {
        plan.stages.push(Stage {
            name,
            mode: Mode::Apply,
            objects,
        });
    }
}

/// Adds a stage with those objects that are absent.
fn create(plan: &mut Plan, name: &'static str, observed: &Observed, objects: Vec<Object>) {
    let objects: Vec<_> = objects
        .into_iter()
        .filter(|o| !observed.objects.contains_key(&o.key()))
        .collect();
    if !objects.is_empty() {
        plan.stages.push(Stage {
            name,
            mode: Mode::Create,
            objects,
        });
    }
}

/// Until the first answer, and then until the first pod is Ready, the Service leads to a pod that is
/// not Ready yet: nobody depends on it, and the first answer comes a probe's period earlier. From
/// then on only ready pods get traffic.
fn publishes_early(observed: &Observed, ns: &str) -> bool {
    let live = observed.object("Service", ns, "control-plane");
    let flag = live.and_then(|s| s.pointer("/spec/publishNotReadyAddresses"));
    let ready = observed.number("Deployment", ns, "control-plane", "/status/readyReplicas");
    !has_been_ready(observed) || (ready == 0 && flag == Some(&Value::Bool(true)))
}

fn publish_early(object: Object) -> Object {
    if object.kind != "Service" || object.name != "control-plane" {
        return object;
    }
    let mut value = object.value;
    if let Some(spec) = value["spec"].as_object_mut() {
        spec.insert("publishNotReadyAddresses".to_owned(), json!(true));
    }
    Object::from_value(value)
}

/// The binding that lets the operator write kubeconfigs into the user's namespace. All
/// TenantClusters of the namespace own it together, so it goes with the last of them.
fn user_binding(valid: &Validated, observed: &Observed, settings: &Settings) -> Object {
    let mut value = desired::user_binding(&valid.namespace, settings).value;
    let mut owners: Vec<Value> = observed
        .others
        .iter()
        .filter(|o| o.metadata.namespace.as_deref() == Some(valid.namespace.as_str()))
        .filter(|o| o.metadata.deletion_timestamp.is_none())
        .filter_map(|o| {
            Some(owner_reference(
                o.metadata.name.as_deref()?,
                o.metadata.uid.as_deref()?,
            ))
        })
        .collect();
    owners.push(owner(observed));
    owners.sort_by_key(|o| o["uid"].as_str().map(str::to_owned));
    value["metadata"]["ownerReferences"] = Value::Array(owners);
    Object::from_value(value)
}

fn owner(observed: &Observed) -> Value {
    let meta = &observed.cluster.metadata;
    owner_reference(
        meta.name.as_deref().unwrap_or_default(),
        meta.uid.as_deref().unwrap_or_default(),
    )
}

fn owner_reference(name: &str, uid: &str) -> Value {
    json!({ "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "name": name, "uid": uid })
}

fn namespace_is_going(observed: &Observed, ns: &str) -> bool {
    observed
        .text("Namespace", "", ns, "/metadata/deletionTimestamp")
        .is_some()
}

/// True once pods were asked for: from then on keys must never be made anew.
fn was_running(observed: &Observed, ns: &str) -> bool {
    is_started(observed, ns) || has_been_ready(observed)
}

fn is_started(observed: &Observed, ns: &str) -> bool {
    observed.object("Deployment", ns, "control-plane").is_some()
}

/// True once the API answered for the first time.
fn has_been_ready(observed: &Observed) -> bool {
    observed
        .cluster
        .status
        .as_ref()
        .is_some_and(|s| s.bootstrap_hash.is_some())
}

/// All problems in one sentence each.
fn sentences(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(|p| format!("{}: {}", p.field, p.message))
        .collect::<Vec<_>>()
        .join("; ")
}
