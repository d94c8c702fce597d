//! The answer, on worlds that are told as the API tells them; the laws are in [`laws`].
//!
//! Invariant: nothing is looked at but the answer, and what is kept.

use api::Reason;
use k8s_openapi::api::core::v1::Toleration;
use serde_json::{Value, json};

use super::decide::decide;
use super::*;
use crate::watches::kept::Keeper as _;

mod laws;

const NS: &str = "covey-demo-0a1b2c3d11";
const GIB: i64 = 1 << 30;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A node with so much for pods, merged with what else is to be said about it.
fn node(name: &str, cpu: &str, memory: &str, spec: Value) -> WatchedObject {
    WatchedObject::Node(read(json!({
        "metadata": { "name": name, "labels": {
            "kubevirt.io/schedulable": "true", "disk": "fast", "unasked": "1",
        } },
        "spec": spec,
        "status": { "allocatable": { "cpu": cpu, "memory": memory, "pods": "3",
            "devices.kubevirt.io/kvm": "1k" } },
    })))
}

fn uid(number: u32) -> String {
    format!("4f6a2c1e-8a52-4b2e-9f0b-{number:012x}")
}

/// A pod on a node with one container that asks for so much.
fn pod(number: u32, node: &str, cpu: &str, memory: &str) -> WatchedObject {
    let container = json!({ "resources": { "requests": { "cpu": cpu, "memory": memory } } });
    changed_pod(
        number,
        json!({ "nodeName": node, "containers": [container] }),
    )
}

fn changed_pod(number: u32, spec: Value) -> WatchedObject {
    WatchedObject::Pod(read(
        json!({ "metadata": { "name": format!("p{number}"), "uid": uid(number) },
        "spec": spec, "status": { "phase": "Running" } }),
    ))
}

fn quota(name: &str, resource: &str, hard: &str, used: &str, spec: Value) -> WatchedObject {
    WatchedObject::Quota(read(json!({
        "metadata": { "name": name, "namespace": NS }, "spec": spec,
        "status": { "hard": { resource: hard }, "used": { resource: used } },
    })))
}

fn cache(seen: impl IntoIterator<Item = WatchedObject>) -> Cache {
    let asked = ["kubevirt.io/schedulable", "disk"].map(str::to_owned);
    let mut cache = Cache::new(asked.into());
    Kind::ALL.iter().for_each(|kind| cache.begin(*kind));
    for seen in seen {
        cache.apply(&seen);
    }
    Kind::ALL.iter().for_each(|kind| cache.end(*kind));
    cache
}

/// Half a core and 2 GiB.
fn needs() -> Needs {
    Needs {
        cpu: 500,
        memory: 2 * GIB,
        storage: 0,
        node_labels: [("kubevirt.io/schedulable".to_owned(), "true".to_owned())].into(),
        tolerations: Vec::new(),
        objects: &["count/pods", "pods", "count/virtualmachines.kubevirt.io"],
    }
}

fn reason(cache: &Cache, needs: &Needs) -> &'static str {
    let said = decide(cache, needs, NS).said();
    said.map_or("", |(_, reason)| reason.as_str())
}

fn answer(seen: impl IntoIterator<Item = WatchedObject>) -> &'static str {
    reason(&cache(seen), &needs())
}

/// Its disks are files on the node.
#[test]
fn a_machine_fits_only_where_the_nodes_own_disk_has_room_for_its() {
    let allocatable =
        json!({ "cpu": "4", "memory": "8Gi", "pods": "3", "ephemeral-storage": "20Gi" });
    let node = || {
        WatchedObject::Node(read(json!({
            "metadata": { "name": "a", "labels": { "kubevirt.io/schedulable": "true" } },
            "status": { "allocatable": allocatable },
        })))
    };
    let takes = |gib: i64| Needs {
        storage: gib * GIB,
        ..needs()
    };
    assert_eq!(reason(&cache([node()]), &takes(20)), "Fits");
    assert_eq!(reason(&cache([node()]), &takes(21)), "NoRoom");
    let container = json!({ "resources": { "requests": { "ephemeral-storage": "12Gi" } } });
    let other = json!({ "nodeName": "a", "containers": [container] });
    let seen = || [node(), changed_pod(1, other.clone())];
    assert_eq!(reason(&cache(seen()), &takes(8)), "Fits");
    assert_eq!(reason(&cache(seen()), &takes(9)), "NoRoom");
    let message = decide(&cache(seen()), &takes(9), NS).message();
    assert!(message.contains("9216Mi of ephemeral-storage"), "{message}");
    let limit = quota(
        "disk",
        "requests.ephemeral-storage",
        "10Gi",
        "2Gi",
        json!({}),
    );
    assert_eq!(reason(&cache([node(), limit]), &takes(9)), "QuotaExhausted");
}

#[test]
fn a_machine_fits_where_one_node_has_all_of_it() {
    let plain = || json!({});
    let fits = |cpu, memory| answer([node("a", cpu, memory, plain())]);
    assert_eq!(fits("1", "4Gi"), "Fits");
    assert_eq!(fits("500m", "2Gi"), "Fits");
    assert_eq!(fits("499m", "2Gi"), "NoRoom");
    assert_eq!(fits("499999u", "2Gi"), "NoRoom", "rounded down");
    assert_eq!(fits("500m", "2097151Ki"), "NoRoom");
    // Two halves make no whole.
    let two = [
        node("a", "8", "1Gi", plain()),
        node("b", "100m", "64Gi", plain()),
    ];
    assert_eq!(answer(two), "NoRoom");
}

#[test]
fn what_pods_asked_for_is_taken_and_comes_back_with_their_end() {
    let a = || node("a", "1", "4Gi", json!({}));
    let of = |pod: WatchedObject| answer([a(), pod]);
    assert_eq!(of(pod(1, "a", "500m", "2Gi")), "Fits");
    assert_eq!(of(pod(1, "a", "501m", "1")), "NoRoom");
    assert_eq!(of(pod(1, "a", "500001u", "1")), "NoRoom", "rounded up");
    assert_eq!(of(pod(1, "b", "1", "1")), "Fits", "elsewhere");
    assert_eq!(of(pod(1, "", "1", "1")), "Fits", "nowhere yet");
    let WatchedObject::Pod(mut over) = pod(1, "a", "1", "4Gi") else {
        unreachable!()
    };
    for phase in ["Succeeded", "Failed"] {
        over.status.phase = Some(phase.to_owned());
        assert_eq!(of(WatchedObject::Pod(over.clone())), "Fits", "{phase}");
    }
    // Three pods are the most that the node takes.
    let small = (1..=3).map(|n| pod(n, "a", "1m", "1"));
    assert_eq!(answer([a()].into_iter().chain(small)), "NoRoom");

    let mut cache = cache([a(), pod(1, "a", "1", "1Gi")]);
    assert_eq!(reason(&cache, &needs()), "NoRoom");
    assert!(
        !cache.apply(&pod(1, "a", "1000m", "1024Mi")),
        "it is the same"
    );
    assert!(cache.apply(&WatchedObject::Pod(over.clone())));
    assert_eq!(reason(&cache, &needs()), "Fits");
    assert!(
        !cache.delete(&WatchedObject::Pod(over)),
        "it counted no more"
    );
}

#[test]
fn containers_run_together_and_init_containers_before_them() {
    let asks = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
    let runs_on = |cpu: &str| json!({ "restartPolicy": "Always", "resources": { "requests": { "cpu": cpu } } });
    let taken = |spec: Value| {
        let WatchedObject::Pod(pod) = changed_pod(1, spec) else {
            unreachable!()
        };
        read::taken(&pod).map(|(_, taken)| taken.cpu)
    };
    let spec = |init: Value, containers: Value| json!({ "nodeName": "a", "initContainers": init, "containers": containers });
    let two = || json!([asks("100m"), asks("200m")]);
    assert_eq!(taken(spec(json!([]), two())), Some(300));
    assert_eq!(taken(spec(json!([asks("250m")]), two())), Some(300));
    assert_eq!(
        taken(spec(json!([asks("250m"), asks("400m")]), two())),
        Some(400)
    );
    assert_eq!(
        taken(spec(json!([runs_on("50m"), asks("400m")]), two())),
        Some(450)
    );
    assert_eq!(
        taken(spec(json!([asks("400m"), runs_on("50m")]), two())),
        Some(400)
    );
    assert_eq!(taken(spec(json!([runs_on("50m")]), two())), Some(350));
    let mut whole = spec(json!([]), two());
    whole["overhead"] = json!({ "cpu": "10m" });
    assert_eq!(taken(whole.clone()), Some(310));
    whole["resources"] = json!({ "requests": { "cpu": 1 } });
    assert_eq!(taken(whole), Some(1010));
}

#[test]
fn nodes_that_machines_do_not_run_on_do_not_count() {
    let tainted =
        |effect: &str| json!({ "taints": [{ "key": "k", "value": "v", "effect": effect }] });
    let of = |spec: Value| cache([node("a", "8", "64Gi", spec)]);
    let with = |toleration: Value| {
        let tolerations: Vec<Toleration> = vec![read(toleration)];
        Needs {
            tolerations,
            ..needs()
        }
    };
    for (effect, expected) in [
        ("NoSchedule", "NoRoom"),
        ("NoExecute", "NoRoom"),
        ("PreferNoSchedule", "Fits"),
    ] {
        assert_eq!(reason(&of(tainted(effect)), &needs()), expected, "{effect}");
    }
    for (toleration, expected) in [
        (json!({ "operator": "Exists" }), "Fits"),
        (
            json!({ "key": "k", "operator": "Exists", "effect": "NoSchedule" }),
            "Fits",
        ),
        (json!({ "key": "k", "value": "v" }), "Fits"),
        (json!({ "key": "k", "value": "w" }), "NoRoom"),
        (json!({ "key": "x", "operator": "Exists" }), "NoRoom"),
        (
            json!({ "key": "k", "operator": "Exists", "effect": "NoExecute" }),
            "NoRoom",
        ),
        (
            json!({ "key": "k", "value": "v", "operator": "Gt" }),
            "NoRoom",
        ),
    ] {
        let needs = with(toleration.clone());
        assert_eq!(
            reason(&of(tainted("NoSchedule")), &needs),
            expected,
            "{toleration}"
        );
    }
    let cordoned = || of(json!({ "unschedulable": true }));
    assert_eq!(reason(&cordoned(), &needs()), "NoRoom");
    let anywhere = with(json!({ "operator": "Exists" }));
    assert_eq!(reason(&cordoned(), &anywhere), "Fits");
    let mut selects = needs();
    selects
        .node_labels
        .insert("disk".to_owned(), "slow".to_owned());
    let answer = decide(&of(json!({})), &selects, NS);
    let message = answer.message();
    assert!(
        message.contains("disk=slow and kubevirt.io/schedulable=true"),
        "{message}"
    );
    selects
        .node_labels
        .insert("disk".to_owned(), "fast".to_owned());
    assert_eq!(reason(&of(json!({})), &selects), "Fits");
}

#[test]
fn a_quota_that_is_used_up_is_told_before_room_is() {
    let of = |name: &str, resource: &str, hard: &str, used: &str, spec: Value| {
        answer([
            node("a", "8", "64Gi", json!({})),
            quota(name, resource, hard, used, spec),
        ])
    };
    let plain = || json!({});
    for (resource, hard, used, expected) in [
        ("requests.memory", "4Gi", "2Gi", "Fits"),
        ("requests.memory", "4Gi", "2049Mi", "QuotaExhausted"),
        ("limits.memory", "4Gi", "3Gi", "QuotaExhausted"),
        ("memory", "1Gi", "0", "QuotaExhausted"),
        ("cpu", "1", "500m", "Fits"),
        ("requests.cpu", "1", "501m", "QuotaExhausted"),
        ("pods", "3", "3", "QuotaExhausted"),
        ("pods", "4", "3", "Fits"),
        (
            "count/virtualmachines.kubevirt.io",
            "1",
            "1",
            "QuotaExhausted",
        ),
        ("count/services", "1", "1", "Fits"),
        ("requests.storage", "1Gi", "1Gi", "Fits"),
        ("memory", "much", "1Gi", "Fits"),
    ] {
        let found = of("q", resource, hard, used, plain());
        assert_eq!(found, expected, "{resource} {used}/{hard}");
    }
    for (spec, expected) in [
        (json!({ "scopes": ["NotTerminating"] }), "QuotaExhausted"),
        (
            json!({ "scopes": ["NotTerminating", "NotBestEffort"] }),
            "QuotaExhausted",
        ),
        (
            json!({ "scopes": ["NotTerminating", "BestEffort"] }),
            "Fits",
        ),
        (json!({ "scopes": ["Terminating"] }), "Fits"),
        (json!({ "scopes": ["CrossNamespacePodAffinity"] }), "Fits"),
        (json!({ "scopes": ["PriorityClass"] }), "Fits"),
    ] {
        let found = of("q", "pods", "1", "1", spec.clone());
        assert_eq!(found, expected, "{spec}");
    }
    for (operator, expected) in [
        ("In", "Fits"),
        ("NotIn", "QuotaExhausted"),
        ("Exists", "Fits"),
        ("DoesNotExist", "QuotaExhausted"),
    ] {
        let one = json!({ "scopeName": "PriorityClass", "operator": operator, "values": ["x"] });
        let spec = json!({ "scopeSelector": { "matchExpressions": [one] } });
        assert_eq!(of("q", "pods", "1", "1", spec), expected, "{operator}");
    }

    let mut full = cache([
        node("a", "1m", "1", json!({})),
        quota("b", "requests.memory", "4Gi", "3Gi", plain()),
        quota("a", "pods", "9", "9", json!({ "scopes": ["Terminating"] })),
    ]);
    let answer = decide(&full, &needs(), NS);
    assert_eq!(
        answer.message(),
        "one machine more takes 2048Mi of requests.memory, and ResourceQuota covey-demo-0a1b2c3d11/b of the \
         management cluster has 3Gi of 4Gi used; raise it, or make other node pools of this tenant \
         cluster smaller"
    );
    let elsewhere = decide(&full, &needs(), "covey-demo-0a1b");
    assert_eq!(elsewhere.said(), Some((false, Reason::NoRoom)));
    assert!(full.delete(&quota("b", "x", "", "", plain())));
    assert_eq!(reason(&full, &needs()), "NoRoom");
}

#[test]
fn what_is_missing_is_said_with_the_most_that_is_left() {
    let seen = [
        node("a", "2", "1Gi", json!({})),
        node("b", "100m", "3000Mi", json!({})),
        pod(1, "a", "250m", "1Mi"),
    ];
    assert_eq!(
        decide(&cache(seen), &needs(), NS).message(),
        "one machine more takes 500m of cpu, 2048Mi of memory and 0Mi of ephemeral-storage, and no node \
         of the management cluster has all of it left: the most on one is 1750m, 3000Mi and 0Mi; add \
         nodes, or make the machines smaller (spec.provider)"
    );
    let over = [node("a", "1", "1Gi", json!({})), pod(1, "a", "2", "2Gi")];
    let message = decide(&cache(over), &needs(), NS).message();
    assert!(message.contains("is 0m, 0Mi and 0Mi;"), "{message}");
}

#[test]
fn nothing_is_said_before_everything_is_listed_nor_without_a_single_node() {
    assert_eq!(answer([]), "");
    assert_eq!(answer([pod(1, "a", "1", "1")]), "");
    let mut cache = Cache::new(BTreeSet::new());
    for (kind, expected) in [(Kind::Node, ""), (Kind::Pod, ""), (Kind::Quota, "NoRoom")] {
        cache.begin(kind);
        cache.apply(&node("a", "1", "1", json!({})));
        cache.end(kind);
        assert_eq!(reason(&cache, &needs()), expected);
    }
}

#[test]
fn what_a_new_list_does_not_name_is_gone() {
    let mut cache = cache([
        node("a", "1", "4Gi", json!({})),
        node("b", "8", "64Gi", json!({})),
        pod(1, "a", "1", "1"),
        pod(2, "b", "1", "1"),
        quota("q", "pods", "1", "1", json!({})),
    ]);
    assert_eq!(
        (cache.counts(), reason(&cache, &needs())),
        ((2, 2), "QuotaExhausted")
    );
    let mut relist = |kind: Kind, seen: Option<WatchedObject>| {
        cache.begin(kind);
        if let Some(seen) = seen {
            cache.apply(&seen);
        }
        let during = reason(&cache, &needs());
        cache.end(kind);
        (during, reason(&cache, &needs()))
    };
    assert_eq!(relist(Kind::Quota, None), ("QuotaExhausted", "Fits"));
    let a = node("a", "1", "4Gi", json!({}));
    assert_eq!(relist(Kind::Node, Some(a)), ("Fits", "NoRoom"));
    assert_eq!(relist(Kind::Pod, None), ("NoRoom", "Fits"));
    assert_eq!(cache.counts(), (1, 0));
}

#[test]
fn little_is_kept_of_a_pod() {
    assert_eq!(size_of::<(u128, cache::Kept)>(), 64);
}

#[test]
fn only_pools_that_were_told_something_else_are_woken() {
    let capacity = Capacity::new(["kubevirt.io/schedulable".to_owned()].into());
    let pool = |name: &str| ObjectRef::<NodePool>::new(name).within("team");
    let ask = |name: &str, memory: i64| {
        let needs = Needs { memory, ..needs() };
        capacity.ask(pool(name), needs, NS.to_owned()).said()
    };
    let flipped = || {
        let mut names: Vec<_> = capacity
            .flipped()
            .into_iter()
            .map(|pool| pool.name)
            .collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!((ask("small", GIB), ask("large", 8 * GIB)), (None, None));
    Kind::ALL.iter().for_each(|kind| capacity.begin(*kind));
    capacity.apply(&node("a", "8", "4Gi", json!({})));
    assert_eq!(flipped(), "");
    Kind::ALL.iter().for_each(|kind| capacity.end(*kind));
    assert_eq!(flipped(), "large small");
    assert_eq!(ask("small", GIB), Some((true, Reason::Fits)));
    assert_eq!(ask("large", 8 * GIB), Some((false, Reason::NoRoom)));
    assert_eq!(flipped(), "");
    capacity.apply(&pod(1, "a", "1", "2Gi"));
    assert_eq!(flipped(), "", "there is less, and the answers are the same");
    capacity.apply(&node("b", "8", "16Gi", json!({})));
    assert_eq!(flipped(), "large");
    capacity.delete(&node("b", "8", "16Gi", json!({})));
    assert_eq!(flipped(), "", "nobody was told meanwhile");
    capacity.apply(&pod(2, "a", "1", "2Gi"));
    assert_eq!(flipped(), "small");
    capacity.forget(&pool("small"));
    assert_eq!(flipped(), "");
}

#[test]
fn changes_that_do_not_matter_are_not_told() {
    let capacity = Capacity::new(BTreeSet::new());
    let mut changes = capacity.changes();
    let mut told = |seen: &WatchedObject| {
        capacity.apply(seen);
        let told = changes.has_changed().unwrap();
        changes.mark_unchanged();
        told
    };
    let first = node("a", "8", "4Gi", json!({}));
    assert!(told(&first) && !told(&first));
    assert!(told(&pod(1, "a", "1", "1")) && !told(&pod(1, "a", "1", "1")));
    assert!(!told(&pod(2, "", "1", "1")), "it is on no node");
    let q = quota("q", "pods", "1", "1", json!({}));
    assert!(told(&q) && !told(&q));
}
