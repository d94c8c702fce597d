//! What watches and answers tell, in whichever order they come, and whom it triggers.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::*;
use crate::cache::Cache;
use crate::cache::endpoint_slices::Slice;
use crate::cache::events::{Kind, WatchEvent, Write};
use crate::cache::objects::Node;
use crate::settings::{MachineAddresses, Settings};

fn read<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// The node `a`, in this version.
fn node(version: &str, ready: &str) -> k8s_openapi::api::core::v1::Node {
    read(json!({
        "metadata": { "name": "a", "uid": "a", "resourceVersion": version },
        "spec": { "providerID": "kubevirt://a" },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    }))
}

/// The mirror of a Service.
fn mirror(of: &str) -> k8s_openapi::api::core::v1::Service {
    let labels = json!({ api::names::LABEL_TENANT_UID: "", crate::names::LABEL_SERVICE_UID: of });
    read(json!({
        "metadata": {
            "name": format!("lb-{of}"), "uid": format!("lb-{of}"), "labels": labels,
            "resourceVersion": "1",
        },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
    }))
}

/// A cache with a load balancer, and a node that is not ready yet; and whether that triggered the
/// Service.
fn cache() -> (Cache, bool) {
    let cache = Cache::new(Arc::default());
    let interface =
        json!({ "name": "default", "ipAddress": "10.5.0.1", "ipAddresses": ["10.5.0.1"] });
    let events = [
        WatchEvent::Service(read(json!({
            "metadata": {
                "name": "web", "namespace": "default", "uid": "web", "resourceVersion": "1",
            },
            "spec": { "type": "LoadBalancer" },
        }))),
        WatchEvent::Mirror(mirror("web")),
        WatchEvent::Instance(read(json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
            "metadata": { "name": "a" }, "spec": {},
            "status": { "phase": "Running", "nodeName": "host", "interfaces": [interface] },
        }))),
        WatchEvent::Node(Box::new(node("2", "False"))),
    ];
    let all = events.map(|event| triggers(&cache, &cache.put(event)));
    (cache, all.contains(&true))
}

/// Whether the node gets traffic.
fn ready(cache: &Cache) -> bool {
    let targets = cache.read(State::targets);
    let [target] = targets.as_slice() else {
        panic!("{targets:?}");
    };
    target.ready
}

fn keys(state: &State, changes: &[Change]) -> Vec<Key> {
    let all = triggered(state, changes).into_iter();
    all.map(|(key, _)| key).collect()
}

/// Whether these changes trigger the Service.
fn triggers(cache: &Cache, changes: &[Change]) -> bool {
    let keys = cache.read(|state| keys(state, changes));
    let service = Key::Service("web".to_owned());
    keys.contains(&service) || keys.contains(&Key::LoadBalancers)
}

#[test]
fn what_an_answer_tells_first_is_not_lost() {
    let (cache, triggered) = cache();
    assert!(triggered && !ready(&cache));
    let answer = node("4", "True");
    let changes = cache.observe_write(Write::Node(Box::new(Node::from(&answer))));
    assert!(triggers(&cache, &changes), "traffic goes elsewhere");
    assert!(ready(&cache));
    // The events of both writes come late, and change nothing.
    for event in [node("3", "True"), answer] {
        let changes = cache.put(WatchEvent::Node(Box::new(event)));
        assert!(!triggers(&cache, &changes) && ready(&cache));
    }
}

#[test]
fn an_answer_that_is_late_does_not_undo_what_a_watch_told() {
    let (cache, _) = cache();
    let changes = cache.put(WatchEvent::Node(Box::new(node("4", "True"))));
    assert!(triggers(&cache, &changes));
    let late = Write::Node(Box::new(Node::from(&node("3", "False"))));
    let changes = cache.observe_write(late);
    assert!(!triggers(&cache, &changes) && ready(&cache));
}

#[test]
fn answer_that_was_on_its_way_while_its_load_balancer_was_deleted_brings_nothing_back() {
    let (cache, _) = cache();
    let meta = |version: &str| ObjectMeta {
        resource_version: Some(version.to_owned()),
        ..mirror("web").metadata
    };
    drop(cache.remove(Kind::Mirror, &meta("9")));
    let known = |cache: &Cache| cache.read(|state| !state.mirrors_of("web").is_empty());
    assert!(!known(&cache));
    drop(cache.observe_write(Write::Mirror(Arc::new(mirror("web")))));
    assert!(!known(&cache), "it is gone");
    // One that is made anew is there as soon as the API says so.
    let made = k8s_openapi::api::core::v1::Service {
        metadata: meta("10"),
        ..mirror("web")
    };
    drop(cache.observe_write(Write::Mirror(Arc::new(made))));
    assert!(known(&cache));
}

#[test]
fn answer_that_was_on_its_way_while_its_slice_was_deleted_brings_nothing_back() {
    let (cache, _) = cache();
    let name = crate::names::mirror("", "web");
    let slice = |version: &str| {
        read::<k8s_openapi::api::discovery::v1::EndpointSlice>(json!({
            "metadata": {
                "name": "lb-web-a", "uid": version, "resourceVersion": version,
                "labels": { "kubernetes.io/service-name": name },
            },
            "addressType": "IPv4", "endpoints": [],
        }))
    };
    drop(cache.remove(Kind::Slice, &slice("9").metadata));
    let known = |cache: &Cache| cache.read(|state| state.slices_of("web").len());
    for (version, count) in [("5", 0), ("10", 1)] {
        drop(cache.observe_write(Write::Slice(Slice::from(&slice(version)))));
        assert_eq!(known(&cache), count);
    }
}

#[test]
fn a_change_of_a_machine_triggers_the_node_on_it_and_every_load_balancer() {
    let (cache, _) = cache();
    let (node, service) = (Key::Node("a".to_owned()), Key::Service("web".to_owned()));
    let machine = [Change::Machine("a".to_owned())];
    let all = cache.read(everything);
    assert_eq!(all, [service, node]);
    assert_eq!(cache.read(|s| keys(s, &machine)), all[1..]);
    assert_eq!(cache.read(balanced), all[..1]);
    assert_eq!(cache.read(orphans), []);
}

#[test]
fn moved_endpoints_trigger_only_a_service_that_keeps_traffic_on_the_node() {
    let (cache, _) = cache();
    let moved = [Change::LocalEndpoints((
        "default".to_owned(),
        "web".to_owned(),
    ))];
    assert_eq!(cache.read(|s| keys(s, &moved)), []);
    let changes = cache.put(WatchEvent::Service(read(json!({
        "metadata": {
            "name": "web", "namespace": "default", "uid": "web", "resourceVersion": "2",
        },
        "spec": { "type": "LoadBalancer", "externalTrafficPolicy": "Local" },
    }))));
    assert!(triggers(&cache, &changes) && triggers(&cache, &moved));
}

/// Finding D15: a Service that could not be read was gone, and its load balancer with it.
#[test]
fn what_cannot_be_read_is_as_it_was_known_and_what_is_not_named_is_gone() {
    let (cache, _) = cache();
    let meta = ObjectMeta {
        name: Some("web".to_owned()),
        namespace: Some("default".to_owned()),
        uid: Some("web".to_owned()),
        ..ObjectMeta::default()
    };
    let is_known = || cache.read(|state| state.service("web").is_some());
    cache.begin(Kind::Service);
    cache.unreadable(Kind::Service, &meta);
    assert_eq!((cache.end(Kind::Service), is_known()), (vec![], true));
    let changes = cache.remove(Kind::Service, &meta);
    assert_eq!(
        (changes, is_known()),
        (vec![Change::Service("web".to_owned())], false)
    );
}

#[test]
fn addresses_that_are_lost_hold_on_and_are_waited_for_only_where_something_runs() {
    let settings = Settings {
        machine_addresses: MachineAddresses::Published,
        ..Settings::default()
    };
    let cache = Cache::new(Arc::new(settings));
    for kind in Kind::ALL {
        cache.begin(kind);
        let _ = cache.end(kind);
    }
    assert_eq!(cache.missing(), [], "no machine needs any");
    let instance = read(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": { "name": "a", "uid": "u" }, "spec": {},
        "status": { "phase": "Running", "nodeName": "host" },
    }));
    let _ = cache.put(WatchEvent::Instance(instance));
    assert_eq!(cache.missing(), [Kind::Addresses]);
    let _ = cache.put(WatchEvent::Node(Box::new(node("2", "True"))));
    let owner = json!({ "machine": "a", "instance": "u", "node": "host", "primary": true });
    let published = read(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "MachineAddresses",
        "metadata": { "name": "machines" }, "spec": { "addresses": { "10.5.0.1": owner } },
    }));
    let changes = cache.put(WatchEvent::Addresses(published));
    assert!(changes.contains(&Change::Targets));
    assert_eq!(cache.missing(), []);
    let targets = || cache.read(|state| state.targets().len());
    assert_eq!(targets(), 1);
    cache.begin(Kind::Addresses);
    assert_eq!(cache.end(Kind::Addresses), []);
    assert_eq!((cache.missing(), targets()), (vec![], 1));
}

#[test]
fn nodes_that_claim_the_machine_of_another_change_nothing_but_take_its_place_when_it_goes() {
    let (cache, _) = cache();
    let named = |name: &str, version: &str| {
        let mut node = node(version, "True");
        node.metadata.name = Some(name.to_owned());
        node.metadata.uid = Some(name.to_owned());
        node
    };
    let put =
        |name: &str, version: &str| cache.put(WatchEvent::Node(Box::new(named(name, version))));
    let of = || {
        let targets = cache.read(|state| state.targets());
        let of = targets
            .iter()
            .map(|target| (target.node.to_string(), target.ready));
        of.collect::<Vec<_>>()
    };
    assert_eq!(of(), [("a".to_owned(), false)]);
    for (name, version) in [("0", "3"), ("b", "4")] {
        assert_eq!(put(name, version), [Change::Node(name.to_owned())]);
    }
    assert_eq!(of(), [("a".to_owned(), false)]);
    assert_eq!(
        put("a", "5"),
        [Change::Targets, Change::Node("a".to_owned())]
    );
    assert_eq!(of(), [("a".to_owned(), true)]);
    let remove = |name: &str| cache.remove(Kind::Node, &named(name, "6").metadata);
    assert_eq!(remove("b"), [Change::Node("b".to_owned())]);
    assert_eq!(remove("a"), [Change::Targets, Change::Node("a".to_owned())]);
    assert_eq!(of(), [("0".to_owned(), true)]);
}

#[test]
fn labels_of_nodes_are_gathered_and_a_machine_that_is_dead_is_not() {
    let (cache, _) = cache();
    let all = |changes: &[Change]| cache.read(|state| triggered(state, changes));
    let labelled = |version: &str, value: &str| {
        let mut node = node(version, "True");
        let label = (crate::names::LABEL_EXCLUDE.to_owned(), value.to_owned());
        node.metadata.labels = Some([label].into());
        let changes = cache.put(WatchEvent::Node(Box::new(node)));
        all(&changes)
    };
    let gathered = (Key::LoadBalancers, Priority::Urgent);
    for (version, value) in [("3", "true"), ("4", "false"), ("5", "true"), ("6", "false")] {
        let triggered = labelled(version, value);
        assert!(triggered.contains(&gathered), "{triggered:?}");
        let at_once = |(key, _): &(Key, Priority)| matches!(key, Key::Service(_));
        assert!(!triggered.iter().any(at_once), "{triggered:?}");
    }
    let gone = WatchEvent::Instance(read(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": { "name": "a" }, "spec": {},
    })));
    let triggered = all(&cache.remove(Kind::Instance, gone.meta()));
    let service = (Key::Service("web".to_owned()), Priority::Urgent);
    assert!(triggered.contains(&service), "{triggered:?}");
}

/// Of 5,000 Services all were looked at, at once and before all others, and a dead machine waited for them.
#[test]
fn dead_machine_concerns_services_that_have_a_load_balancer_or_are_given_one_and_none_that_wait() {
    let settings = Settings {
        limits: crate::limits::Limits {
            services: 2,
            ..Default::default()
        },
        ..Settings::default()
    };
    let cache = Cache::new(Arc::new(settings));
    let ports = json!([{ "port": 80, "nodePort": 30080 }]);
    for name in ["has", "is-given", "waits", "waits-too"] {
        let changes = cache.put(WatchEvent::Service(read(json!({
            "metadata": {
                "name": name, "namespace": "default", "uid": name, "resourceVersion": "1",
            },
            "spec": { "type": "LoadBalancer", "ports": ports },
        }))));
        assert_eq!(changes, [Change::Service(name.to_owned())]);
    }
    let _ = cache.put(WatchEvent::Mirror(mirror("has")));
    let over = ["has", "is-given", "waits", "waits-too"].map(|uid| cache.admit(uid).0.is_some());
    assert_eq!(over, [false, false, true, true]);
    let dead = [Change::Lost];
    let expected = ["has", "is-given"].map(|uid| Key::Service(uid.to_owned()));
    assert_eq!(cache.read(|state| keys(state, &dead)), expected);
}
