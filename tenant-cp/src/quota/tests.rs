//! Quotas: what is let in, what is not, and that admission and the leader agree.

use std::collections::BTreeMap;

use api::{NodePool, TenantCluster, TenantQuota};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::admit::Seen;
use super::exceeded::overdrawn;
use super::grants::{Claim, Grants};
use super::takes;
use crate::amounts::{Amounts, Resource};
use crate::problem::Problem;
use crate::settings::Settings;
use crate::validate::quantity::nanos;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn quota(name: &str, namespaces: &[&str], most: &Value) -> TenantQuota {
    let mut spec = json!({ "namespaces": namespaces });
    for (field, most) in most.as_object().unwrap() {
        spec[field] = most.clone();
    }
    read(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantQuota",
        "metadata": { "name": name }, "spec": spec,
    }))
}

fn cluster(namespace: &str, name: &str, spec: &Value) -> TenantCluster {
    let mut all = json!({ "version": "1.35.4" });
    for (field, value) in spec.as_object().unwrap() {
        all[field] = value.clone();
    }
    read(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "spec": all,
        "metadata": {
            "name": name, "namespace": namespace, "generation": 1,
            "uid": format!("c-{namespace}-{name}"),
        },
    }))
}

fn pool(namespace: &str, name: &str, replicas: i32, cpu: i32) -> NodePool {
    read(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
        "metadata": {
            "name": name, "namespace": namespace, "generation": 1,
            "uid": format!("p-{namespace}-{name}"),
        },
        "spec": {
            "clusterName": "demo", "replicas": replicas,
            "provider": { "kubevirt": { "cpu": cpu, "memory": "2Gi" } },
        },
    }))
}

fn amounts(taken: &Amounts) -> BTreeMap<&'static str, String> {
    let each = Resource::ALL.iter();
    each.map(|resource| (resource.field(), resource.write(taken.get(*resource))))
        .collect()
}

#[test]
fn a_tenant_cluster_takes_its_pods_its_volumes_and_its_load_balancer() {
    let spec = json!({
        "etcd": { "replicas": 3, "storage": { "size": "4Gi" } },
        "controlPlane": {
            "replicas": 2, "endpoint": { "type": "LoadBalancer" },
            "apiServer": { "resources": {
                "requests": { "cpu": "2", "memory": "1Gi" }, "limits": { "memory": "4Gi" },
            } },
        },
    });
    let mut settings = Settings::default();
    // Numbers that are told apart.
    let set = |defaults: &mut BTreeMap<String, String>, cpu: &str| {
        *defaults = [("cpu".to_owned(), cpu.to_owned())].into();
    };
    set(&mut settings.resources.api_server, "9");
    set(&mut settings.resources.controller_manager, "100m");
    set(&mut settings.resources.scheduler, "10m");
    set(&mut settings.resources.konnectivity, "1m");
    set(&mut settings.resources.etcd, "500m");
    let tc = cluster("team-a", "demo", &spec);
    let taken = amounts(&takes::cluster(&tc, &settings));
    assert_eq!(taken["clusters"], "1");
    assert_eq!(taken["cores"], "5722m", "2 × 2.111 + 3 × 0.5");
    assert_eq!(taken["memory"], "8Gi", "2 × the limit");
    assert_eq!(taken["storage"], "12Gi");
    assert_eq!((&*taken["loadBalancers"], &*taken["machines"]), ("1", "0"));
}

#[test]
fn a_pool_takes_what_the_autoscaler_may_make_without_asking() {
    let mut pool = pool("team-a", "workers", 2, 4);
    let taken = |pool: &NodePool| {
        let taken = amounts(&takes::pool(pool));
        ["machines", "cores", "memory"].map(|field| taken[field].clone())
    };
    assert_eq!(taken(&pool), ["2", "8", "4Gi"]);
    pool.spec.autoscaling = read(json!({ "min": 0, "max": 5 }));
    assert_eq!(taken(&pool), ["5", "20", "10Gi"]);
    pool.spec.replicas = 7;
    assert_eq!(taken(&pool), ["7", "28", "14Gi"], "until it shrinks");
}

#[test]
fn machines_of_several_locations_count_as_the_largest_of_each_amount() {
    let mut pool = pool("team-a", "workers", 3, 1);
    let at = |name: &str, cpu: i32, memory: &str, disks: Value| json!({ "name": name, "provider": { "kubevirt": { "cpu": cpu, "memory": memory, "disks": disks } } });
    pool.spec.provider = None;
    let disk = json!([{ "name": "a", "size": "2Gi" }]);
    pool.spec.locations = read(json!([
        at("a", 4, "1Gi", json!([])),
        at("b", 1, "2Gi", disk)
    ]));
    let taken = amounts(&takes::pool(&pool));
    let fields = ["machines", "cores", "memory", "storage"];
    assert_eq!(
        fields.map(|field| taken[field].as_str()),
        ["3", "12", "6Gi", "6Gi"]
    );
}

#[test]
fn further_disks_of_machines_are_storage() {
    let mut pool = pool("team-a", "workers", 3, 1);
    assert_eq!(amounts(&takes::pool(&pool))["storage"], "0");
    let disks = json!([{ "name": "a", "size": "2Gi" }, { "name": "b", "size": "1Gi" }]);
    pool.spec
        .provider
        .as_mut()
        .unwrap()
        .kubevirt
        .as_mut()
        .unwrap()
        .disks = read(disks);
    assert_eq!(amounts(&takes::pool(&pool))["storage"], "9Gi");
}

/// What is stored, what was granted, and the quotas.
#[derive(Clone, Default)]
struct World {
    clusters: BTreeMap<String, TenantCluster>,
    pools: BTreeMap<String, NodePool>,
    quotas: Vec<TenantQuota>,
    grants: Grants,
}

impl World {
    fn bounded(quotas: Vec<TenantQuota>) -> Self {
        Self {
            quotas,
            ..Self::default()
        }
    }

    fn seen<T>(
        &self,
        ask: impl FnOnce(Seen<'_, &TenantCluster, &NodePool, TenantQuota>) -> T,
    ) -> T {
        let (clusters, pools): (Vec<_>, Vec<_>) = (
            self.clusters.values().collect(),
            self.pools.values().collect(),
        );
        ask(Seen {
            clusters: &clusters,
            pools: &pools,
            quotas: &self.quotas,
        })
    }

    fn admit_cluster(&self, new: &TenantCluster) -> Vec<Problem> {
        let old = self.clusters.get(new.metadata.uid.as_ref().unwrap());
        self.seen(|seen| seen.admit_cluster(old, new, &Settings::default()))
    }

    fn admit_pool(&self, new: &NodePool) -> Vec<Problem> {
        let old = self.pools.get(new.metadata.uid.as_ref().unwrap());
        self.seen(|seen| seen.admit_pool(old, new, &Settings::default()))
    }

    fn claims(&self) -> Vec<Claim> {
        let clusters = self.clusters.values();
        let clusters = clusters.map(|tc| Claim::of_cluster(tc, &Settings::default()));
        clusters
            .chain(self.pools.values().map(Claim::of_pool))
            .collect()
    }

    fn store_cluster(&mut self, tc: TenantCluster) {
        self.clusters.insert(tc.metadata.uid.clone().unwrap(), tc);
    }

    fn store_pool(&mut self, pool: NodePool) {
        self.pools.insert(pool.metadata.uid.clone().unwrap(), pool);
    }

    fn ask(&mut self, uid: &str) -> Vec<Problem> {
        let all = self.claims();
        let asker = all.iter().find(|claim| claim.uid == uid).unwrap().clone();
        self.grants.ask(&asker, &all, &self.quotas).problems
    }

    fn overdrawn(&mut self) -> Vec<String> {
        let all = self.claims();
        let quotas = self.quotas.clone();
        let mut used = |quota| self.grants.used(quota, &all);
        let each = quotas.iter();
        each.flat_map(|quota| overdrawn(quota, &used(quota)))
            .collect()
    }
}

fn one_cluster() -> TenantQuota {
    quota("team-a", &["team-a"], &json!({ "clusters": 1 }))
}

#[test]
fn of_two_that_were_created_together_the_first_to_ask_starts() {
    let mut world = World::bounded(vec![one_cluster()]);
    world.store_cluster(cluster("team-a", "one", &json!({})));
    world.store_cluster(cluster("team-a", "two", &json!({})));
    world.store_cluster(cluster("team-b", "free", &json!({})));
    assert_eq!(world.ask("c-team-a-two"), []);
    let problems = world.ask("c-team-a-one");
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].reason, "QuotaExceeded");
    assert!(world.grants.is_refused("c-team-a-one"));
    assert_eq!(world.ask("c-team-a-two"), [], "asked again, the same");
    assert_eq!(world.ask("c-team-b-free"), [], "of another namespace");
    assert_eq!(world.overdrawn(), [""; 0]);
    // The one that is gone makes room.
    world.clusters.remove("c-team-a-two");
    world.grants.forget("c-team-a-two");
    assert_eq!(world.ask("c-team-a-one"), []);
    assert!(!world.grants.is_refused("c-team-a-one"));
}

#[test]
fn every_quota_of_a_namespace_counts() {
    let mut world = World::bounded(vec![
        quota("wide", &["team-a", "team-b"], &json!({ "machines": 5 })),
        quota("narrow", &["team-a"], &json!({ "cores": 4 })),
    ]);
    world.store_pool(pool("team-b", "workers", 3, 1));
    assert_eq!(world.admit_pool(&pool("team-a", "small", 2, 2)), []);
    let said = |problems: Vec<Problem>| {
        let messages = problems.into_iter().map(|problem| problem.message);
        messages
            .map(|message| message.split(':').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        said(world.admit_pool(&pool("team-a", "large", 3, 2))),
        [
            "TenantQuota wide allows 5 machines in its namespaces",
            "TenantQuota narrow allows 4 cores in its namespaces",
        ]
    );
}

#[test]
fn what_runs_is_never_refused_when_a_quota_is_laid_or_lowered() {
    let mut world = World::default();
    let mut running = cluster("team-a", "one", &json!({}));
    running.status = read(json!({ "network": {
        "podCIDR": "10.128.0.0/18", "serviceCIDR": "100.64.0.0/20", "dnsDomain": "cluster.local",
    } }));
    world.store_cluster(running);
    let mut workers = pool("team-a", "workers", 3, 2);
    workers.status = read(json!({ "observedGeneration": 1, "replicas": 3 }));
    world.store_pool(workers.clone());
    world.quotas = vec![quota(
        "zero",
        &["team-a"],
        &json!({ "clusters": 0, "machines": 0 }),
    )];
    assert_eq!(world.ask("c-team-a-one"), []);
    assert_eq!(world.ask("p-team-a-workers"), []);
    assert_eq!(world.overdrawn().len(), 2);
    // It does not grow, and may shrink.
    workers.spec.replicas = 4;
    workers.metadata.generation = Some(2);
    world.store_pool(workers.clone());
    assert_eq!(world.ask("p-team-a-workers").len(), 1);
    workers.spec.replicas = 2;
    workers.metadata.generation = Some(3);
    world.store_pool(workers.clone());
    assert_eq!(world.ask("p-team-a-workers"), []);
    workers.spec.replicas = 3;
    workers.metadata.generation = Some(4);
    world.store_pool(workers);
    assert_eq!(world.ask("p-team-a-workers").len(), 1, "it gave one back");
}

#[test]
fn what_one_leader_refused_the_next_does_not_take_for_running() {
    let refused = json!([{
        "type": "Degraded", "status": "True", "reason": "QuotaExceeded", "message": "",
        "lastTransitionTime": "2026-11-21T10:00:00Z",
    }]);
    let most = json!({ "machines": 5 });
    let mut world = World::bounded(vec![quota("team-a", &["team-a"], &most)]);
    let mut grown = pool("team-a", "grown", 9, 1);
    grown.status = read(json!({ "observedGeneration": 2, "replicas": 3, "conditions": refused }));
    world.store_pool(grown.clone());
    assert_eq!(world.ask("p-team-a-grown").len(), 1);
    // Its three machines count, and no more.
    world.store_pool(pool("team-a", "three", 3, 1));
    assert_eq!(world.ask("p-team-a-three").len(), 1);
    world.store_pool(pool("team-a", "two", 2, 1));
    assert_eq!(world.ask("p-team-a-two"), []);
    grown.spec.replicas = 3;
    world.store_pool(grown);
    assert_eq!(world.ask("p-team-a-grown"), []);
}

#[test]
fn what_was_given_back_and_taken_by_another_has_to_be_asked_for_again() {
    let most = json!({ "machines": 9 });
    let mut world = World::bounded(vec![quota("team-a", &["team-a"], &most)]);
    let at = |replicas, generation| {
        let mut pool = pool("team-a", "one", replicas, 1);
        pool.metadata.generation = Some(generation);
        pool
    };
    world.store_pool(at(9, 1));
    assert_eq!(world.ask("p-team-a-one"), []);
    // It shrinks, another takes the room, and it grows again before anybody looked at it.
    world.store_pool(at(1, 2));
    world.store_pool(pool("team-a", "two", 8, 1));
    assert_eq!(world.ask("p-team-a-two"), []);
    world.store_pool(at(9, 3));
    assert_eq!(world.ask("p-team-a-one").len(), 1);
    assert_eq!(world.overdrawn(), [""; 0]);
}

#[derive(Clone, Debug)]
enum Step {
    Cluster(usize, usize, i32, bool),
    Pool(usize, usize, i32, i32, Option<i32>),
    GoneCluster(usize, usize),
    GonePool(usize, usize),
}

const NAMESPACES: [&str; 3] = ["team-a", "team-b", "team-c"];
const OBJECTS: [&str; 3] = ["one", "two", "three"];

fn step() -> impl Strategy<Value = Step> {
    let (ns, name) = (0..NAMESPACES.len(), 0..OBJECTS.len());
    prop_oneof![
        4 => (ns.clone(), name.clone(), 1..5_i32, any::<bool>())
            .prop_map(|(ns, name, replicas, lb)| Step::Cluster(ns, name, replicas, lb)),
        4 => (ns.clone(), name.clone(), 0..6_i32, 1..5_i32, proptest::option::of(1..9_i32))
            .prop_map(|(ns, name, n, cpu, max)| Step::Pool(ns, name, n, cpu, max)),
        1 => (ns.clone(), name.clone()).prop_map(|(ns, name)| Step::GoneCluster(ns, name)),
        1 => (ns, name).prop_map(|(ns, name)| Step::GonePool(ns, name)),
    ]
}

fn most() -> impl Strategy<Value = Vec<TenantQuota>> {
    let one = (
        proptest::sample::subsequence(NAMESPACES.to_vec(), 1..=3),
        proptest::option::of(0..4_i64),
        proptest::option::of(0..20_i64),
        proptest::option::of(prop_oneof![Just("512Mi"), Just("4Gi"), Just("20Gi")]),
        proptest::option::of(prop_oneof![Just("2Gi"), Just("6Gi")]),
        proptest::option::of(0..2_i64),
        proptest::option::of(0..12_i64),
    );
    let one = one.prop_map(|(names, clusters, cores, memory, storage, lbs, machines)| {
        let mut quota = quota("some", &names, &json!({}));
        let text = |text: &str| api::Quantity(text.to_owned());
        quota.spec.clusters = clusters;
        quota.spec.cores = cores.map(|cores| text(&cores.to_string()));
        quota.spec.memory = memory.map(text);
        quota.spec.storage = storage.map(text);
        quota.spec.load_balancers = lbs;
        quota.spec.machines = machines;
        quota
    });
    proptest::collection::vec(one, 0..3)
}

proptest! {
    /// Of what is stored one after another, admission lets in exactly what the leader lets start, and
    /// no quota is ever overdrawn.
    #[test]
    fn admission_and_the_leader_agree(
        quotas in most(),
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let mut world = World::bounded(quotas);
        for step in steps {
            // What the leader would say, on a copy, of what admission refuses.
            let mut tried = world.clone();
            let (admitted, uid) = match step {
                Step::Cluster(ns, name, replicas, balanced) => {
                    let type_ = if balanced { "LoadBalancer" } else { "ClusterIP" };
                    let spec = json!({ "controlPlane": {
                        "replicas": replicas, "endpoint": { "type": type_ },
                    } });
                    let mut tc = cluster(NAMESPACES[ns], OBJECTS[name], &spec);
                    let uid = tc.metadata.uid.clone().unwrap();
                    let old = world.clusters.get(&uid).and_then(|old| old.metadata.generation);
                    tc.metadata.generation = Some(old.unwrap_or_default() + 1);
                    let admitted = world.admit_cluster(&tc);
                    tried.store_cluster(tc);
                    (admitted, uid)
                }
                Step::Pool(ns, name, replicas, cpu, max) => {
                    let mut pool = pool(NAMESPACES[ns], OBJECTS[name], replicas, cpu);
                    pool.spec.autoscaling = max.map(|max| read(json!({ "max": max })));
                    let uid = pool.metadata.uid.clone().unwrap();
                    let old = world.pools.get(&uid).and_then(|old| old.metadata.generation);
                    pool.metadata.generation = Some(old.unwrap_or_default() + 1);
                    let admitted = world.admit_pool(&pool);
                    tried.store_pool(pool);
                    (admitted, uid)
                }
                Step::GoneCluster(ns, name) => {
                    let uid = format!("c-{}-{}", NAMESPACES[ns], OBJECTS[name]);
                    world.clusters.remove(&uid);
                    world.grants.forget(&uid);
                    continue;
                }
                Step::GonePool(ns, name) => {
                    let uid = format!("p-{}-{}", NAMESPACES[ns], OBJECTS[name]);
                    world.pools.remove(&uid);
                    world.grants.forget(&uid);
                    continue;
                }
            };
            let granted = tried.ask(&uid);
            prop_assert_eq!(&admitted, &granted);
            if admitted.is_empty() {
                world = tried;
            }
            let overdrawn = world.overdrawn();
            prop_assert!(overdrawn.is_empty(), "{:?}", overdrawn);
        }
    }

    /// Whatever was let in behind admission's back, in whatever order they ask: no quota is overdrawn.
    #[test]
    fn the_leader_alone_keeps_within_every_quota(
        quotas in most(),
        replicas in proptest::collection::vec(0..6_i32, 9),
        order in Just((0..9_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut world = World::bounded(quotas);
        let uid = |at: usize| {
            let name = OBJECTS[at / NAMESPACES.len()];
            (NAMESPACES[at % NAMESPACES.len()], name)
        };
        for (at, replicas) in replicas.iter().enumerate() {
            let (namespace, name) = uid(at);
            world.store_pool(pool(namespace, name, *replicas, 2));
        }
        for at in order {
            let (namespace, name) = uid(at);
            world.ask(&format!("p-{namespace}-{name}"));
            let overdrawn = world.overdrawn();
            prop_assert!(overdrawn.is_empty(), "{:?}", overdrawn);
        }
    }
}

#[test]
fn a_bound_that_cannot_be_read_allows_nothing() {
    let quota = quota("odd", &["team-a"], &json!({ "memory": "much" }));
    assert_eq!(Resource::Memory.most(&quota), Some(0));
    assert_eq!(nanos("much"), None);
}
