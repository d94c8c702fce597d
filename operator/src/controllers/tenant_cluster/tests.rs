//! Laws and scenarios of the plan, on a simulated management cluster.
//!
//! Long because the simulated world and the laws that hold in it are read together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::TenantCluster;
use api::condition::is_true;
use base64::Engine as _;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use tenant_cp::object::{Key, Object};
use tenant_cp::{Settings, certificates, network};

use super::observed::{Failure, Observed, Seen, Tenant, pods};
use super::plan::{Action, Plan, SLOW_SWEEP, plan};
use crate::rollouts::queue::Answer;

mod autoscaler;
mod cloud_controller;
mod csi;
mod losses;

const UID: &str = "0a1b2c3d-1111-4222-8333-444455556666";
const NS: &str = "covey-demo-0a1b2";

/// A management cluster that does what it is told.
#[derive(Clone)]
struct World {
    cluster: TenantCluster,
    settings: Settings,
    others: Vec<Arc<TenantCluster>>,
    objects: BTreeMap<Key, Value>,
    start: Answer,
    tenant_up: bool,
    /// Whether there are node pools.
    workers: bool,
    /// Whether somebody may have changed something inside.
    list_due: bool,
    /// The objects inside the tenant cluster.
    inside: BTreeMap<Key, Value>,
    /// The tenant's own Services.
    services: BTreeMap<Key, Value>,
    /// The address that a new Service gets.
    free_address: &'static str,
    /// What the API server refuses to be written.
    refused: Vec<Key>,
    /// What the spec wants, where a test says so: no plan may delete it.
    wanted: BTreeSet<Key>,
    /// What it is now.
    now: Timestamp,
    writes: usize,
}

impl World {
    fn new(spec: Value) -> Self {
        Self {
            cluster: cluster("demo", UID, spec),
            settings: Settings::default(),
            others: Vec::new(),
            objects: BTreeMap::new(),
            start: Answer::Go,
            tenant_up: true,
            workers: false,
            list_due: false,
            inside: BTreeMap::new(),
            services: BTreeMap::new(),
            free_address: "10.96.0.77",
            refused: Vec::new(),
            wanted: BTreeSet::new(),
            now: now(),
            writes: 0,
        }
    }

    fn observe(&self) -> Observed {
        let binding = |namespace: &str| {
            let key = Key::new("RoleBinding", namespace, api::names::OPERATOR_BINDING);
            self.objects.contains_key(&key)
        };
        let readable = self.objects.contains_key(&Key::new("Namespace", "", NS)) && binding(NS);
        let user_readable = binding("team-a");
        let objects: BTreeMap<_, _> = self
            .objects
            .iter()
            .filter(|(key, _)| match key.namespace.as_str() {
                NS => readable,
                "team-a" => user_readable,
                _ => true,
            })
            .map(|(key, live)| (key.clone(), live.clone()))
            .collect();
        let decode = |v: &Value| {
            let text = v.as_str().unwrap_or_default();
            base64::engine::general_purpose::STANDARD
                .decode(text)
                .unwrap_or_default()
        };
        let secrets = objects
            .iter()
            .filter(|(key, _)| key.kind == "Secret")
            .map(|(key, secret)| {
                let data = secret["data"].as_object().into_iter().flatten();
                (
                    key.name.clone(),
                    data.map(|(k, v)| (k.clone(), decode(v))).collect(),
                )
            })
            .collect();
        Observed {
            cluster: self.cluster.clone(),
            network: network::decide(&self.cluster, &self.others, &self.settings.network),
            others: self.others.clone(),
            objects,
            readable,
            user_readable,
            material: certificates::read_store(&secrets),
            start: self.start,
            workers: self.workers,
            list_due: self.list_due,
            tenant: Tenant::NotAsked,
            failures: BTreeMap::new(),
        }
    }

    /// Carries a plan out, at most `budget` writes of it; false when it was cut off.
    fn carry_out(&mut self, plan: &Plan, observed: &mut Observed, budget: &mut usize) -> bool {
        let mut observe_again = false;
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
            observe_again = true;
        }
        let finished = plan
            .actions()
            .all(|action| self.act(action, observed, budget));
        if finished && observe_again {
            let failures = std::mem::take(&mut observed.failures);
            *observed = self.observe();
            observed.failures = failures;
        }
        finished
    }

    /// Does what is not a write; false when it was cut off.
    fn act(&mut self, action: &Action, observed: &mut Observed, budget: &mut usize) -> bool {
        match action {
            Action::AddFinalizer
            | Action::RemoveFinalizer
            | Action::KeepNetwork(_)
            | Action::KeepEtcd(_) => {
                if !self.spend(budget) {
                    return false;
                }
                self.own(action);
                observed.cluster = self.cluster.clone();
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
                super::apply::issue(observed, wants, due, self.now).unwrap();
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
                observed.tenant = self.answer(!apply.is_empty(), *list, workloads);
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
    fn apply(&mut self, objects: &[Object], budget: &mut usize) -> bool {
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
            live["hash"] = json!(object.hash());
            live["metadata"]["uid"] = json!(format!("uid-of-{}", object.name));
            live["metadata"]["resourceVersion"] = json!(self.writes.to_string());
            live["metadata"]["managedFields"] = json!([{ "manager": crate::FIELD_MANAGER }]);
            self.inside.insert(key, live);
        }
        true
    }

    fn answer(&self, applied: bool, list: bool, workloads: &[Key]) -> Tenant {
        if !self.tenant_up {
            return Tenant::Silent {
                message: "connection refused".into(),
            };
        }
        let seen = match (applied, list) {
            (true, _) => Seen::Applied,
            (false, true) => Seen::Objects(self.inside.clone()),
            (false, false) => Seen::Nothing,
        };
        let of = |key: &Key| Some((key.clone(), pods(self.inside.get(key)?)));
        Tenant::Answers {
            version: self.cluster.spec.version.clone(),
            seen,
            pods: workloads.iter().filter_map(of).collect(),
        }
    }

    /// Every node (so many) runs what it should.
    fn play_nodes(&mut self, nodes: i64, ready: i64) {
        for (key, live) in &mut self.inside {
            match key.kind.as_str() {
                "DaemonSet" => {
                    live["status"] =
                        json!({ "numberReady": ready, "desiredNumberScheduled": nodes });
                }
                "Deployment" => live["status"] = json!({ "readyReplicas": ready.min(2) }),
                _ => {}
            }
        }
    }

    fn own(&mut self, action: &Action) {
        match action {
            Action::AddFinalizer => {
                self.cluster.metadata.finalizers = Some(vec![api::names::FINALIZER.into()]);
            }
            Action::RemoveFinalizer => self.cluster.metadata.finalizers = None,
            Action::KeepEtcd(etcd) => {
                self.cluster.status.get_or_insert_default().etcd = Some(etcd.clone());
            }
            Action::KeepNetwork(ranges) => {
                self.cluster.status.get_or_insert_default().network = Some(ranges.clone());
            }
            _ => {}
        }
    }

    fn spend(&mut self, budget: &mut usize) -> bool {
        if *budget == 0 {
            return false;
        }
        *budget -= 1;
        self.writes += 1;
        true
    }

    /// What the API server makes of an object: a UID, addresses, a ready status.
    fn stored(&self, object: &Object) -> Value {
        let before = self.objects.get(&object.key());
        let mut live = object.value.clone();
        live["metadata"]["uid"] = json!(format!("uid-of-{}", object.name));
        live["metadata"]["generation"] = json!(1);
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
            "Deployment" | "StatefulSet" => {
                live["status"] = json!({ "observedGeneration": 1, "replicas": replicas,
                    "updatedReplicas": replicas, "readyReplicas": replicas });
            }
            _ => {}
        }
        live
    }

    /// One reconcile; false when it was cut off.
    fn reconcile(&mut self, budget: &mut usize) -> bool {
        let mut observed = self.observe();
        for _ in 0..super::MAX_STEPS {
            let plan = plan(&observed, &self.settings, self.now);
            self.is_lawful(&plan);
            if plan.is_settled() {
                if self.cluster.status.as_ref() != Some(&plan.status) {
                    if !self.spend(budget) {
                        return false;
                    }
                    self.cluster.status = Some(plan.status.clone());
                }
                return true;
            }
            if !self.carry_out(&plan, &mut observed, budget) {
                return false;
            }
            if self.cluster.metadata.finalizers.is_none() {
                return true;
            }
        }
        panic!("a plan does not come to an end");
    }

    /// No plan deletes what the spec wants.
    fn is_lawful(&self, plan: &Plan) {
        if self.cluster.metadata.deletion_timestamp.is_some() {
            return;
        }
        let inside = plan.actions().filter_map(|action| match action {
            Action::ApplyTenantObjects { changes, .. } => Some(&changes.delete),
            _ => None,
        });
        let outside = plan.parts.iter().map(|part| &part.deletions);
        for target in inside.chain(outside).flatten() {
            assert!(!self.wanted.contains(&target.key), "{}", target.key);
        }
    }

    /// Reconciles until nothing is written any more.
    fn settle(&mut self) {
        for _ in 0..8 {
            let before = self.writes;
            assert!(self.reconcile(&mut usize::MAX.clone()));
            if before == self.writes {
                return;
            }
        }
        panic!("writes never end");
    }

    /// The load balancer of the management cluster gives the endpoint its address.
    fn give_address(&mut self) {
        let service = self
            .objects
            .get_mut(&Key::new("Service", NS, "control-plane"))
            .unwrap();
        service["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.7" }] } });
    }

    fn secret(&self, name: &str) -> Option<&Value> {
        self.objects.get(&Key::new("Secret", NS, name))
    }

    fn condition(&self, type_: &str) -> (String, String) {
        let conditions = self.cluster.status.iter().flat_map(|s| &s.conditions);
        let found = conditions.into_iter().find(|c| c.type_ == type_);
        found
            .map(|c| (c.status.clone(), c.reason.clone()))
            .unwrap_or_default()
    }
}

fn refusal() -> Failure {
    Failure {
        class: kit::errors::Class::Invalid,
        message: "admission webhook says no".to_owned(),
    }
}

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn cluster(name: &str, uid: &str, spec: Value) -> TenantCluster {
    let cluster = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "spec": spec,
        "metadata": { "name": name, "namespace": "team-a", "uid": uid, "generation": 1,
                      "creationTimestamp": "2026-11-21T11:00:00Z" },
    });
    serde_json::from_value(cluster).unwrap()
}

fn minimal() -> Value {
    json!({ "version": "1.35.4" })
}

fn large() -> Value {
    json!({
        "version": "1.34.4", "etcd": { "replicas": 3 },
        "addons": { "cloudController": { "enabled": true } },
        "controlPlane": { "replicas": 3, "endpoint": { "type": "NodePort", "host": "203.0.113.9" } },
    })
}

fn ready(spec: Value) -> World {
    let mut world = World::new(spec);
    world.settle();
    world
}

#[test]
fn creation_settles_and_then_writes_nothing() {
    for spec in [minimal(), large()] {
        let mut world = ready(spec);
        assert!(is_true(
            &world.cluster.status.clone().unwrap().conditions,
            api::ConditionType::Ready
        ));
        let before = world.writes;
        for _ in 0..20 {
            assert!(world.reconcile(&mut 1_000));
        }
        assert_eq!(world.writes, before, "an idle tenant cluster is written to");
    }
}

#[test]
fn crash_after_any_write_of_a_creation_ends_in_the_same_objects() {
    let whole = ready(minimal());
    // What is laid inside the tenant is one stage, at the end: a few cuts of it will do.
    let outside = whole.writes - whole.inside.len();
    for cut in (0..outside).chain((outside..whole.writes).step_by(13)) {
        let mut world = World::new(minimal());
        let finished = world.reconcile(&mut cut.clone());
        let ca = world.secret("ca").cloned();
        world.settle();
        assert!(!finished || cut > 20, "cut {cut}");
        let (mine, wanted): (Vec<_>, Vec<_>) = (
            world.objects.keys().collect(),
            whole.objects.keys().collect(),
        );
        assert_eq!(mine, wanted, "cut after write {cut}");
        assert_eq!(world.condition("Ready").0, "True", "cut after write {cut}");
        if let Some(ca) = ca {
            assert_eq!(
                world.secret("ca"),
                Some(&ca),
                "cut {cut} changed the authority"
            );
        }
    }
}

#[test]
fn crash_after_any_write_of_a_deletion_ends_with_nothing_left() {
    for cut in 0..3 {
        let mut world = ready(minimal());
        world.cluster.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        let _ = world.reconcile(&mut cut.clone());
        for _ in 0..3 {
            let _ = world.reconcile(&mut 1_000);
        }
        assert_eq!(world.cluster.metadata.finalizers, None);
        assert!(
            world
                .objects
                .keys()
                .all(|k| k.namespace != NS && k.name != NS),
            "cut {cut}"
        );
    }
}

#[test]
fn namespace_is_deleted_once_its_pods_are_gone_or_have_had_their_time() {
    let mut world = ready(minimal());
    world
        .objects
        .insert(Key::new("Pod", NS, "etcd-0"), json!({ "metadata": {} }));
    let deleted = |seconds: i64| {
        let at = now()
            .checked_sub(jiff::SignedDuration::from_secs(seconds))
            .unwrap();
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at))
    };
    world.cluster.metadata.deletion_timestamp = deleted(1);
    let _ = world.reconcile(&mut 1_000);
    assert!(world.objects.contains_key(&Key::new("Namespace", "", NS)));
    assert!(world.cluster.metadata.finalizers.is_some());
    let mut late = world.clone();
    late.cluster.metadata.deletion_timestamp = deleted(20);
    for mut world in [late, {
        world.objects.remove(&Key::new("Pod", NS, "etcd-0"));
        world
    }] {
        for _ in 0..2 {
            let _ = world.reconcile(&mut 1_000);
        }
        assert!(!world.objects.contains_key(&Key::new("Namespace", "", NS)));
        assert_eq!(world.cluster.metadata.finalizers, None);
    }
}

#[test]
fn pods_wait_for_their_turn_and_everything_else_is_ready_by_then() {
    let mut world = World::new(minimal());
    world.start = Answer::Wait;
    world.settle();
    assert_eq!(
        world.condition("Ready"),
        ("False".into(), "WaitingForStart".into())
    );
    assert!(world.secret("apiserver").is_some());
    assert!(
        !world
            .objects
            .keys()
            .any(|k| k.kind == "Deployment" || k.kind == "StatefulSet")
    );
    let rest = plan(&world.observe(), &Settings::default(), now());
    assert!(rest.is_settled(), "nothing is made anew while it waits");
    world.start = Answer::Go;
    world.settle();
    assert_eq!(world.condition("Ready").0, "True");
}

#[test]
fn ready_means_that_the_api_answered_whatever_the_replicas_say() {
    let mut world = World::new(minimal());
    world.tenant_up = false;
    world.settle();
    assert_eq!(world.condition("ControlPlaneReady").0, "True");
    assert_eq!(
        world.condition("Ready"),
        ("False".into(), "Starting".into())
    );
    world.tenant_up = true;
    world.settle();
    assert_eq!(world.condition("Ready").0, "True");
    world.tenant_up = false;
    world.settle();
    assert_eq!(
        world.condition("Ready"),
        ("False".into(), "ApiUnreachable".into())
    );
}

#[test]
fn lost_authority_of_a_running_tenant_is_reported_and_never_made_anew() {
    let mut world = ready(minimal());
    world.objects.remove(&Key::new("Secret", NS, "etcd-ca"));
    world.settle();
    assert!(world.secret("etcd-ca").is_none());
    assert_eq!(
        world.condition("Degraded"),
        ("True".into(), "CertificateAuthorityLost".into())
    );
}

#[test]
fn lost_authority_of_which_a_copy_exists_is_restored_as_it_was() {
    let mut world = ready(minimal());
    let before = world.secret("ca").cloned().unwrap();
    world.objects.remove(&Key::new("Secret", NS, "ca"));
    world.settle();
    let restored = world.secret("ca").cloned().unwrap();
    assert_eq!(restored["data"], before["data"]);
    assert_eq!(world.condition("Degraded").0, "False");
}

#[test]
fn removed_and_changed_objects_come_back() {
    let whole = ready(large());
    // What held data does not come back by being made anew: `losses`.
    let held = ["Namespace", "PersistentVolumeClaim"];
    let all = whole.objects.keys();
    for key in all.filter(|key| !held.contains(&key.kind.as_str())) {
        let mut world = whole.clone();
        world.objects.remove(key);
        if ["etcd-ca", "front-proxy-ca"].contains(&key.name.as_str()) {
            continue;
        }
        world.settle();
        assert!(
            world.objects.contains_key(key),
            "{key} does not come back: {:?}",
            world.condition("Progressing")
        );
    }
    let mut world = whole;
    let key = Key::new("Deployment", NS, "control-plane");
    world.objects.get_mut(&key).unwrap()["spec"]["replicas"] = json!(7);
    world.settle();
    assert_eq!(world.objects[&key]["spec"]["replicas"], 3);
}

#[test]
fn bad_spec_keeps_what_runs_and_says_what_is_wrong() {
    let mut world = ready(minimal());
    let before = world.objects.clone();
    world.cluster.spec.version = "1.21.0".into();
    world.settle();
    assert_eq!(world.objects, before);
    assert_eq!(world.condition("Degraded").0, "True");
    assert_eq!(world.condition("Ready").0, "True");
}

#[test]
fn paused_tenant_is_left_as_it_is_but_can_be_deleted() {
    let mut world = ready(minimal());
    world.cluster.spec.paused = true;
    world
        .objects
        .remove(&Key::new("Deployment", NS, "control-plane"));
    world.settle();
    assert!(
        !world
            .objects
            .contains_key(&Key::new("Deployment", NS, "control-plane"))
    );
    world.cluster.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    for _ in 0..3 {
        let _ = world.reconcile(&mut 1_000);
    }
    assert_eq!(world.cluster.metadata.finalizers, None);
}

#[test]
fn namesake_of_an_older_tenant_does_not_touch_its_namespace() {
    let mut world = ready(minimal());
    let label = &mut world
        .objects
        .get_mut(&Key::new("Namespace", "", NS))
        .unwrap()["metadata"];
    label["labels"][api::names::LABEL_TENANT_UID] = json!("another");
    world.cluster.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    let _ = world.reconcile(&mut 1_000);
    assert!(world.objects.contains_key(&Key::new("Namespace", "", NS)));
    assert_eq!(world.cluster.metadata.finalizers, None);
}

#[test]
fn idle_tenant_is_looked_at_before_its_certificates_end() {
    let world = ready(minimal());
    let mut observed = world.observe();
    observed.tenant = world.answer(false, false, &[]);
    let again = plan(&observed, &Settings::default(), now())
        .requeue_after
        .unwrap();
    assert_eq!(again, SLOW_SWEEP);
}

#[test]
fn what_is_lost_or_changed_inside_comes_back_once_somebody_looks() {
    let whole = ready(minimal());
    let lost = Key::new("Deployment", "kube-system", "coredns");
    let changed = Key::new("ConfigMap", "kube-system", "kubeadm-config");
    let mut world = whole.clone();
    world.inside.remove(&lost);
    world.inside.get_mut(&changed).unwrap()["data"] = json!({});
    world.inside.get_mut(&changed).unwrap()["hash"] = Value::Null;
    let before = world.writes;
    world.settle();
    assert_eq!(world.writes, before, "nobody looked");
    world.list_due = true;
    world.settle();
    assert_eq!(
        world.inside.keys().collect::<Vec<_>>(),
        whole.inside.keys().collect::<Vec<_>>()
    );
    assert_eq!(
        world.inside[&changed]["data"],
        whole.inside[&changed]["data"]
    );
    assert_eq!(world.writes, before + 2);
}

#[test]
fn addon_that_is_switched_off_goes_and_comes_back() {
    let whole = ready(minimal());
    let mut world = whole.clone();
    let foreign = Key::new("ConfigMap", "kube-system", "mine");
    let mine = json!({ "metadata": { "uid": "x", "labels": { "covey.dev/addon": "coredns" } } });
    world.inside.insert(foreign.clone(), mine);
    world.cluster.spec.addons = serde_json::from_value(json!({
        "coreDNS": { "enabled": false }, "kubeProxy": { "enabled": false },
        "cni": { "type": "none" }, "konnectivity": { "enabled": false },
    }))
    .unwrap();
    world.settle();
    let addons: Vec<_> = world
        .inside
        .iter()
        .filter(|(_, live)| live["metadata"]["labels"]["covey.dev/addon"].is_string())
        .map(|(key, _)| format!("{} {}", key.kind, key.name))
        .collect();
    assert_eq!(
        addons,
        [
            "ConfigMap mine",
            "Namespace konnectivity",
            "Namespace kube-flannel"
        ]
    );
    assert!(
        world
            .objects
            .keys()
            .all(|key| !key.name.starts_with("konnectivity"))
    );
    assert_eq!(world.condition("CoreDNSReady").0, "");
    assert_eq!(world.condition("Ready").0, "True");
    world.cluster.spec.addons = whole.cluster.spec.addons.clone();
    world.inside.remove(&foreign);
    world.settle();
    assert_eq!(
        world.inside.keys().collect::<Vec<_>>(),
        whole.inside.keys().collect::<Vec<_>>()
    );
    assert_eq!(
        world.objects.keys().collect::<Vec<_>>(),
        whole.objects.keys().collect::<Vec<_>>()
    );
}

#[test]
fn crash_after_any_write_of_a_switch_ends_with_the_same_objects() {
    let whole = ready(minimal());
    let off = json!({ "cni": { "type": "none" }, "konnectivity": { "enabled": false } });
    let off: api::tenant_cluster::Addons = serde_json::from_value(off).unwrap();
    let mut wanted = whole.clone();
    wanted.cluster.spec.addons = off.clone();
    wanted.settle();
    for cut in 0..wanted.writes - whole.writes {
        let mut world = whole.clone();
        world.cluster.spec.addons = off.clone();
        let _ = world.reconcile(&mut cut.clone());
        world.settle();
        let keys = |world: &World| {
            let inside = world.inside.keys().cloned();
            inside
                .chain(world.objects.keys().cloned())
                .collect::<Vec<_>>()
        };
        assert_eq!(keys(&world), keys(&wanted), "cut after write {cut}");
    }
}

#[test]
fn ready_waits_for_addons_as_soon_as_there_are_nodes() {
    let mut world = ready(minimal());
    assert_eq!(
        world.condition("CoreDNSReady"),
        ("False".into(), "NoNodes".into())
    );
    let namespace = Key::new("Namespace", "", NS);
    let level = |world: &World| {
        let labels = &world.objects[&namespace]["metadata"]["labels"];
        labels["pod-security.kubernetes.io/enforce"].clone()
    };
    assert_eq!(level(&world), "restricted");
    world.workers = true;
    world.settle();
    assert_eq!(level(&world), "baseline");
    assert_eq!(world.condition("Ready").0, "True", "a pool without nodes");
    world.play_nodes(1, 0);
    world.settle();
    assert_eq!(
        world.condition("Ready"),
        ("False".into(), "AddonsNotReady".into())
    );
    assert_eq!(world.condition("NetworkReady").0, "False");
    let status = &world.cluster.status.clone().unwrap_or_default();
    assert!(
        status.answers_since().is_some(),
        "addons are no part of the API"
    );
    world.play_nodes(3, 1);
    world.settle();
    assert_eq!(world.condition("Ready").0, "True");
    assert_eq!(
        world.condition("KonnectivityReady"),
        ("True".into(), "PodsReady".into())
    );
    world.play_nodes(0, 0);
    world.settle();
    assert_eq!(world.condition("Ready").0, "True", "scaled to zero");
    world.workers = false;
    world.settle();
    assert_eq!(level(&world), "restricted");
}

#[test]
fn rights_that_somebody_took_from_us_are_laid_again() {
    let mut world = ready(minimal());
    let role = Key::new("ClusterRole", "", "covey:operator");
    world.inside.remove(&role);
    let mut observed = world.observe();
    observed.tenant = Tenant::Answers {
        version: "1.35.4".into(),
        seen: Seen::Hidden,
        pods: BTreeMap::new(),
    };
    let plan = plan(&observed, &Settings::default(), now());
    assert!(world.carry_out(&plan, &mut observed, &mut 1_000));
    assert!(world.inside.contains_key(&role));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any part of a tenant cluster may be missing or mangled, in any combination.
    #[test]
    fn any_world_is_planned_without_panic_and_settles(
        missing in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        mangled in proptest::collection::vec((any::<prop::sample::Index>(), 0..4_u8), 0..6),
        tenant_up in any::<bool>(),
        large_spec in any::<bool>(),
    ) {
        static WORLDS: std::sync::OnceLock<[World; 2]> = std::sync::OnceLock::new();
        let worlds = WORLDS.get_or_init(|| [ready(minimal()), ready(large())]);
        let mut world = worlds[usize::from(large_spec)].clone();
        world.tenant_up = tenant_up;
        let keys: Vec<_> = world.objects.keys().cloned().collect();
        for index in missing {
            world.objects.remove(index.get(&keys));
        }
        for (index, how) in mangled {
            if let Some(live) = world.objects.get_mut(index.get(&keys)) {
                match how {
                    0 => live["spec"] = json!("nonsense"),
                    1 => live["data"] = json!({ "ca.crt": "AAAA" }),
                    2 => live["metadata"]["labels"] = Value::Null,
                    _ => live["status"] = json!([]),
                }
            }
        }
        world.settle();
    }

    #[test]
    fn plan_does_not_depend_on_the_order_of_other_tenants(seed in any::<u64>()) {
        let mut world = World::new(minimal());
        let names: Vec<_> = (0..6).map(|n| (format!("other-{n}"), format!("{n}0000000-0"))).collect();
        let mut others: Vec<_> =
            names.iter().map(|(n, u)| Arc::new(cluster(n, u, minimal()))).collect();
        world.others = others.clone();
        world.cluster.metadata.finalizers = Some(vec![api::names::FINALIZER.into()]);
        let first = plan(&world.observe(), &Settings::default(), now());
        others.sort_by_key(|o| o.metadata.uid.as_ref().map(|u| u.len() as u64 ^ seed.rotate_left(u.as_bytes()[0].into())));
        world.others = others;
        prop_assert_eq!(plan(&world.observe(), &Settings::default(), now()), first);
    }
}
