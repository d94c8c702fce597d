//! Laws of what is wanted, for any tenant cluster that `validate` lets through.

mod fixtures;

use std::collections::{BTreeMap, BTreeSet};

use api::tenant_cluster::EndpointType;
use fixtures::{
    TRUST, addresses, any_addresses, limits, minimal, objects, offer, validated, with_overlay,
};
use kit_objects::object::Object;
use proptest::prelude::*;
use serde_json::{Value, json};
use tenant_cp::{
    Addresses, Settings, Validated,
    addons::registry,
    certificates,
    desired::bootstrap::{
        kinds::{KINDS, WATCHED},
        rbac::is_privileged,
    },
    flags::{Program, managed_flags},
    tenant_objects,
};

fn content(object: &Object) -> Value {
    let mut value = object.value.clone();
    value["metadata"]["annotations"]
        .as_object_mut()
        .expect("annotations are a map")
        .remove(kit_objects::object::ANNOTATION_HASH);
    value
}

fn find<'a>(objects: &'a [Object], kind: &str, name: &str) -> &'a Value {
    let found = objects
        .iter()
        .find(|object| object.kind == kind && object.name == name);
    &found
        .unwrap_or_else(|| unreachable!("no {kind} {name}"))
        .value
}

/// Flags of every container: container, flag, value.
fn flags(objects: &[Object]) -> Vec<(String, String, String)> {
    let mut flags = Vec::new();
    for object in objects {
        let pod = &object.value["spec"]["template"]["spec"];
        for list in ["initContainers", "containers"] {
            for container in pod[list].as_array().into_iter().flatten() {
                let args = container["args"].as_array().into_iter().flatten();
                // What a program of ours is to be in this container is no flag.
                for arg in args.filter(|arg| *arg != "controller" && *arg != "gate") {
                    let text = arg.as_str().and_then(|arg| arg.strip_prefix("--"));
                    let (name, value) = text
                        .and_then(|text| text.split_once('='))
                        .expect("--name=value");
                    let container = container["name"].as_str().unwrap_or_default();
                    flags.push((container.to_owned(), name.to_owned(), value.to_owned()));
                }
            }
        }
    }
    flags
}

proptest! {
    // Each case builds forty objects several times over.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn same_input_gives_same_objects_each_once(v in validated(), a in any_addresses()) {
        let settings = Settings::default();
        let mut all = objects(&v, &a);
        prop_assert_eq!(&all, &objects(&v, &a));
        all.extend(tenant_objects::wanted(&v, &settings, &a, TRUST));
        let keys: BTreeSet<_> = all.iter().map(Object::key).collect();
        prop_assert_eq!(keys.len(), all.len());
        prop_assert!(all.iter().all(|object| !object.name.is_empty()));
    }

    #[test]
    fn hash_changes_exactly_when_the_content_does(
        one in validated(), other in validated(), a in any_addresses(),
    ) {
        let mut other = other;
        // Half of it the same, so that both outcomes happen.
        other.name.clone_from(&one.name);
        other.namespace.clone_from(&one.namespace);
        other.uid.clone_from(&one.uid);
        other.identity.clone_from(&one.identity);
        other.tenant_namespace.clone_from(&one.tenant_namespace);
        let (one, other) = (objects(&one, &a), objects(&other, &a));
        let other: BTreeMap<_, _> = other.iter().map(|object| (object.key(), object)).collect();
        for object in &one {
            if let Some(twin) = other.get(&object.key()) {
                prop_assert_eq!(content(object) == content(twin), object.hash() == twin.hash());
            }
        }
    }

    #[test]
    fn nothing_is_outside_the_tenant_namespace_but_the_users_binding(
        v in validated(), a in any_addresses(),
    ) {
        for object in objects(&v, &a) {
            let place = object.namespace.as_deref();
            if object.kind == "Namespace" {
                prop_assert_eq!((place, &object.name), (None, &v.tenant_namespace));
            } else if place == Some(v.namespace.as_str()) {
                prop_assert_eq!(object.kind.as_str(), "RoleBinding");
            } else {
                prop_assert_eq!(place, Some(v.tenant_namespace.as_str()));
            }
        }
    }

    #[test]
    fn labels_are_there_and_valid_and_selectors_find_the_pods(
        v in validated(), a in any_addresses(),
    ) {
        let all = objects(&v, &a);
        for object in &all {
            let labels = object.value["metadata"]["labels"].as_object().unwrap();
            prop_assert_eq!(&labels[api::names::LABEL_MANAGED_BY], api::names::MANAGED_BY);
            if object.namespace.as_deref() != Some(&v.namespace) {
                prop_assert_eq!(&labels[api::names::LABEL_TENANT_UID], &v.identity.uid);
            }
            for value in labels.values() {
                let text = value.as_str().unwrap();
                prop_assert!(text.len() <= 63);
                prop_assert!(text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)));
            }
        }
        let workloads =
            [("Deployment", "control-plane"), ("Deployment", "controllers"), ("StatefulSet", "etcd")];
        for (kind, name) in workloads {
            let spec = &find(&all, kind, name)["spec"];
            let pod = spec["template"]["metadata"]["labels"].as_object().unwrap();
            // Nobody has anything to ask the controllers.
            let service = match name {
                "controllers" => None,
                "etcd" => Some("etcd-peers"),
                _ => Some(name),
            };
            let service = service.map(|name| &find(&all, "Service", name)["spec"]["selector"]);
            let selectors = [
                service.unwrap_or(&spec["selector"]["matchLabels"]),
                &spec["selector"]["matchLabels"],
                &find(&all, "PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"],
                &find(&all, "NetworkPolicy", name)["spec"]["podSelector"]["matchLabels"],
            ];
            for selector in selectors {
                for (key, value) in selector.as_object().unwrap() {
                    prop_assert_eq!(pod.get(key), Some(value));
                }
            }
        }
    }

    /// With one replica, a budget that wants one to stay would hold up the drain of its node for ever.
    #[test]
    fn no_budget_keeps_a_node_of_the_management_cluster_from_being_drained(
        v in validated(), a in any_addresses(),
    ) {
        let all = objects(&v, &a);
        let budgets: Vec<_> =
            all.iter().filter(|object| object.kind == "PodDisruptionBudget").collect();
        prop_assert_eq!(budgets.len(), if v.addons.cloud_controller.enabled { 4 } else { 3 });
        for budget in budgets {
            let spec = &budget.value["spec"];
            prop_assert_eq!(&spec["maxUnavailable"], 1, "{}", &budget.name);
            prop_assert!(spec["minAvailable"].is_null(), "{}", &budget.name);
            prop_assert_eq!(&spec["unhealthyPodEvictionPolicy"], "AlwaysAllow");
        }
    }

    #[test]
    fn no_flag_stands_twice_and_none_that_is_managed_comes_from_the_user(
        v in validated(), a in any_addresses(),
    ) {
        let mut seen = BTreeSet::new();
        let components = [
            ("apiserver", Program::ApiServer, &v.api_server),
            ("controller-manager", Program::ControllerManager, &v.controller_manager),
            ("scheduler", Program::Scheduler, &v.scheduler),
        ];
        let all = flags(&objects(&v, &a));
        for (container, name, _) in &all {
            prop_assert!(seen.insert((container, name)), "{container} --{name} stands twice");
        }
        for (container, program, component) in components {
            let managed = managed_flags(program);
            for (name, value) in &component.extra_args {
                let found = all.iter().find(|(c, n, _)| c == container && n == name);
                if managed.contains(name.as_str()) {
                    prop_assert!(found.is_none_or(|(_, _, v)| v != value || name == "profiling"));
                } else {
                    prop_assert_eq!(found.map(|(_, _, v)| v), Some(value));
                }
            }
        }
    }

    #[test]
    fn nobody_is_in_system_masters(v in validated(), a in any_addresses()) {
        let settings = Settings::default();
        let mut all = objects(&v, &a);
        all.extend(tenant_objects::wanted(&v, &settings, &a, TRUST));
        prop_assert!(all.iter().all(|object| !object.value.to_string().contains("system:masters")));
        for want in certificates::wants(&v, &settings, Some(&a)) {
            prop_assert!(want.organizations.iter().all(|group| group != "system:masters"));
        }
    }

    #[test]
    fn bootstrap_objects_never_name_the_management_cluster(v in validated(), a in any_addresses()) {
        for object in tenant_objects::wanted(&v, &Settings::default(), &a, TRUST) {
            let place = object.namespace.as_deref();
            let places = ["default", "konnectivity", "kube-flannel", "kube-node-lease", "kube-public", "kube-system"];
            prop_assert!(place.is_none_or(|place| places.contains(&place)));
            prop_assert!(!object.value.to_string().contains(&v.tenant_namespace));
        }
    }

    #[test]
    fn scaling_and_growing_leave_the_immutable_and_the_running_alone(
        v in validated(), a in any_addresses(), replicas in 1..10i32,
    ) {
        let mut scaled = v.clone();
        scaled.replicas = replicas;
        scaled.etcd.storage_size = "5000Gi".to_owned();
        let (before, after) = (objects(&v, &a), objects(&scaled, &a));
        let template = |all: &[Object]| {
            ["control-plane", "controllers"]
                .map(|name| find(all, "Deployment", name)["spec"]["template"].clone())
        };
        prop_assert_eq!(template(&before), template(&after));
        // Its size is kept by who applies it.
        let claims = |all: &[Object]| {
            let mut claims = find(all, "StatefulSet", "etcd")["spec"]["volumeClaimTemplates"].clone();
            claims[0]["spec"]["resources"].take();
            claims
        };
        prop_assert_eq!(claims(&before), claims(&after));
        prop_assert_eq!(
            &find(&after, "PersistentVolumeClaim", "data-etcd-0")["spec"]["resources"]["requests"]["storage"],
            "5000Gi"
        );
    }
}

#[test]
fn only_suggested_flags_give_way_to_the_user() {
    let mut v = minimal();
    v.api_server.extra_args = [
        ("request-timeout", "5m"),
        ("secure-port", "1"),
        ("event-ttl", "2h"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let all = flags(&objects(&v, &addresses("x")));
    let value = |name: &str| {
        let found = all
            .iter()
            .find(|(container, flag, _)| container == "apiserver" && flag == name);
        found.map(|(_, _, value)| value.as_str())
    };
    assert_eq!(value("request-timeout"), Some("5m"));
    assert_eq!(value("event-ttl"), Some("2h"));
    assert_eq!(value("secure-port"), Some("6443"));
}

#[test]
fn times_of_leases_are_all_ours_or_all_the_users() {
    let times = |v: &_| {
        let all = flags(&objects(v, &addresses("x"))).into_iter();
        let of_leases = all.filter(|(_, flag, _)| flag.starts_with("leader-elect-"));
        of_leases
            .map(|(container, _, value)| (container, value))
            .collect::<Vec<_>>()
    };
    let mut v = minimal();
    assert_eq!(times(&v).len(), 6);
    let duration = ("leader-elect-lease-duration".to_owned(), "60s".to_owned());
    v.scheduler.extra_args.extend([duration]);
    let left = times(&v);
    let of_scheduler = ("scheduler".to_owned(), "60s".to_owned());
    assert_eq!(left.len(), 4, "{left:?}");
    assert!(left.contains(&of_scheduler), "{left:?}");
}

#[test]
fn every_flag_that_covey_sets_is_managed_or_a_suggestion() {
    let suggestions = [
        "audit-log-maxage",
        "audit-log-maxbackup",
        "audit-log-maxsize",
        "goaway-chance",
        "leader-elect-lease-duration",
        "leader-elect-renew-deadline",
        "leader-elect-retry-period",
        "node-cidr-mask-size",
        "request-timeout",
        "terminated-pod-gc-threshold",
    ];
    let mut free = BTreeSet::new();
    for (container, name, _) in flags(&objects(&minimal(), &addresses("x"))) {
        let program = match container.as_str() {
            "apiserver" => Program::ApiServer,
            "controller-manager" => Program::ControllerManager,
            "scheduler" => Program::Scheduler,
            _ => continue,
        };
        if !managed_flags(program).contains(name.as_str()) {
            free.insert(name);
        }
    }
    assert_eq!(
        free.iter().map(String::as_str).collect::<Vec<_>>(),
        suggestions
    );
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(|text| Some(text.as_str()?.to_owned()))
        .collect()
}

#[test]
fn operator_may_write_exactly_what_gives_nobody_rights() {
    let mut v = minimal();
    v.storage = Some(offer());
    v.autoscaler = Some(limits());
    v.addons.overlay = with_overlay();
    v.endpoint.type_ = EndpointType::LoadBalancer;
    v.endpoint.konnectivity_port = Some(8132);
    let settings = Settings {
        storage: offer(),
        ..Settings::default()
    };
    let mut objects = tenant_objects::wanted(&v, &settings, &addresses("x"), TRUST);
    objects.extend(registry::members(&v, &BTreeMap::new()));
    let role = find(&objects, "ClusterRole", "covey:operator");
    let mut granted = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let verbs = texts(&rule["verbs"]);
        if !rule["nonResourceURLs"].is_null() {
            assert_eq!(texts(&rule["nonResourceURLs"]), ["/metrics"]);
            assert_eq!(verbs, ["get"]);
            continue;
        }
        let resource = &texts(&rule["resources"])[0];
        assert!(
            !verbs
                .iter()
                .any(|verb| ["*", "escalate", "bind", "impersonate"].contains(&verb.as_str()))
        );
        assert_ne!(resource, "secrets", "in all namespaces");
        let writes = verbs.iter().any(|verb| verb == "patch" || verb == "create");
        let machines = [
            "certificatesigningrequests/approval",
            "nodes",
            "pods/eviction",
        ];
        if writes && !machines.contains(&resource.as_str()) {
            let names = texts(&rule["resourceNames"]);
            assert!(!names.is_empty(), "any of the {resource}");
            granted.extend(names.into_iter().map(|name| (resource.clone(), name)));
        }
    }
    let (privileged, ordinary): (Vec<_>, Vec<_>) =
        objects.iter().partition(|object| is_privileged(object));
    let resource = |object: &Object| {
        let kind = object.kind.to_lowercase();
        if kind.ends_with("class") {
            format!("{kind}es")
        } else if kind.ends_with('s') {
            kind
        } else {
            format!("{kind}s")
        }
    };
    let needed: BTreeSet<_> = ordinary
        .iter()
        .map(|object| (resource(object), object.name.clone()))
        .collect();
    assert_eq!(granted, needed);
    let groups = [
        "admissionregistration.k8s.io/v1",
        "rbac.authorization.k8s.io/v1",
    ];
    assert!(privileged.iter().all(|object| {
        groups.contains(&object.api_version.as_str()) || object.kind == "Namespace"
    }));
    // They come first, so that the rest can be written by the operator's own identity.
    assert!(objects[..privileged.len()].iter().all(is_privileged));
}

#[test]
fn operators_rights_do_not_depend_on_what_is_switched_on() {
    let mut v = minimal();
    let rules = |v: &Validated, a: &Addresses| {
        let objects = tenant_objects::wanted(v, &Settings::default(), a, TRUST);
        find(&objects, "ClusterRole", "covey:operator")["rules"].clone()
    };
    let all = rules(&v, &addresses("x"));
    v.addons = serde_json::from_value(json!({
        "coreDNS": { "enabled": false },
        "kubeProxy": { "enabled": false },
        "cni": { "type": "none" },
        "konnectivity": { "enabled": false },
    }))
    .expect("addons");
    let mut nowhere = addresses("x");
    nowhere.endpoint = None;
    assert_eq!(all, rules(&v, &nowhere));
}

#[test]
fn every_kind_that_is_laid_can_be_listed_and_found_by_its_label() {
    let objects = tenant_objects::wanted(&minimal(), &Settings::default(), &addresses("x"), TRUST);
    let role = find(&objects, "ClusterRole", "covey:operator");
    for object in &objects {
        let kind = (object.api_version.as_str(), object.kind.as_str());
        assert!(KINDS.contains(&kind), "{kind:?}");
        let labels = &object.value["metadata"]["labels"];
        assert_eq!(
            labels[api::names::LABEL_MANAGED_BY],
            api::names::MANAGED_BY,
            "{}",
            object.key()
        );
    }
    for (_, kind) in KINDS {
        let plural = kind.to_lowercase();
        let plural = if let Some(stem) = plural.strip_suffix("policy") {
            format!("{stem}policies")
        } else if plural.ends_with("class") {
            format!("{plural}es")
        } else if plural.ends_with('s') {
            plural
        } else {
            format!("{plural}s")
        };
        let may = |verb: &str| {
            role["rules"].as_array().unwrap().iter().any(|rule| {
                texts(&rule["resources"]).contains(&plural)
                    && texts(&rule["verbs"]).contains(&verb.to_owned())
                    && rule["resourceNames"].is_null()
            })
        };
        assert!(may("list"), "{kind}");
        assert_eq!(may("watch"), WATCHED.contains(&kind), "{kind}");
    }
}

#[test]
fn without_an_endpoint_nothing_that_names_it_is_wanted() {
    let mut a = addresses("somewhere.example.com");
    let settings = Settings::default();
    let with = tenant_objects::wanted(&minimal(), &settings, &a, TRUST);
    a.endpoint = None;
    let without = tenant_objects::wanted(&minimal(), &settings, &a, TRUST);
    assert!(
        without
            .iter()
            .all(|object| !object.value.to_string().contains("somewhere"))
    );
    let left: BTreeSet<_> = without.iter().map(Object::key).collect();
    for object in with.iter().filter(|object| !left.contains(&object.key())) {
        let addon = &object.value["metadata"]["labels"][api::names::LABEL_ADDON];
        let named = ["cluster-info", "kubeadm-config"].contains(&object.name.as_str());
        assert!(named || addon.is_string(), "{}", object.key());
    }
}
