//! The CEL rules of NodePool and Machine, evaluated without an API server: what they let through,
//! and the sentence with which they refuse.
//!
//! Invariant: every rule in the schemas is refused by at least one case here.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use serde_json::{Value, json};
use support::{change, check, create, refusals, schema};

mod support;

fn object(kind: &str, name: &str, mut spec: Value, change: &Value) -> Value {
    for (key, value) in change.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": spec,
    })
}

fn pool_named(name: &str, change: &Value) -> Value {
    let spec = json!({"clusterName": "demo", "provider": {"kubevirt": {}}});
    object("NodePool", name, spec, change)
}

fn pool(change: &Value) -> Value {
    pool_named("workers", change)
}

/// A pool with these weights.
fn spread(weights: &[i32]) -> Value {
    let location = |(number, weight): (usize, &i32)| json!({"name": format!("l{number}"), "weight": weight, "provider": {"kubevirt": {}}});
    let locations: Vec<_> = weights.iter().enumerate().map(location).collect();
    let mut pool = pool(&json!({"locations": locations}));
    pool["spec"].as_object_mut().unwrap().remove("provider");
    pool
}

fn without_provider() -> Value {
    let mut pool = pool(&json!({}));
    pool["spec"].as_object_mut().unwrap().remove("provider");
    pool
}

fn machine_named(name: &str, change: &Value) -> Value {
    let spec = json!({
        "clusterName": "demo",
        "clusterUID": "0a1b2c3d-1111-4222-8333-444455556666",
        "poolName": "workers",
        "version": "1.35.4",
        "provider": {"kubevirt": {"cpu": 2, "memory": "1Gi", "image": "example.com/worker:v1"}},
    });
    object("Machine", name, spec, change)
}

fn machine(change: &Value) -> Value {
    machine_named("workers-x2k9p", change)
}

fn rollout(surge: &Value, unavailable: &Value) -> Value {
    pool(&json!({"rollout": {"maxSurge": surge, "maxUnavailable": unavailable}}))
}

fn silent_for(after: &str) -> Value {
    pool(&json!({"placement": {"failover": {"after": after}}}))
}

const POOL_NAME: &str = "the name must be a DNS label that starts with a letter (lower-case \
                         letters, digits and -, no dots), because it becomes part of the names of \
                         nodes";
const POOL_NAME_LENGTH: &str = "the name may have at most 46 characters, because nodes are called \
                                <name>-<5 characters> and certificates hold system:node:<node> in \
                                at most 64; choose a shorter one";
const CLUSTER: &str = "clusterName cannot change: a machine belongs to the tenant cluster that it \
                       joined; create a new node pool";
const PROVIDER: &str = "provider must name exactly one provider, such as kubevirt: {}";
const ONE_FORM: &str = "set exactly one of provider and locations: provider is the short form of one \
                        location";
const NO_WEIGHT: &str = "the weight of every location is 0, so no machine could be made anywhere; give one \
                         of them 1 or more";
const MACHINE_NAMESPACE: &str =
    "tenantNamespace of a Machine cannot change; delete the Machine to have it replaced";
const MACHINE_LOCATION: &str = "location of a Machine cannot change; change the weights of the NodePool, \
                                or delete the Machine to have it made where they say";
const ROLLOUT: &str = "rollout.maxSurge and rollout.maxUnavailable cannot both be 0: no machine \
                       could ever be replaced; set one of them to 1 or more";
const BOUNDS: &str = "autoscaling.min cannot be more than autoscaling.max; lower the one or raise the \
                      other";
const AFTER: &str = "placement.failover.after is how long a node may be silent: at least 15s, because \
                     kubelets speak every 10s, and at most 10m";
const MACHINE_NAME: &str = "the name must be a DNS label of at most 52 characters that starts with \
                            a letter, because the node has the same name; create a NodePool \
                            instead, it names its Machines";
const MACHINE_OWNERS: &str = "clusterName, clusterUID and poolName of a Machine cannot change; delete \
                              the Machine to have it replaced";
const MACHINE_TEMPLATE: &str = "version and provider of a Machine cannot change; change the \
                                NodePool, which replaces its Machines";

const MACHINE_REQUEST: &str = "status.request of a Machine cannot change: whatever is asked again must be the \
                               same; delete the Machine to have it replaced";
const MACHINE_KUBELET: &str = "kubelet of a Machine cannot change; change the NodePool, which \
                               replaces its Machines";

#[test]
fn a_wrong_node_pool_is_refused_with_one_sentence_and_every_rule_is_tested() {
    let none = json!({});
    let zero = json!(0);
    check(
        "NodePool",
        &[
            create(pool_named(&"n".repeat(47), &none), POOL_NAME_LENGTH),
            create(pool_named("a.b", &none), POOL_NAME),
            create(pool_named("1a", &none), POOL_NAME),
            create(pool_named("a-", &none), POOL_NAME),
            create(pool(&json!({"provider": {}})), PROVIDER),
            create(
                pool(&json!({"provider": {"kubevirt": {}, "static": {}}})),
                PROVIDER,
            ),
            create(
                pool(
                    &json!({"provider": {"kubevirt": {}, "hetzner": {"configName": "h", "types": ["cx32"]}}}),
                ),
                PROVIDER,
            ),
            create(
                pool(&json!({"provider": {
                    "hetzner": {"configName": "h", "types": ["cx32"]},
                    "gcp": {"configName": "g", "types": ["e2-medium"]},
                }})),
                PROVIDER,
            ),
            create(
                pool(&json!({"provider": {
                    "gcp": {"configName": "g", "types": ["e2-medium"]},
                    "azure": {"configName": "a", "types": ["Standard_D2s_v5"]},
                }})),
                PROVIDER,
            ),
            create(
                pool(&json!({"provider": {
                    "azure": {"configName": "a", "types": ["Standard_D2s_v5"]},
                    "aws": {"configName": "a", "types": ["m7i.xlarge"]},
                }})),
                PROVIDER,
            ),
            create(without_provider(), ONE_FORM),
            create(
                pool(
                    &json!({"locations": [{"name": "a", "weight": 1, "provider": {"kubevirt": {}}}]}),
                ),
                ONE_FORM,
            ),
            create(spread(&[0]), NO_WEIGHT),
            change(spread(&[1, 1]), spread(&[0, 0]), NO_WEIGHT),
            create(rollout(&zero, &zero), ROLLOUT),
            create(rollout(&json!("0%"), &zero), ROLLOUT),
            create(pool(&json!({"rollout": {"maxSurge": 0}})), ROLLOUT),
            create(pool(&json!({"autoscaling": {"min": 3, "max": 2}})), BOUNDS),
            create(silent_for("14s"), AFTER),
            create(silent_for("11m"), AFTER),
            change(pool(&none), pool(&json!({"clusterName": "other"})), CLUSTER),
        ],
    );
}

#[test]
fn a_right_node_pool_is_let_through() {
    let none = pool(&json!({}));
    let template = json!({
        "version": "1.34.4",
        "replicas": 0,
        "provider": {"kubevirt": {"cpu": 4, "memory": 8_000_000_000_u64}},
        "labels": {"a": "b"},
        "taints": [{"key": "a", "effect": "NoSchedule"}],
        "autoscaling": {"max": 2},
    });
    let bounds = |min: i32, max: i32| pool(&json!({"autoscaling": {"min": min, "max": max}}));
    let schema = schema("NodePool");
    for (old, new) in [
        (None, none.clone()),
        (None, pool_named(&"n".repeat(46), &json!({}))),
        (None, rollout(&json!(0), &json!(1))),
        (None, bounds(2, 2)),
        (None, silent_for("15s")),
        (None, silent_for("10m")),
        (None, pool(&json!({"provider": {"static": {}}}))),
        (Some(bounds(0, 9)), bounds(0, 3)),
        (None, rollout(&json!("0%"), &json!("1%"))),
        (None, spread(&[1, 1000, 0])),
        (Some(none.clone()), spread(&[2, 1, 0])),
        (Some(spread(&[2, 1, 0])), none.clone()),
        (Some(none), pool(&template)),
    ] {
        assert_eq!(refusals(&schema, old.as_ref(), &new), [""; 0], "{new}");
    }
}

/// With what its provider is asked for stored.
fn asked(request: Value) -> Value {
    let mut machine = machine(&json!({}));
    machine["status"] = json!({ "request": request });
    machine
}

#[test]
fn a_wrong_machine_is_refused_with_one_sentence_and_every_rule_is_tested() {
    let none = json!({});
    let good = machine(&none);
    let pods = |most: i32| json!({"kubelet": {"maxPods": most}});
    let bigger = json!({"provider": {"kubevirt": {"cpu": 4}}});
    let image = || json!({"image": "a"});
    let sized = json!({"image": "a", "type": "kubevirt-2cpu-4096Mi"});
    let booted = |kernel: &str| json!({"image": "a", "kernelBoot": {"image": kernel}});
    let of = |account: &str| json!({"image": "a", "account": account});
    check(
        "Machine",
        &[
            create(machine_named(&"n".repeat(53), &none), MACHINE_NAME),
            create(machine_named("a.b", &none), MACHINE_NAME),
            create(machine(&json!({"provider": {}})), PROVIDER),
            change(
                good.clone(),
                machine(&json!({"clusterName": "other"})),
                MACHINE_OWNERS,
            ),
            change(
                good.clone(),
                machine(&json!({"clusterUID": "another"})),
                MACHINE_OWNERS,
            ),
            change(
                good.clone(),
                machine(&json!({"poolName": "other"})),
                MACHINE_OWNERS,
            ),
            change(
                good.clone(),
                machine(&json!({"version": "1.36.3"})),
                MACHINE_TEMPLATE,
            ),
            change(good.clone(), machine(&bigger), MACHINE_TEMPLATE),
            change(good.clone(), machine(&pods(30)), MACHINE_KUBELET),
            change(machine(&pods(30)), good.clone(), MACHINE_KUBELET),
            change(
                good.clone(),
                machine(&json!({"location": "a"})),
                MACHINE_LOCATION,
            ),
            change(machine(&json!({"location": "a"})), good, MACHINE_LOCATION),
            change(
                machine(&json!({"location": "a"})),
                machine(&json!({"location": "b"})),
                MACHINE_LOCATION,
            ),
            change(machine(&pods(30)), machine(&pods(31)), MACHINE_KUBELET),
            change(
                machine(&json!({"tenantNamespace": "a"})),
                machine(&json!({"tenantNamespace": "b"})),
                MACHINE_NAMESPACE,
            ),
            change(
                asked(image()),
                asked(json!({"image": "b"})),
                MACHINE_REQUEST,
            ),
            change(asked(sized.clone()), asked(image()), MACHINE_REQUEST),
            change(asked(image()), asked(sized), MACHINE_REQUEST),
            change(asked(booted("k")), asked(booted("l")), MACHINE_REQUEST),
            change(asked(image()), asked(booted("k")), MACHINE_REQUEST),
            change(asked(image()), machine(&none), MACHINE_REQUEST),
            change(asked(of("a")), asked(of("b")), MACHINE_REQUEST),
            change(asked(of("a")), asked(image()), MACHINE_REQUEST),
        ],
    );
}

#[test]
fn what_does_not_need_a_new_machine_may_change() {
    let schema = schema("Machine");
    let old = machine(&json!({}));
    for new in [
        machine_named(&"n".repeat(52), &json!({})),
        machine(&json!({"drainTimeout": "1m", "labels": {"a": "b"}})),
        asked(json!({"image": "a"})),
    ] {
        assert_eq!(refusals(&schema, Some(&old), &new), [""; 0], "{new}");
    }
    let asked = asked(json!({"image": "a", "kernelBoot": {"image": "k"}}));
    assert_eq!(refusals(&schema, Some(&asked), &asked), [""; 0]);
}
