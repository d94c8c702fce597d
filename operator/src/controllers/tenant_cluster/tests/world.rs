//! The simulated management cluster that plans are carried out in, and lose things in.
//!
//! Long because every action of a plan is carried out in one place. Invariant: it does what it is told and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::tenant_cluster::{TenantClusterStatus, TenantIdentity};
use api::{Snapshot, TenantCluster};
use jiff::Timestamp;
use kit_objects::known::Known;
use kit_objects::object::{Key, Object};
use serde_json::{Value, json};
use tenant_cp::problem::Problem;
use tenant_cp::{Settings, network};

use super::rotation_front_proxy;
use crate::controllers::stored::stored;
use crate::controllers::tenant_cluster::observe;
use crate::controllers::tenant_cluster::observed::{
    Etcd, EtcdSpace, EtcdSteps, Failure, Observed, Seen, Tenant, Way, component_pods, pods,
};
use crate::controllers::tenant_cluster::plan::{Action, Plan, plan};
use crate::etcd_disks::speed::Disks;
use crate::etcd_replacement::patience::Patience;
use crate::etcd_replacement::step::Step;
use crate::etcd_space::looks::{Glance, LastSaid};
use crate::etcd_space::plan::Step as SpaceStep;
use crate::maintenance::patches;
use crate::overlay::members::Overlay;
use crate::rollouts::queue::Answer;
use crate::rotation::kubelets::Kubelets;
use crate::standby::takeover::Taker;
use crate::tenant_session::aggregated::Believed;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::etcd::answers::Alarm;
use crate::tenant_session::held_tokens::HeldToken;
use crate::tenant_session::largest::Size;
use crate::tenant_session::preflight::answers::Inside;
use crate::upgrades::nodes::Nodes;
use crate::upgrades::surge::SurgeAnswer;
use crate::upgrades::versions;

mod at_rest;
mod controllers;
mod etcd;
mod hibernation;
mod laws;
mod own;
mod restore;
mod rotations;

pub(super) use at_rest::{by_kms, written_by};
pub(super) use hibernation::Sleeper;
pub(super) use restore::Play;
use rotations::no_kubelets;

pub(super) const UID: &str = "0a1b2c3d-1111-4222-8333-444455556666";
pub(super) const NS: &str = "covey-demo-0a1b2c3d11";

pub(super) fn refusal() -> Failure {
    Failure {
        class: kit_client::errors::Class::Invalid,
        message: "admission webhook says no".to_owned(),
    }
}

pub(super) fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

pub(super) fn cluster(name: &str, uid: &str, spec: Value) -> TenantCluster {
    let cluster = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "spec": spec,
        "metadata": { "name": name, "namespace": "team-a", "uid": uid, "generation": 1,
                      "creationTimestamp": "2026-11-21T11:00:00Z" },
    });
    serde_json::from_value(cluster).unwrap()
}

pub(super) fn minimal() -> Value {
    json!({ "version": "1.35.4" })
}

pub(super) fn large() -> Value {
    json!({
        "version": "1.34.4", "etcd": { "replicas": 3 },
        "addons": { "cloudController": { "enabled": true } },
        "controlPlane": { "replicas": 3, "endpoint": { "type": "NodePort", "host": "203.0.113.9" } },
    })
}

pub(super) fn ready(spec: Value) -> World {
    let mut world = World::new(spec);
    world.settle();
    world
}

/// Whether a template is of something.
type IsOf = fn(&Value) -> bool;

/// A management cluster that does what it is told.
#[derive(Clone)]
pub(super) struct World {
    pub(super) cluster: TenantCluster,
    pub(super) settings: Settings,
    pub(super) others: Vec<Arc<TenantCluster>>,
    /// What waits, as it was before anybody took it over, and whoever took over what is here.
    pub(super) standby: Option<(TenantIdentity, TenantClusterStatus)>,
    pub(super) taker: Option<Taker>,
    /// Hosts of the namespace that Machines have.
    pub(super) claimed_hosts: Vec<(String, String)>,
    pub(super) cloud_machines: Vec<(String, String)>,
    /// What quotas say against it.
    pub(super) quotas: Vec<Problem>,
    pub(super) objects: BTreeMap<Key, Value>,
    pub(super) start: Answer,
    /// Whether it may be rolled out.
    pub(super) turn: Answer,
    /// Hash of the operator's templates.
    pub(super) templates: &'static str,
    /// Pods of etcd, the control plane and its controllers.
    pub(super) pods: BTreeMap<Key, Value>,
    /// Whether Deployments replace no pods.
    pub(super) stuck: bool,
    /// Whether the etcd of Events has been ready for long enough as soon as it is made.
    pub(super) steady_events: bool,
    /// Of which templates Deployments make a pod that does not work, and how that one is.
    pub(super) fails: Option<(IsOf, Value)>,
    pub(super) tenant_up: bool,
    /// Somebody took our rights away: nothing inside is listed until they are applied.
    pub(super) hides: bool,
    /// What it says that it is, where that is not what its pods are.
    pub(super) claims: Option<&'static str>,
    /// Where it answers.
    pub(super) way: Way,
    /// Alarms of etcd.
    pub(super) alarms: Vec<Alarm>,
    /// Bytes of the databases of its members: of the file, of those those in use, at most.
    pub(super) bytes: (u64, u64, u64),
    /// Number of the member that leads.
    pub(super) leads: usize,
    /// What members said last of their logs, and the newest entry of each.
    pub(super) etcd_said: BTreeMap<String, LastSaid>,
    pub(super) applied: u64,
    /// Members whose file is dense already.
    pub(super) dense: BTreeSet<String>,
    /// How many of those in use were overwritten or deleted.
    pub(super) overwritten: u64,
    /// Bytes of what fills it, as the kube-apiserver says.
    pub(super) largest: u64,
    /// Whether it carries out nothing that is asked of it.
    pub(super) refuses: bool,
    /// What was done about a full database.
    pub(super) relieved: Vec<SpaceStep>,
    /// What was seen of it outside of reconciles.
    pub(super) glance: Glance,
    /// The same of its members' disks.
    pub(super) disks: Disks,
    /// Whether DaemonSets replace no pods.
    pub(super) daemons_stuck: bool,
    /// The overlay, as Machines and Hosts are.
    pub(super) overlay: Overlay,
    pub(super) left_in_overlay: Vec<String>,
    /// Whether there are node pools.
    pub(super) workers: bool,
    /// Whether somebody may have changed something inside.
    pub(super) list_due: bool,
    /// The objects inside the tenant cluster.
    pub(super) inside: BTreeMap<Key, Value>,
    /// The tenant's own Services.
    pub(super) services: BTreeMap<Key, Value>,
    /// The address that a new Service gets.
    pub(super) free_address: &'static str,
    /// What the API server refuses to be written.
    pub(super) refused: Vec<Key>,
    /// What the spec wants, where a test says so: no plan may delete it.
    pub(super) wanted: BTreeSet<Key>,
    /// What is played of sleep.
    pub(super) sleep: Sleeper,
    /// A Restore, and what goes with it.
    pub(super) restore: Option<Play>,
    /// What its API says of an upgrade.
    pub(super) preflight: Inside,
    /// Nodes of its Machines.
    pub(super) nodes: Nodes,
    /// Whether there is room for one pod more of what an upgrade replaces.
    pub(super) room: Vec<SurgeAnswer>,
    /// Tokens that Secrets hold inside, or why they are not known.
    pub(super) held_tokens: Result<Vec<HeldToken>, String>,
    /// Authorities that aggregated API servers believe.
    pub(super) aggregated: Believed,
    /// What pods inside are told to believe its API by.
    pub(super) root: String,
    /// Its Machines, and what its API says of nodes.
    pub(super) kubelets: Kubelets,
    /// Secrets inside, and the generation of the key that each is encrypted with.
    pub(super) at_rest: BTreeMap<&'static str, u32>,
    /// Generations of encryption keys that the backup has; none: all.
    pub(super) saves: Option<BTreeSet<u32>>,
    /// Other objects inside by kind and name, and the generation of the key; none where they are not encrypted.
    pub(super) others_at_rest: BTreeMap<(&'static str, &'static str), Option<u32>>,
    /// Snapshots that were asked for, by name.
    pub(super) snapshots: BTreeMap<String, Arc<Snapshot>>,
    /// How many servers were asked of it, each time.
    pub(super) asked: Vec<usize>,
    /// How long it has to be Ready before one begins.
    pub(super) calm: std::time::Duration,
    /// What it is now.
    pub(super) now: Timestamp,
    pub(super) writes: usize,
}

impl World {
    pub(super) fn new(spec: Value) -> Self {
        Self {
            cluster: cluster("demo", UID, spec),
            settings: Settings::default(),
            others: Vec::new(),
            standby: None,
            taker: None,
            claimed_hosts: Vec::new(),
            cloud_machines: Vec::new(),
            quotas: Vec::new(),
            objects: BTreeMap::new(),
            start: Answer::Go,
            turn: Answer::Go,
            templates: "first",
            pods: BTreeMap::new(),
            stuck: false,
            steady_events: true,
            fails: None,
            tenant_up: true,
            hides: false,
            claims: None,
            way: Way::Published,
            alarms: Vec::new(),
            bytes: (0, 0, 1 << 30),
            leads: 0,
            etcd_said: BTreeMap::new(),
            applied: 0,
            dense: BTreeSet::new(),
            overwritten: 0,
            largest: 900 << 20,
            refuses: false,
            relieved: Vec::new(),
            glance: Glance::default(),
            disks: Disks::default(),
            daemons_stuck: false,
            overlay: Overlay::default(),
            left_in_overlay: Vec::new(),
            workers: false,
            list_due: false,
            inside: BTreeMap::new(),
            services: BTreeMap::new(),
            free_address: "10.96.0.77",
            refused: Vec::new(),
            wanted: BTreeSet::new(),
            sleep: Sleeper::default(),
            restore: None,
            preflight: Inside::empty(),
            room: Vec::new(),
            nodes: Nodes::default(),
            held_tokens: Ok(Vec::new()),
            aggregated: Believed::default(),
            root: String::new(),
            kubelets: no_kubelets(),
            at_rest: BTreeMap::from([("default/a", 1), ("default/b", 1), ("shop/c", 1)]),
            saves: None,
            others_at_rest: at_rest::plain(),
            snapshots: BTreeMap::new(),
            asked: Vec::new(),
            calm: std::time::Duration::ZERO,
            now: now(),
            writes: 0,
        }
    }

    pub(super) fn observe(&self) -> Observed {
        let binding = |namespace: &str| {
            let key = Key::new("RoleBinding", namespace, api::names::OPERATOR_BINDING);
            self.objects.contains_key(&key)
        };
        let readable = self.objects.contains_key(&Key::new("Namespace", "", NS)) && binding(NS);
        let user_readable = binding("team-a");
        let mut objects: BTreeMap<_, _> = self
            .objects
            .iter()
            .filter(|(key, _)| match key.namespace.as_str() {
                NS => readable,
                "team-a" => user_readable,
                _ => true,
            })
            .map(|(key, live)| (key.clone(), live.clone()))
            .collect();
        let live = objects.get(&Key::new("Deployment", NS, tenant_cp::names::CONTROL_PLANE));
        let live = live.and_then(versions::version_of);
        let (cluster, patch) = patches::taken(self.cluster.clone(), live, &self.settings, self.now);
        let mut pods = None;
        let deleting = self.cluster.metadata.deletion_timestamp.is_some();
        let is_needed = |objects: &BTreeMap<_, _>| {
            let is_slow = self.disks.slow().next().is_some();
            self.glance.is_fragmented
                || is_slow
                || component_pods::are_needed(&cluster, objects, NS)
        };
        if readable && !deleting && is_needed(&objects) {
            objects.extend(self.pods.clone());
            pods = Some(component_pods::of(&objects));
        }
        Observed {
            pods,
            turn: None,
            templates: self.templates.to_owned(),
            upgrade_snapshot: self.see_snapshot(&cluster),
            cluster,
            patch,
            network: network::decide(&self.cluster, &self.others, &self.settings.network),
            others: self.others.clone(),
            standby: self.see_standby(),
            taker: self.taker,
            claimed_hosts: self.claimed_hosts.clone(),
            cloud_machines: self.cloud_machines.clone(),
            quotas: self.quotas.clone(),
            readable,
            user_readable,
            material: observe::material(&objects),
            objects,
            start: self.start,
            workers: self.workers,
            list_due: self.list_due,
            tenant: Tenant::NotAsked,
            etcd: Etcd::NotAsked,
            etcd_listing: None,
            etcd_steps: EtcdSteps::default(),
            etcd_volumes: BTreeMap::new(),
            newest_backup: None,
            restores_asked: self.asks_for_restores(),
            etcd_space: EtcdSpace::default(),
            etcd_glance: self.glance,
            etcd_disks: self.disks.clone(),
            etcd_said: self.etcd_said.clone(),
            etcd_patience: Patience::default(),
            preflight: None,
            held_tokens: None,
            rewritten: None,
            aggregated: None,
            roots: None,
            room: self.room.clone(),
            nodes: self.nodes.clone(),
            kubelets: self.see_machines(),
            upgrade_calm: self.calm,
            failures: BTreeMap::new(),
            backup: None,
            saved_keys: self.saved_keys(),
            overlay: network::overlay::range(&self.cluster.spec.addons)
                .map(|_| self.overlay.clone()),
            left_in_overlay: self.left_in_overlay.clone(),
            restore: self.see_restore(),
            hibernation: self.see_hibernation(),
            usage: self.see_usage(),
            budget: Budget::default(),
        }
    }

    /// Carries a plan out, at most `budget` writes of it; false when it was cut off.
    pub(super) fn carry_out(
        &mut self,
        plan: &Plan,
        observed: &mut Observed,
        budget: &mut usize,
    ) -> bool {
        let takes_over = |action: &Action| matches!(action, Action::TakeOver(_));
        let mut observe_again = plan.actions().any(takes_over);
        for part in &plan.parts {
            for object in part.objects() {
                if self.refused.contains(&object.key()) {
                    observed.failures.insert(part.name, refusal());
                    break;
                }
                if !self.spend(budget) {
                    return false;
                }
                let live = self.stored(object);
                self.objects.insert(object.key(), live.clone());
                observed.absorb(object.key(), live);
                observe_again |= ["Namespace", "RoleBinding"].contains(&object.kind.as_str());
            }
        }
        for target in plan.parts.iter().flat_map(|part| &part.deletions) {
            if !self.spend(budget) {
                return false;
            }
            self.objects
                .retain(|key, _| key.namespace != target.key.name && *key != target.key);
            if self.pods.remove(&target.key).is_some() {
                self.dense.insert(target.key.name.clone());
            }
            observe_again = true;
        }
        self.play_controllers();
        let finished = plan
            .actions()
            .all(|action| self.act(action, observed, budget));
        if finished && observe_again {
            let before = std::mem::replace(observed, self.observe());
            observed.failures = before.failures;
            observed.turn = before.turn;
            observed.preflight = before.preflight;
            observed.usage = before.usage;
            observed.held_tokens = before.held_tokens;
            observed.kubelets.nodes = before.kubelets.nodes;
            observed.rewritten = before.rewritten;
            observed.aggregated = before.aggregated;
            observed.roots = before.roots;
            observed.upgrade_snapshot = before.upgrade_snapshot;
        }
        finished
    }

    /// Does what is not a write; false when it was cut off.
    pub(super) fn act(
        &mut self,
        action: &Action,
        observed: &mut Observed,
        budget: &mut usize,
    ) -> bool {
        match action {
            Action::AddFinalizer
            | Action::RemoveFinalizer
            | Action::TakeOver(_)
            | Action::Retire
            | Action::KeepNetwork(_)
            | Action::KeepRestore { .. }
            | Action::KeepHibernation { .. }
            | Action::KeepRollout(_)
            | Action::KeepEtcd(_) => {
                if !self.spend(budget) {
                    return false;
                }
                self.own(action);
                observed.cluster.status = self.cluster.status.clone();
                observed.cluster.metadata = self.cluster.metadata.clone();
                if matches!(action, Action::KeepRestore { .. }) {
                    observed.restore = self.see_restore();
                }
                if let Action::KeepHibernation { said, .. } = action {
                    self.hear(said);
                    observed.hibernation = self.see_hibernation();
                }
            }
            Action::Empty { .. } => {
                self.objects
                    .retain(|key, _| key.kind != "PersistentVolumeClaim");
                for (_, pod) in self.objects.iter_mut().filter(|(key, _)| key.kind == "Pod") {
                    pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
                }
                *observed = self.observe();
            }
            Action::Issue { wants, due } => {
                super::super::apply::issue(observed, wants, due, self.now).unwrap();
            }
            Action::AskForTurn { is_under_way, .. } => {
                observed.turn = Some(match is_under_way {
                    true => Answer::Go,
                    false => self.turn,
                });
            }
            Action::AskEtcd { members, list } => {
                self.ask_etcd(members, *list, observed);
            }
            Action::KeepSleeper(entry) => {
                if !self.spend(budget) {
                    return false;
                }
                self.keep_sleeper(entry, observed);
            }
            Action::AskLeft { .. } => self.ask_left(observed),
            Action::AskWebhooks { step, .. } => {
                if self.changes_webhooks(*step) && !self.spend(budget) {
                    return false;
                }
                self.ask_webhooks(*step, observed);
            }
            Action::AskUse => self.ask_use(observed),
            Action::AskVolumes { volumes } => {
                let seen = |(uid, name): &(String, String)| {
                    let there = self.objects.get(&Key::new("PersistentVolume", "", name));
                    let hidden = Known::Unknown { why: "hidden" };
                    let seen = match there {
                        Some(volume) if volume["hidden"] == true => hidden,
                        there => Known::found(there.map(|_| ())),
                    };
                    (uid.clone(), seen)
                };
                observed.etcd_volumes.extend(volumes.iter().map(seen));
            }
            Action::AskNewest { .. } => {
                observed.newest_backup = Some("2026-11-21T11:58:00Z".parse().ok());
            }
            Action::AskForRestore { restore } => {
                if !self.spend(budget) {
                    return false;
                }
                self.objects.insert(restore.key(), restore.value.clone());
                observed.restores_asked.insert(restore.name.clone());
            }
            Action::AskForSnapshot { snapshot } => {
                if !self.spend(budget) {
                    return false;
                }
                let mut made = snapshot.value.clone();
                made["metadata"]["creationTimestamp"] = json!(self.now.to_string());
                let made: Arc<Snapshot> = Arc::new(serde_json::from_value(made).unwrap());
                let made = self.snapshots.entry(snapshot.name.clone()).or_insert(made);
                observed.upgrade_snapshot = Some(Arc::clone(made));
            }
            Action::ForgetLeases { .. } => {
                if !self.spend(budget) {
                    return false;
                }
                if let Some(seen) = &mut observed.restore {
                    seen.leases = Some(Ok(()));
                }
            }
            Action::MarkBalancers { keep, release, .. } => {
                return self.mark(observed, (keep, release), budget);
            }
            Action::ReplaceMember { step, .. } => {
                // etcd itself is not played here: only what stands in the status, and who leads.
                let etcd = match step {
                    Step::Record(etcd) => etcd,
                    Step::MoveLeader { to, .. } => {
                        self.leads = to[1..].parse().unwrap();
                        self.ask(observed);
                        return true;
                    }
                    step => panic!("nobody listed members: {step:?}"),
                };
                if !self.spend(budget) {
                    return false;
                }
                self.own(&Action::KeepEtcd(etcd.clone()));
                observed.cluster.status = self.cluster.status.clone();
                observed.cluster.metadata = self.cluster.metadata.clone();
            }
            Action::RelieveEtcd { .. } if self.refuses => {
                observed.etcd_steps.refusal = Some("not now".to_owned());
            }
            Action::RelieveEtcd { step, .. } => {
                match step {
                    SpaceStep::Compact { .. } => {
                        observed.etcd_space.is_compacted = true;
                        self.bytes.1 -= self.overwritten;
                        self.overwritten = 0;
                    }
                    SpaceStep::Defragment { .. } => self.bytes.0 = self.bytes.1,
                    SpaceStep::Disarm { .. } => self.alarms.clear(),
                }
                self.relieved.push(step.clone());
                observed.etcd_steps.done += 1;
                self.ask(observed);
            }
            Action::AskLargest { .. } => {
                observed.etcd_space.largest = Some(vec![Size {
                    resource: "events".to_owned(),
                    bytes: self.largest,
                }]);
            }
            Action::AskHeldTokens { .. } => {
                observed.held_tokens = Some(self.held_tokens.clone());
            }
            Action::Aggregated { write: None, .. } => {
                // A kube-apiserver has added what it believes.
                self.aggregated = rotation_front_proxy::with(self);
                observed.aggregated = Some(Ok(self.aggregated.clone()));
            }
            Action::Aggregated {
                write: Some((field, authorities)),
                ..
            } => {
                if !self.spend(budget) {
                    return false;
                }
                rotation_front_proxy::note(&mut self.aggregated, *field, authorities);
                observed.aggregated = Some(Ok(self.aggregated.clone()));
            }
            Action::Rewrite {
                generation, kinds, ..
            } => return self.rewrite((*generation, kinds), observed, budget),
            Action::AskRoots { .. } => observed.roots = Some(Ok(self.roots())),
            Action::AskNodes { .. } => observed.kubelets.nodes.clone_from(&self.kubelets.nodes),
            Action::AskPreflight { servers, .. } => {
                observed.preflight = Some(self.preflight.clone());
                self.asked.push(servers.len());
            }
            Action::Probe {
                apply,
                list,
                workloads,
                ..
            } => {
                if !self.apply(apply, budget) {
                    return false;
                }
                self.hides &= apply.is_empty();
                observed.tenant = self.answer(!apply.is_empty(), list.is_some(), workloads);
            }
            Action::ApplyTenantObjects { changes, .. } => {
                if changes.release && !self.release_services(budget) {
                    return false;
                }
                for target in &changes.delete {
                    if !self.spend(budget) {
                        return false;
                    }
                    self.inside.remove(&target.key);
                }
                if !self.apply(&changes.apply, budget) {
                    return false;
                }
                observed.tenant = self.answer(false, true, &[]);
            }
        }
        true
    }

    /// Applies objects inside the tenant cluster; those that are there already cost no write.
    pub(super) fn apply(&mut self, objects: &[Object], budget: &mut usize) -> bool {
        for object in objects.iter().filter(|_| self.tenant_up) {
            let key = object.key();
            let same = self
                .inside
                .get(&key)
                .is_some_and(|live| live["hash"] == object.hash());
            if same {
                continue;
            }
            if *budget == 0 {
                return false;
            }
            *budget -= 1;
            self.writes += 1;
            let mut live = object.value.clone();
            if object.kind == "DaemonSet" {
                let before = self
                    .inside
                    .get(&key)
                    .map(|live| &live["metadata"]["generation"]);
                let generation = before.and_then(Value::as_i64).unwrap_or_default() + 1;
                live["metadata"]["generation"] = json!(generation);
                let seen = generation - i64::from(self.daemons_stuck);
                live["status"] = json!({ "observedGeneration": seen });
            }
            live["hash"] = json!(object.hash());
            live["metadata"]["uid"] = json!(format!("uid-of-{}", object.name));
            live["metadata"]["resourceVersion"] = json!(self.writes.to_string());
            live["metadata"]["managedFields"] = json!([{ "manager": crate::FIELD_MANAGER }]);
            self.inside.insert(key, live);
        }
        true
    }

    pub(super) fn answer(&self, applied: bool, list: bool, workloads: &[Key]) -> Tenant {
        if !self.tenant_up {
            return Tenant::Silent {
                message: "connection refused".into(),
            };
        }
        let seen = match (applied, list) {
            (false, true) if self.hides => Seen::Hidden,
            (_, true) => Seen::Objects(self.inside.clone()),
            (true, false) => Seen::Applied,
            (false, false) => Seen::Nothing,
        };
        let of = |key: &Key| Some((key.clone(), pods(self.inside.get(key)?)));
        Tenant::Answers {
            version: self.claims.map_or_else(|| self.serves(), str::to_owned),
            way: self.way.clone(),
            seen,
            pods: workloads.iter().filter_map(of).collect(),
        }
    }

    /// Asks the members again that were asked before.
    fn ask(&self, observed: &mut Observed) {
        let members = observed.etcd.answers().map(|(name, _)| name.to_owned());
        let answers = members.map(|name| (name.clone(), Ok(self.member(&name))));
        observed.etcd = Etcd::Asked(answers.collect());
    }

    /// What the API server makes of an object: a UID, addresses, a ready status.
    pub(super) fn stored(&self, object: &Object) -> Value {
        let before = self.objects.get(&object.key());
        let mut live = object.value.clone();
        live["metadata"]["uid"] = json!(format!("uid-of-{}", object.name));
        let generation = before.map_or(1, |before| {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(1);
            generation + i64::from(before["spec"] != live["spec"])
        });
        live["metadata"]["generation"] = json!(generation);
        let replicas = live["spec"]["replicas"].clone();
        match object.kind.as_str() {
            "Service" if live["spec"]["clusterIP"] != "None" => {
                let of_before =
                    |pointer: &str| before.and_then(|live| live.pointer(pointer).cloned());
                for (pointer, given) in [
                    ("/spec/clusterIP", json!(self.free_address)),
                    ("/spec/ports/0/nodePort", json!(30123)),
                    ("/status", Value::Null),
                ] {
                    let asked = live.pointer(pointer).cloned();
                    let value = asked.or(of_before(pointer)).unwrap_or(given);
                    let (parent, field) = pointer.rsplit_once('/').unwrap();
                    let parent = live.pointer_mut(parent).unwrap();
                    parent[field] = value;
                }
            }
            "PersistentVolumeClaim" if live["spec"]["storageClassName"].is_null() => {
                let of_before = before.map(|live| live["spec"]["storageClassName"].clone());
                live["spec"]["storageClassName"] = of_before.unwrap_or_else(|| json!("standard"));
                if let Some(before) = before.filter(|live| live["status"].is_object()) {
                    live["status"] = before["status"].clone();
                }
            }
            // What it holds is the volume's matter.
            "PersistentVolumeClaim" if before.is_some_and(|live| live["status"].is_object()) => {
                live["status"] = before.map_or(Value::Null, |live| live["status"].clone());
            }
            "Deployment" if object.name == "etcd-events" => {
                live["status"] = self.status_of_events(before, generation);
            }
            "Deployment" | "StatefulSet" => {
                live["status"] = json!({ "observedGeneration": generation, "replicas": replicas,
                    "updatedReplicas": replicas, "readyReplicas": replicas,
                    "availableReplicas": replicas });
            }
            _ => {}
        }
        live
    }

    /// One reconcile; false when it was cut off.
    pub(super) fn reconcile(&mut self, budget: &mut usize) -> bool {
        let mut observed = self.observe();
        for _ in 0..super::super::MAX_STEPS {
            let plan = plan(&observed, &self.settings, self.now);
            self.is_lawful(&plan);
            if plan.is_settled() {
                if self.cluster.status.as_ref() != Some(&plan.status) {
                    if !self.spend(budget) {
                        return false;
                    }
                    self.cluster.status = Some(stored(&plan.status));
                }
                self.hear(&plan.events);
                return true;
            }
            if !self.carry_out(&plan, &mut observed, budget) {
                return false;
            }
            if self.cluster.metadata.finalizers.is_none() {
                return true;
            }
        }
        let left = plan(&observed, &self.settings, self.now);
        let left: Vec<_> = left
            .parts
            .iter()
            .filter(|part| !part.is_settled())
            .collect();
        panic!("a plan does not come to an end: {left:#?}");
    }
}
