//! The CEL rules of TenantCluster, evaluated without an API server: what they let through, and the
//! sentence with which they refuse.
//!
//! Invariant: every rule in the schema is refused by at least one case here.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use serde_json::{Value, json};

use support::{Case, change, check, create, refusals, schema};

mod support;

fn tc(spec: &Value) -> Value {
    named("demo", spec)
}

fn named(name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "TenantCluster",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"version": "1.35.4"},
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

fn endpoint(value: &Value) -> Value {
    tc(&json!({"controlPlane": {"endpoint": value}}))
}

fn network(value: &Value) -> Value {
    tc(&json!({"network": value}))
}

fn in_force(mut object: Value) -> Value {
    object["status"] = json!({"network": {
        "podCIDR": "10.128.0.0/18", "serviceCIDR": "100.64.0.0/20", "dnsDomain": "cluster.local",
    }});
    object
}

/// One that took over what was made for another one.
fn bears(uid: &str) -> Value {
    let mut object = in_force(tc(&json!({})));
    object["status"]["identity"] =
        json!({"name": "standby-1-36-3-0", "namespace": "covey-system-standby", "uid": uid});
    object
}

const IDENTITY: &str = "status.identity of a TenantCluster cannot change: all its parts bear it; delete the TenantCluster to \
                        have them removed";

fn storage(value: &Value) -> Value {
    tc(&json!({"etcd": {"storage": value}}))
}

fn overlay(value: &Value) -> Value {
    tc(&json!({"addons": {"overlay": value}}))
}

const OVERLAY_RANGE: &str = "the overlay has no addresses: set spec.addons.overlay.cidr to a range that nothing at \
                             the nodes' sites uses, such as 198.18.0.0/16";
const OVERLAY_STAYS: &str = "cidr of an overlay that is on cannot change, because nodes have addresses of it; switch \
                             spec.addons.overlay.enabled off, wait until the DaemonSet covey-overlay is gone, and switch \
                             it on with the other range";

fn encrypted(kinds: &[&str]) -> Value {
    tc(&json!({"encryption": {"resources": kinds}}))
}

const WILDCARD: &str = "encryption.resources has a wildcard: name each kind, because every object of it is written anew \
                        when it is added or taken out";
const EVENTS: &str = "encryption.resources has events: take them out, because they may be in an etcd of their own and \
                      end within hours, so that nobody writes them anew";
const KINDS: &str = "encryption.resources has a kind that cannot be encrypted: choose among secrets, configmaps, \
                     controllerrevisions.apps, cronjobs.batch, daemonsets.apps, deployments.apps, jobs.batch, \
                     leases.coordination.k8s.io, persistentvolumeclaims, pods, replicasets.apps, serviceaccounts and \
                     statefulsets.apps, each with its API group";
const NO_SECRETS: &str =
    "encryption.resources lacks secrets: add it, because Secrets are always encrypted at rest";

fn backup(value: &Value) -> Value {
    let mut backup = value.clone();
    backup["target"] = json!("main");
    tc(&json!({"backup": backup}))
}

const FULL: &str =
    "backup.full is how often the whole database is written: at least 1h and at most 720h";
const DELTA: &str = "backup.delta is how much may be lost at most: at least 1s and at most 1h";
const RESTORE_TEST: &str = "backup.restoreTest is how often a restore is tested: at least 24h and at most \
                            2160h, or 0s for never";
const UID: &str = "0a1b2c3d-0011-4000-8000-000000000001";
const SOAK: &str = "upgrade.soak is how long new kube-apiservers serve the minor before: at most 24h, 0s for \
                    not at all";
const DEADLINE: &str =
    "upgrade.deadline is how long new pods have to become ready: at least 1m and at most 24h";
const IDLE_AFTER: &str = "hibernation.idleAfter is how long nobody uses it before it is put to sleep: at least \
                          15m and at most 720h";
const HELD_UNTIL: &str =
    "maintenance.heldUntil is a time in UTC to the second: write 2027-01-31T12:00:00Z";
const WINDOW: &str =
    "opens and closes are the same moments: write two, as \"0 22 * * *\" and \"0 4 * * *\"";
const NOBODY_WAKES: &str = "hibernation.idleAfter puts it to sleep until somebody asks its API, and with \
                            hibernation.wake Manual no request wakes it: set wake to OnRequest, or remove \
                            idleAfter";
const TYPE: &str = "endpoint.type cannot change: kubeconfigs and nodes hold the address; create a \
                    new tenant cluster";
const HOST: &str = "endpoint.type NodePort needs endpoint.host: the address or DNS name under \
                    which clients reach the management cluster's nodes";
const CLASS: &str = "endpoint.loadBalancerClass cannot be added, changed or removed later \
                     (Kubernetes does not allow it on a Service); create a new tenant cluster";
const STORAGE_CLASS: &str = "etcd.storage.storageClassName can change only while etcd.replicas is \
                             3, because data moves from member to member; set etcd.replicas to 3 \
                             with it, and back once it has moved";
const PODS: &str = "network.podCIDR cannot change: nodes and pods hold addresses of it; create a \
                    new tenant cluster";
const PODS_ADDED: &str = "network.podCIDR cannot be added later, unless it says what is in force \
                          (status.network.podCIDR); remove it or create a new tenant cluster";
const SERVICES: &str = "network.serviceCIDR cannot change: Services hold addresses of it; create \
                        a new tenant cluster";
const SERVICES_ADDED: &str = "network.serviceCIDR cannot be added later, unless it says what is \
                              in force (status.network.serviceCIDR); remove it or create a new \
                              tenant cluster";
const DOMAIN: &str = "network.dnsDomain cannot change: certificates and pods hold it; create a \
                      new tenant cluster";
const NAME: &str = "the name must be a DNS label that starts with a letter (lower-case letters, \
                    digits and -, no dots), because it becomes part of a namespace's name";
const NAME_LENGTH: &str = "the name may have at most 46 characters, because the tenant namespace \
                           is called covey-<name>-<10 characters>; choose a shorter one";

fn refused() -> Vec<Case> {
    let none = tc(&json!({}));
    let load_balancer =
        |class: &str| endpoint(&json!({"type": "LoadBalancer", "loadBalancerClass": class}));
    let bare_load_balancer = endpoint(&json!({"type": "LoadBalancer"}));
    vec![
        create(named(&"n".repeat(47), &json!({})), NAME_LENGTH),
        create(named("a.b", &json!({})), NAME),
        create(named("1a", &json!({})), NAME),
        create(overlay(&json!({"enabled": true})), OVERLAY_RANGE),
        change(
            overlay(&json!({"enabled": true, "cidr": "198.18.0.0/16"})),
            overlay(&json!({"enabled": true, "cidr": "198.19.0.0/16"})),
            OVERLAY_STAYS,
        ),
        create(backup(&json!({"full": "59m"})), FULL),
        create(backup(&json!({"full": "721h"})), FULL),
        create(backup(&json!({"delta": "0s"})), DELTA),
        create(backup(&json!({"delta": "61m"})), DELTA),
        create(backup(&json!({"restoreTest": "23h"})), RESTORE_TEST),
        create(backup(&json!({"restoreTest": "2161h"})), RESTORE_TEST),
        create(
            tc(&json!({"etcd": {"copyOf": UID}})),
            "etcd.copyOf is for a TenantCluster that begins with a backup: set etcd.bootstrap: Restore with it",
        ),
        create(tc(&json!({"upgrade": {"soak": "25h"}})), SOAK),
        create(
            tc(&json!({"hibernation": {"idleAfter": "14m"}})),
            IDLE_AFTER,
        ),
        create(
            tc(&json!({"hibernation": {"idleAfter": "721h"}})),
            IDLE_AFTER,
        ),
        create(
            tc(&json!({"hibernation": {"idleAfter": "4h", "wake": "Manual"}})),
            NOBODY_WAKES,
        ),
        create(
            tc(&json!({"maintenance": {"heldUntil": "2027-01-31 12:00:00Z"}})),
            HELD_UNTIL,
        ),
        create(
            tc(
                &json!({"maintenance": {"windows": [{"opens": "0 4 * * *", "closes": "0 4 * * *"}]}}),
            ),
            WINDOW,
        ),
        create(tc(&json!({"upgrade": {"deadline": "59s"}})), DEADLINE),
        create(tc(&json!({"upgrade": {"deadline": "25h"}})), DEADLINE),
        create(named("a-", &json!({})), NAME),
        create(endpoint(&json!({"type": "NodePort"})), HOST),
        create(endpoint(&json!({"type": "NodePort", "host": ""})), HOST),
        create(
            endpoint(&json!({"loadBalancerClass": "example.com/x"})),
            "endpoint.loadBalancerClass is for endpoint.type LoadBalancer only; remove it or \
             change the type",
        ),
        create(
            endpoint(&json!({"type": "NodePort", "host": "x", "sourceRanges": ["10.0.0.0/8"]})),
            "endpoint.sourceRanges is for endpoint.type LoadBalancer only; remove it or change \
             the type",
        ),
        create(
            endpoint(&json!({"externalTrafficPolicy": "Local"})),
            "endpoint.externalTrafficPolicy is for endpoint.type NodePort and LoadBalancer only; remove \
             it or change the type",
        ),
        create(
            endpoint(
                &json!({"type": "NodePort", "host": "x", "allocateLoadBalancerNodePorts": false}),
            ),
            "endpoint.allocateLoadBalancerNodePorts is for endpoint.type LoadBalancer only; remove it \
             or change the type",
        ),
        create(
            endpoint(&json!({"konnectivityPort": 8132})),
            "endpoint.konnectivityPort is for endpoint.type NodePort and LoadBalancer only; remove it or \
             change the type",
        ),
        create(
            endpoint(&json!({"type": "LoadBalancer", "konnectivityPort": 6443})),
            "endpoint.konnectivityPort is the port of the API; choose another one",
        ),
        create(
            endpoint(
                &json!({"type": "NodePort", "host": "x", "port": 31443, "konnectivityPort": 31443}),
            ),
            "endpoint.konnectivityPort is the port of the API; choose another one",
        ),
        create(
            tc(&json!({"etcd": {"replicas": 2}})),
            "etcd.replicas must be 1 or 3",
        ),
        change(
            tc(&json!({"etcd": {"bootstrap": "Restore"}})),
            tc(&json!({"etcd": {"bootstrap": "New"}})),
            "etcd.bootstrap cannot change: make another TenantCluster with it",
        ),
        change(
            tc(&json!({"etcd": {"bootstrap": "Restore", "copyOf": UID}})),
            tc(&json!({"etcd": {"bootstrap": "Restore"}})),
            "etcd.copyOf cannot change; make another TenantCluster with it",
        ),
        change(none.clone(), bare_load_balancer.clone(), TYPE),
        change(bare_load_balancer.clone(), none.clone(), TYPE),
        change(
            load_balancer("a.example/x"),
            load_balancer("a.example/y"),
            CLASS,
        ),
        change(
            load_balancer("a.example/x"),
            bare_load_balancer.clone(),
            CLASS,
        ),
        change(bare_load_balancer, load_balancer("a.example/x"), CLASS),
        change(
            storage(&json!({"storageClassName": "a"})),
            none.clone(),
            STORAGE_CLASS,
        ),
        change(
            none.clone(),
            storage(&json!({"storageClassName": "a"})),
            STORAGE_CLASS,
        ),
        change(
            storage(&json!({"storageClassName": "a"})),
            storage(&json!({"storageClassName": "b"})),
            STORAGE_CLASS,
        ),
        change(
            network(&json!({"podCIDR": "10.0.0.0/16"})),
            none.clone(),
            PODS,
        ),
        change(
            network(&json!({"podCIDR": "10.0.0.0/16"})),
            network(&json!({"podCIDR": "10.1.0.0/16"})),
            PODS,
        ),
        change(
            network(&json!({"serviceCIDR": "10.96.0.0/12"})),
            none.clone(),
            SERVICES,
        ),
        change(
            none.clone(),
            network(&json!({"podCIDR": "10.128.0.0/18"})),
            PODS_ADDED,
        ),
        change(
            in_force(none.clone()),
            in_force(network(&json!({"podCIDR": "10.128.64.0/18"}))),
            PODS_ADDED,
        ),
        change(
            in_force(none.clone()),
            in_force(network(&json!({"serviceCIDR": "10.128.0.0/18"}))),
            SERVICES_ADDED,
        ),
        change(
            none.clone(),
            network(&json!({"dnsDomain": "x.example"})),
            DOMAIN,
        ),
        change(
            network(&json!({"dnsDomain": "x.example"})),
            none.clone(),
            DOMAIN,
        ),
        change(bears("u1"), bears("u2"), IDENTITY),
        change(bears("u1"), in_force(none.clone()), IDENTITY),
        change(bears("u1"), none, IDENTITY),
    ]
}

fn not_encrypted() -> Vec<Case> {
    vec![
        create(encrypted(&["secrets", "*.*"]), WILDCARD),
        create(encrypted(&["secrets", "*.apps"]), WILDCARD),
        create(encrypted(&["secrets", "events"]), EVENTS),
        create(encrypted(&["secrets", "nodes"]), KINDS),
        create(encrypted(&["secrets", "deployments"]), KINDS),
        create(encrypted(&["secrets", "widgets.example.com"]), KINDS),
        create(encrypted(&["configmaps"]), NO_SECRETS),
        create(encrypted(&[]), NO_SECRETS),
    ]
}

#[test]
fn what_is_wrong_is_refused_with_one_sentence_and_every_rule_is_tested() {
    let mut cases = refused();
    cases.extend(not_encrypted());
    check("TenantCluster", &cases);
}

#[test]
fn what_is_right_is_let_through() {
    let none = tc(&json!({}));
    let node_port = endpoint(&json!({"type": "NodePort", "host": "192.0.2.1"}));
    let all = encrypted(&["secrets", "configmaps", "leases.coordination.k8s.io"]);
    let cases = [
        (None, none.clone()),
        (None, named(&"n".repeat(46), &json!({}))),
        (None, node_port.clone()),
        (None, all),
        (None, backup(&json!({}))),
        (
            None,
            backup(&json!({"full": "1h", "delta": "1s", "retention": {"days": 0}})),
        ),
        (
            None,
            tc(&json!({"etcd": {"replicas": 3, "storage": {"size": 4_000_000_000_u64}}})),
        ),
        (
            None,
            endpoint(&json!({"type": "LoadBalancer", "sourceRanges": ["10.0.0.0/8"]})),
        ),
        (
            None,
            endpoint(
                &json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "allocateLoadBalancerNodePorts": false}),
            ),
        ),
        (
            None,
            endpoint(&json!({"type": "LoadBalancer", "port": 443, "konnectivityPort": 6443})),
        ),
        (
            None,
            network(&json!({"podCIDR": "10.0.0.0/16", "serviceCIDR": "10.96.0.0/12"})),
        ),
        // It is taken over once, and borne from then on.
        (Some(none.clone()), bears("u1")),
        (Some(bears("u1")), bears("u1")),
        // What may change.
        (
            Some(none.clone()),
            tc(&json!({"version": "1.36.3", "paused": true})),
        ),
        (
            Some(none.clone()),
            tc(&json!({"controlPlane": {"replicas": 3}})),
        ),
        (
            Some(node_port),
            endpoint(&json!({"type": "NodePort", "host": "x.example", "port": 31443})),
        ),
        (Some(none.clone()), storage(&json!({"size": "2048Mi"}))),
        (Some(storage(&json!({"size": "2G"}))), none.clone()),
        (
            Some(none.clone()),
            tc(&json!({"addons": {"coreDNS": {"enabled": false}, "cni": {"type": "none"}}})),
        ),
        (
            Some(tc(&json!({"addons": {"konnectivity": {"enabled": false}}}))),
            tc(&json!({"addons": {"csi": {"enabled": true, "classes": ["fast"]}}})),
        ),
        // Saying what is the default, or in force, changes nothing.
        (Some(none.clone()), endpoint(&json!({"type": "ClusterIP"}))),
        (
            Some(none.clone()),
            network(&json!({"dnsDomain": "cluster.local"})),
        ),
        (
            Some(network(&json!({"dnsDomain": "cluster.local"}))),
            none.clone(),
        ),
        (
            Some(in_force(none.clone())),
            in_force(network(
                &json!({"podCIDR": "10.128.0.0/18", "serviceCIDR": "100.64.0.0/20"}),
            )),
        ),
        // The operator's own write.
        (Some(none.clone()), in_force(none)),
    ];
    let schema = schema("TenantCluster");
    for (old, new) in cases {
        assert_eq!(
            refusals(&schema, old.as_ref(), &new),
            [""; 0],
            "old {old:?}\nnew {new}"
        );
    }
}
