//! A simulated namespace in which Machines of one NodePool live and die.
//!
//! Invariant: no name is ever given twice, and only what a plan says changes by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::machine::MachinePhase;
use api::node_pool::locations::ONLY_LOCATION;
use api::{ConditionType, Machine, NodePool, TenantCluster, names, set_condition};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit_objects::known::Known;
use kube::ResourceExt;
use provider_kubevirt::release::Release;
use serde_json::{Value, json};
use tenant_cp::problem::Problem;

use crate::capacity::Answer;
use crate::cloud_limits::costs::{Cost, Costs};
use crate::controllers::node_pool::nodes::Nodes;
use crate::controllers::node_pool::observed::{Observed, is_going};
use crate::controllers::node_pool::plan::{Action, Plan, plan};
use crate::controllers::stored::{keep_their_times, stored};
use crate::endpoint_probes::Word;
use crate::node_silence::Heard;
use crate::node_templates::NodeTemplates;

pub(super) const POOL: &str = "0a1b2c3d-1111-4222-8333-444455556666";
const CLUSTER: &str = "c1a1b2c3-1111-4222-8333-444455556666";

/// A namespace that does what it is told.
#[derive(Clone)]
pub(super) struct World {
    pub(super) pool: NodePool,
    pub(super) cluster: Option<TenantCluster>,
    pub(super) machines: Vec<Machine>,
    pub(super) others: Vec<Arc<Machine>>,
    pub(super) now: Timestamp,
    pub(super) writes: usize,
    /// Every name that was ever given.
    pub(super) names: BTreeSet<String>,
    pub(super) gone: bool,
    pub(super) nodes: Nodes,
    pub(super) capacity: Answer,
    /// What quotas say against the pool.
    pub(super) quotas: Vec<Problem>,
    pub(super) reserved_unknown: Option<Problem>,
    pub(super) kubevirt: Release,
    pub(super) templates: NodeTemplates,
    pub(super) heard: Heard,
    pub(super) answers: BTreeMap<String, bool>,
    pub(super) let_in: BTreeMap<String, bool>,
    pub(super) endpoint: Word,
    pub(super) prices: BTreeMap<String, u64>,
    /// What each location's machines cost; others are not billed.
    pub(super) cost: BTreeMap<String, Cost>,
}

pub(super) fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(super) fn cluster() -> TenantCluster {
    read(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": "users", "uid": CLUSTER },
        "spec": { "version": "1.35.4" },
        "status": { "version": "1.35.4", "conditions": [{
            "type": "Ready", "status": "True", "reason": "Answering", "message": "",
            "lastTransitionTime": "2026-11-21T10:00:00Z",
        }] },
    }))
}

fn pool(replicas: i32, spec: &Value) -> NodePool {
    let mut all = json!({
        "clusterName": "demo", "replicas": replicas, "provider": { "kubevirt": {} },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    read(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
        "metadata": { "name": "workers", "namespace": "users", "uid": POOL, "generation": 1 },
        "spec": all,
    }))
}

impl World {
    pub(super) fn new(replicas: i32, spec: &Value) -> Self {
        Self {
            pool: pool(replicas, spec),
            cluster: Some(cluster()),
            machines: Vec::new(),
            others: Vec::new(),
            // Within a second, as clocks are: what is stored of it is the second alone.
            now: "2026-11-21T12:00:00.7Z".parse().unwrap(),
            writes: 0,
            names: BTreeSet::new(),
            gone: false,
            nodes: Nodes::default(),
            capacity: Answer::Unknown,
            quotas: Vec::new(),
            reserved_unknown: None,
            kubevirt: Release::Unknown,
            templates: NodeTemplates::new(),
            heard: Heard::default(),
            answers: BTreeMap::new(),
            let_in: BTreeMap::new(),
            endpoint: Word::default(),
            prices: BTreeMap::new(),
            cost: BTreeMap::new(),
        }
    }

    /// With every Machine made and its node ready.
    pub(super) fn running(replicas: i32, spec: &Value) -> Self {
        let mut world = Self::new(replicas, spec);
        world.settle();
        world.all_ready();
        world.settle();
        world
    }

    fn costs(&self) -> Costs {
        let of = |location: &str| self.cost.get(location).cloned().unwrap_or(Cost::NotBilled);
        let machines = self.machines.iter().map(|m| {
            let location = m.spec.location.as_deref().unwrap_or(ONLY_LOCATION);
            (m.name_any(), of(location))
        });
        let places = self.pool.spec.places().into_iter();
        Costs {
            machines: machines.collect(),
            next: places
                .map(|place| (place.shown().to_owned(), of(place.shown())))
                .collect(),
        }
    }

    pub(super) fn observe(&self) -> Observed {
        Observed {
            pool: self.pool.clone(),
            cluster: Known::found(self.cluster.clone()),
            machines: self.machines.clone(),
            others: self.others.clone(),
            nodes: self.nodes.clone(),
            capacity: self.capacity.clone(),
            quotas: self.quotas.clone(),
            reserved_unknown: self.reserved_unknown.clone(),
            kubevirt: self.kubevirt.clone(),
            templates: self.templates.clone(),
            heard: self.heard.clone(),
            answers: self.answers.clone(),
            let_in: self.let_in.clone(),
            endpoint: self.endpoint.clone(),
            prices: self.prices.clone(),
            costs: self.costs(),
        }
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.observe(), self.now)
    }

    pub(super) fn spend(&mut self, budget: &mut usize) -> bool {
        if *budget == 0 {
            return false;
        }
        *budget -= 1;
        self.writes += 1;
        true
    }

    /// Carries a plan out, at most `budget` writes of it; false when it was cut off.
    pub(super) fn carry_out(&mut self, plan: &Plan, budget: &mut usize) -> bool {
        if let Some(status) = &plan.before {
            if !self.spend(budget) {
                return false;
            }
            self.pool.status = Some(stored(status));
        }
        for object in &plan.creations {
            if !self.spend(budget) {
                return false;
            }
            let mut machine: Machine = read(object.value.clone());
            let fresh = self.names.insert(object.name.clone());
            assert!(fresh, "{} is used twice", object.name);
            machine.metadata.uid = Some(format!("uid-of-{}", object.name));
            machine.metadata.resource_version = Some("1".into());
            machine.metadata.creation_timestamp = Some(stored(&Time(self.now)));
            self.machines.push(machine);
        }
        for change in &plan.changes {
            if !self.spend(budget) {
                return false;
            }
            let machine = self.machine(&change.name);
            let mut value = serde_json::to_value(&*machine).unwrap();
            merge(&mut value, &change.patch);
            *machine = read(value);
        }
        for target in &plan.deletions {
            if !self.spend(budget) {
                return false;
            }
            let now = Time(self.now);
            let machine = self.machine(&target.name);
            assert_eq!(machine.uid().as_ref(), Some(&target.uid));
            machine.metadata.deletion_timestamp = Some(now);
        }
        for action in &plan.actions {
            if !self.spend(budget) {
                return false;
            }
            match action {
                Action::AddFinalizer => {
                    let list = self.pool.metadata.finalizers.get_or_insert_default();
                    list.push(names::FINALIZER_NODE_POOL.into());
                }
                Action::RemoveFinalizer => self.gone = true,
            }
        }
        true
    }

    /// One reconcile; false when it was cut off.
    pub(super) fn reconcile(&mut self, budget: &mut usize) -> bool {
        for _ in 0..crate::controllers::node_pool::MAX_STEPS {
            let plan = self.plan();
            let before = self.pool.status.as_ref();
            let before = before.map(|before| &before.conditions);
            keep_their_times(before, &plan.status.conditions);
            if plan.is_settled() {
                if self.pool.status.as_ref() != Some(&plan.status) {
                    if !self.spend(budget) {
                        return false;
                    }
                    self.pool.status = Some(stored(&plan.status));
                }
                return true;
            }
            if !self.carry_out(&plan, budget) {
                return false;
            }
            if self.gone {
                return true;
            }
        }
        panic!("a plan does not come to an end: {:#?}", self.plan());
    }

    pub(super) fn settle(&mut self) {
        assert!(self.reconcile(&mut usize::MAX.clone()));
    }

    pub(super) fn machine(&mut self, name: &str) -> &mut Machine {
        let mut found = self.machines.iter_mut();
        found.find(|m| m.name_any() == name).unwrap()
    }

    pub(super) fn live(&self) -> Vec<String> {
        let live = self.machines.iter().filter(|m| !is_going(m));
        live.map(ResourceExt::name_any).collect()
    }

    /// Names of those that go, sorted.
    pub(super) fn going(&self) -> Vec<String> {
        let going = self.machines.iter().filter(|m| is_going(m));
        let mut names: Vec<_> = going.map(ResourceExt::name_any).collect();
        names.sort();
        names
    }

    /// How many of those are not of this version, and are waited for: 5 min to drain and 10 more.
    pub(super) fn going_outdated(&self, version: Option<&str>) -> usize {
        let patience = SignedDuration::from_mins(15);
        let counts = |m: &&Machine| {
            let since = m.metadata.deletion_timestamp.as_ref();
            let awaited = since.is_some_and(|since| self.now.duration_since(since.0) < patience);
            awaited && Some(&*m.spec.version) != version
        };
        self.machines.iter().filter(counts).count()
    }

    /// What the Machine's reconciler says of it.
    pub(super) fn says(&mut self, name: &str, phase: MachinePhase, ready: Option<bool>) {
        let now = Time(self.now);
        let status = self.machine(name).status.get_or_insert_default();
        status.phase = Some(phase);
        let value = match ready {
            Some(ready) => ready.into(),
            None => api::ConditionStatus::Unknown,
        };
        let (list, type_) = (&mut status.conditions, ConditionType::NodeReady);
        set_condition(
            list,
            type_,
            value,
            api::ConditionReason::passed_on("Test"),
            "",
            None,
            now,
        );
    }

    pub(super) fn all_ready(&mut self) {
        for name in self.live() {
            self.says(&name, MachinePhase::Running, Some(true));
        }
    }

    pub(super) fn bury(&mut self) {
        self.machines.retain(|m| !is_going(m));
    }

    pub(super) fn later(&mut self, minutes: i64) {
        let passed = SignedDuration::from_mins(minutes);
        self.now = self.now.checked_add(passed).unwrap();
    }

    pub(super) fn ready(&self) -> usize {
        let ready = |m: &&Machine| {
            let status = m.status.as_ref();
            let conditions = status.map(|s| s.conditions.as_slice()).unwrap_or_default();
            !is_going(m) && api::condition::is_true(conditions, ConditionType::NodeReady)
        };
        self.machines.iter().filter(ready).count()
    }

    /// Those that have never been ready and still may.
    pub(super) fn coming(&self) -> usize {
        let in_time = |m: &&Machine| {
            let created = m.metadata.creation_timestamp.as_ref().unwrap().0;
            self.now.duration_since(created).as_secs() < 600
        };
        let coming = |m: &&Machine| !is_going(m) && m.status.is_none() && in_time(m);
        self.machines.iter().filter(coming).count()
    }

    pub(super) fn condition(&self, type_: &str) -> (String, String) {
        let status = self.pool.status.as_ref().unwrap();
        let condition = status.conditions.iter().find(|c| c.type_ == type_).unwrap();
        (condition.status.clone(), condition.reason.clone())
    }

    /// Lives on, with every new Machine becoming ready and every deleted one going, until nothing
    /// changes any more.
    pub(super) fn comes_to_rest(&mut self) {
        for _ in 0..64 {
            let before = self.writes;
            self.settle();
            self.all_ready();
            self.bury();
            self.settle();
            if self.writes == before {
                return;
            }
        }
        panic!("the pool does not come to rest");
    }
}

fn merge(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(patch) => {
            for (key, value) in patch {
                merge(&mut target[key], value);
            }
        }
        value => *target = value.clone(),
    }
}
