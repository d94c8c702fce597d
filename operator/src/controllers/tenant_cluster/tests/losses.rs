//! Something that a running tenant cluster depends on is lost: an address, a volume, the namespace, a
//! valid spec.
//!
//! Invariant: no plan deletes what the spec wants, nothing is made a second time over what was lost, and
//! somebody is told.

use super::*;

fn with_load_balancer() -> Value {
    json!({
        "version": "1.35.4",
        "controlPlane": { "endpoint": { "type": "LoadBalancer" } },
        "addons": { "cloudController": { "enabled": true } },
    })
}

fn control_plane_service() -> Key {
    Key::new("Service", NS, "control-plane")
}

/// A running one with the address that its load balancer gave it.
pub(super) fn balanced() -> World {
    let mut world = World::new(with_load_balancer());
    world.settle();
    assert_eq!(
        world.condition("Ready"),
        ("False".into(), "WaitingForAddress".into())
    );
    world.give_address();
    world.settle();
    assert_eq!(world.condition("Ready").0, "True");
    world
}

#[test]
fn load_balancer_that_lost_its_address_takes_nothing_from_the_tenant_cluster() {
    let whole = balanced();
    let mut world = whole.clone();
    world.objects.get_mut(&control_plane_service()).unwrap()["status"] = json!({});
    world.list_due = true;
    world.settle();
    let keys = |world: &World| world.inside.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&world), keys(&whole));
    assert_eq!(world.secret("apiserver"), whole.secret("apiserver"));
    let endpoint = |world: &World| world.cluster.status.clone().unwrap().endpoint;
    assert_eq!(endpoint(&world), endpoint(&whole), "the last address stays");
    assert_eq!(world.condition("EndpointReady").0, "False");
    world.give_address();
    let before = world.writes;
    world.settle();
    assert_eq!(world.condition("EndpointReady").0, "True");
    assert_eq!(world.writes, before + 1, "only the status");
}

#[test]
fn service_that_is_lost_comes_back_with_its_address() {
    for spec in [minimal(), large(), with_load_balancer()] {
        let mut whole = World::new(spec);
        whole.settle();
        whole.give_address();
        whole.settle();
        let addresses = |world: &World| {
            let services = world
                .objects
                .iter()
                .filter(|(key, _)| key.kind == "Service");
            let named = |name: &str| ["control-plane", "konnectivity"].contains(&name);
            services
                .filter(|(key, _)| named(&key.name))
                .map(|(_, live)| live["spec"]["clusterIP"].clone())
                .collect::<Vec<_>>()
        };
        let mut world = whole.clone();
        world.free_address = "10.96.0.99";
        for name in ["control-plane", "konnectivity"] {
            world.objects.remove(&Key::new("Service", NS, name));
        }
        world.settle();
        assert_eq!(addresses(&world), addresses(&whole));
        assert_eq!(world.secret("apiserver"), whole.secret("apiserver"));
        let kubeconfig = Key::new("Secret", "team-a", "demo-kubeconfig");
        assert_eq!(world.objects[&kubeconfig], whole.objects[&kubeconfig]);
    }
}

#[test]
fn certificates_are_renewed_and_the_api_is_asked_whatever_is_wrong_with_the_spec() {
    type Harm = fn(&mut World);
    let harms: [(&str, Harm); 4] = [
        ("refused", |world| {
            world.cluster.spec.version = "1.21.0".to_owned();
        }),
        ("paused", |world| world.cluster.spec.paused = true),
        ("one object is refused", |world| {
            let key = Key::new("PodDisruptionBudget", NS, "etcd");
            world.objects.remove(&key);
            world.refused.push(key);
        }),
        ("the user's namespace is closed", |world| {
            let key = Key::new("RoleBinding", "team-a", api::names::OPERATOR_BINDING);
            world.objects.remove(&key);
            world.refused.push(key);
        }),
    ];
    let whole = ready(minimal());
    let ends = |world: &World| {
        let certificates = world.cluster.status.clone().unwrap().certificates;
        let leafs = certificates.into_iter().filter(|c| {
            // The administrator's is in the kubeconfig, where nobody may look now.
            c.name != "admin" && !c.name.ends_with("-ca") && c.name != "ca"
        });
        leafs.map(|c| (c.name, c.not_after)).collect::<Vec<_>>()
    };
    let hours = Settings::default().certificates.leaf_hours;
    let late = jiff::SignedDuration::from_hours(i64::from(hours) * 3 / 4);
    for (name, harm) in harms {
        let mut world = whole.clone();
        harm(&mut world);
        world.settle();
        assert_eq!(ends(&world), ends(&whole), "{name}: nothing is due");
        assert_eq!(world.condition("Ready").0, "True", "{name}");
        world.now = now().checked_add(late).unwrap();
        world.settle();
        for (before, after) in ends(&whole).into_iter().zip(ends(&world)) {
            assert!(
                before.0 == after.0 && before.1 < after.1,
                "{name}: {before:?}, {after:?}"
            );
        }
        let renewed = world.observe().material;
        let names = |material: &certificates::Material| {
            let issued = |name: &String| pki::as_issued(name, &material.store);
            let wants = material.store.keys().filter_map(issued);
            wants
                .filter(|want| want.name != "admin")
                .collect::<Vec<_>>()
        };
        let before = whole.observe().material;
        assert_eq!(
            names(&renewed),
            names(&before),
            "{name}: they are as they were"
        );
        world.tenant_up = false;
        world.settle();
        assert_eq!(
            world.condition("Ready"),
            ("False".into(), "ApiUnreachable".into()),
            "{name}"
        );
        let before = world.writes;
        world.settle();
        assert_eq!(world.writes, before, "{name}: nothing at rest");
    }
}

#[test]
fn namespace_that_is_lost_is_told_and_no_empty_tenant_cluster_takes_its_place() {
    let whole = ready(minimal());
    let lost = |world: &mut World| {
        world
            .objects
            .retain(|key, _| key.namespace != NS && key.name != NS);
        world.tenant_up = false;
    };
    let mut unseen = whole.clone();
    lost(&mut unseen);
    let mut seen = whole;
    let namespace = Key::new("Namespace", "", NS);
    seen.objects.get_mut(&namespace).unwrap()["metadata"]["deletionTimestamp"] =
        json!("2026-11-21T12:00:00Z");
    seen.settle();
    assert_eq!(
        seen.condition("Degraded"),
        ("True".into(), "NamespaceDeleted".into())
    );
    lost(&mut seen);
    for mut world in [unseen, seen] {
        world.settle();
        assert_eq!(world.condition("Ready").0, "False");
        assert_eq!(
            world.condition("Degraded"),
            ("True".into(), "DataLost".into())
        );
        let made = world
            .objects
            .keys()
            .filter(|key| key.namespace == NS || key.name == NS);
        assert_eq!(made.collect::<Vec<_>>(), Vec::<&Key>::new());
    }
    // Before anything ran there is nothing to lose.
    let mut early = World::new(minimal());
    early.start = Answer::Wait;
    early.settle();
    early
        .objects
        .retain(|key, _| key.namespace != NS && key.name != NS);
    early.start = Answer::Go;
    early.settle();
    assert_eq!(early.condition("Ready").0, "True");
}

#[test]
fn endpoint_that_the_operator_does_not_reach_is_unknown_and_ready_says_so() {
    let mut world = balanced();
    assert_eq!(
        world.condition("EndpointReachable"),
        ("True".into(), "Answering".into())
    );
    world.way = Way::Service {
        message: "connection refused".to_owned(),
    };
    world.settle();
    assert_eq!(
        world.condition("EndpointReachable"),
        ("Unknown".into(), "NotReachedByOperator".into())
    );
    let conditions = world.cluster.status.clone().unwrap().conditions;
    let ready = conditions.iter().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!(ready.status, "True");
    assert!(
        ready.message.contains("at its Service"),
        "{}",
        ready.message
    );
    let next = plan(&world.observe(), &world.settings, world.now);
    let asked = next.actions().find_map(|action| match action {
        Action::Probe {
            published,
            prove_write,
            ..
        } => Some((published.clone(), *prove_write)),
        _ => None,
    });
    let (published, prove_write) = asked.unwrap();
    assert_eq!(published.unwrap().host, "203.0.113.7");
    assert!(!prove_write, "nothing is written at rest");
    world.tenant_up = false;
    world.settle();
    let mut observed = world.observe();
    observed.etcd = Etcd::Asked(BTreeMap::new());
    let next = plan(&observed, &world.settings, world.now);
    let proves = next.actions().any(|action| {
        matches!(
            action,
            Action::Probe {
                prove_write: true,
                ..
            }
        )
    });
    assert!(proves, "one that was silent shows that it takes a write");
}

#[test]
fn pod_that_does_not_run_is_told_with_its_reason() {
    type Status = fn() -> Value;
    let gate: Status = || {
        json!({ "initContainerStatuses": [{ "name": "gate", "state": { "terminated": {
            "exitCode": 14, "message": "Damaged: the log cannot be read" } } }] })
    };
    let image: Status = || {
        json!({ "containerStatuses": [{ "name": "apiserver", "image": "x:v9", "state": { "waiting": {
            "reason": "ImagePullBackOff", "message": "not found" } } }] })
    };
    let cases = [
        ("etcd", "StatefulSet", gate, "EtcdReady", "Damaged"),
        (
            "control-plane",
            "Deployment",
            image,
            "ControlPlaneReady",
            "ImagePullFailed",
        ),
        (
            "controllers",
            "Deployment",
            image,
            "ControllersReady",
            "ImagePullFailed",
        ),
    ];
    for (component, kind, status, condition, reason) in cases {
        let whole = ready(minimal());
        let mut world = whole.clone();
        let workload = Key::new(kind, NS, component);
        world.objects.get_mut(&workload).unwrap()["status"]["readyReplicas"] = json!(0);
        let pod = json!({
            "metadata": { "name": "a-pod", "labels": { api::names::LABEL_COMPONENT: component } },
            "status": status(),
        });
        world.objects.insert(Key::new("Pod", NS, "a-pod"), pod);
        world.tenant_up = false;
        let next = plan(&world.observe(), &world.settings, world.now);
        assert!(next.actions().count() > 0, "the API is asked all the same");
        world.settle();
        assert_eq!(world.condition(condition), ("False".into(), reason.into()));
        assert_eq!(world.condition("Degraded"), ("True".into(), reason.into()));
        let observed = world.observe();
        let events = plan(&observed, &world.settings, world.now).events;
        assert!(events.iter().any(|event| event.reason == reason));
        world.objects.retain(|key, _| key.kind != "Pod");
        world.objects.insert(
            workload.clone(),
            whole.objects.get(&workload).unwrap().clone(),
        );
        world.tenant_up = true;
        world.settle();
        assert_eq!(world.condition("Degraded").0, "False");
        assert_eq!(world.condition("Ready").0, "True");
    }
}

#[test]
fn namespace_of_somebody_else_is_neither_written_to_nor_believed() {
    let whole = ready(minimal());
    let namespace = Key::new("Namespace", "", NS);
    for label in [json!("another"), Value::Null] {
        let mut world = World::new(minimal());
        world.objects.clone_from(&whole.objects);
        let labels = &mut world.objects.get_mut(&namespace).unwrap()["metadata"]["labels"];
        labels[api::names::LABEL_TENANT_UID] = label;
        let before = world.objects.clone();
        world.settle();
        assert_eq!(world.objects, before);
        assert_eq!(
            world.condition("Ready"),
            ("False".into(), "NamespaceTaken".into())
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is lost, in any combination: no plan deletes what the spec wants (`World::is_lawful`), no
    /// authority is made anew, and with what was lost back everything is as it was.
    #[test]
    fn no_loss_deletes_what_the_spec_wants(
        objects in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        address in any::<bool>(),
        api in any::<bool>(),
        spec in 0..3_u8,
        unreadable in any::<bool>(),
        late in any::<bool>(),
    ) {
        static WHOLE: std::sync::OnceLock<World> = std::sync::OnceLock::new();
        let whole = WHOLE.get_or_init(balanced);
        let mut world = whole.clone();
        world.wanted = whole.inside.keys().chain(whole.objects.keys()).cloned().collect();
        world.list_due = true;
        let keys: Vec<_> = world.objects.keys().cloned().collect();
        for index in objects {
            world.objects.remove(index.get(&keys));
        }
        if address && let Some(service) = world.objects.get_mut(&control_plane_service()) {
            service["status"] = json!({});
        }
        let binding = Key::new("RoleBinding", NS, api::names::OPERATOR_BINDING);
        if unreadable {
            world.objects.remove(&binding);
            world.refused.push(binding);
        }
        match spec {
            0 => world.cluster.spec.version = "1.21.0".to_owned(),
            1 => world.cluster.spec.paused = true,
            _ => {}
        }
        world.tenant_up = api;
        if late {
            world.now = now().checked_add(jiff::SignedDuration::from_hours(24 * 300)).unwrap();
        }
        world.settle();
        for name in tenant_cp::names::AUTHORITIES {
            if let Some(secret) = world.secret(name) {
                prop_assert_eq!(Some(secret), whole.secret(name));
            }
        }
        if !api {
            prop_assert_eq!(world.condition("Ready").0, "False");
        }
        // What is unknown is not absent.
        if unreadable && world.objects.contains_key(&Key::new("Namespace", "", NS)) {
            for type_ in [
                "EtcdReady", "ControlPlaneReady", "ControllersReady", "EndpointReady", "CertificatesReady",
            ] {
                prop_assert_eq!(world.condition(type_), whole.condition(type_), "{}", type_);
            }
        }
        // Everything comes back; what was issued meanwhile may be newer.
        for (key, live) in &whole.objects {
            if key.kind != "Secret" || !world.objects.contains_key(key) {
                world.objects.insert(key.clone(), live.clone());
            }
        }
        world.cluster.spec = whole.cluster.spec.clone();
        world.refused.clear();
        world.tenant_up = true;
        world.settle();
        prop_assert_eq!(world.condition("Ready").0, "True");
        prop_assert_eq!(world.condition("Degraded").0, "False");
        let inside: Vec<_> = world.inside.keys().collect();
        prop_assert_eq!(inside, whole.inside.keys().collect::<Vec<_>>());
    }
}
