//! Something of a running tenant cluster cannot be looked at: its namespace lets nobody in, or does not say
//! whose it is.
//!
//! Invariant: what is not known is neither absent nor zero: nothing is made anew, given up or told by it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::losses::balanced;
use super::*;

fn binding() -> Key {
    Key::new("RoleBinding", NS, api::names::OPERATOR_BINDING)
}

/// The operator is not let into the tenant namespace, and cannot let itself in.
fn hide(world: &mut World) {
    world.objects.remove(&binding());
    world.refused.push(binding());
}

#[test]
fn what_cannot_be_read_is_not_absent() {
    let whole = ready(minimal());
    let mut world = whole.clone();
    hide(&mut world);
    let before = world.objects.clone();
    world.settle();
    assert_eq!(world.objects, before);
    let status = |world: &World| world.cluster.status.clone().unwrap();
    assert_eq!(status(&world).certificates, status(&whole).certificates);
    assert_eq!(status(&world).endpoint, status(&whole).endpoint);
    world.refused.clear();
    world.settle();
    assert_eq!(world.objects, whole.objects);
}

#[test]
fn halted_one_whose_namespace_cannot_be_read_keeps_what_its_status_said_of_certificates() {
    let whole = ready(minimal());
    let certificates = |world: &World| world.cluster.status.clone().unwrap().certificates;
    let namespace = Key::new("Namespace", "", NS);
    let mut unreadable = whole.clone();
    unreadable.cluster.spec.paused = true;
    unreadable.objects.remove(&binding());
    let mut taken = whole.clone();
    let labels = &mut taken.objects.get_mut(&namespace).unwrap()["metadata"]["labels"];
    labels[api::names::LABEL_TENANT_UID] = json!("another");
    taken.objects.remove(&Key::new("Secret", NS, "apiserver"));
    for mut world in [unreadable, taken] {
        world.settle();
        assert_eq!(certificates(&world), certificates(&whole));
    }
}

#[test]
fn what_cannot_be_looked_at_is_told_neither_as_absent_nor_as_zero() {
    let whole = balanced();
    let told = |world: &World| {
        let conditions = world.cluster.status.clone().unwrap().conditions;
        let mut told: Vec<_> = conditions.into_iter().collect();
        told.retain(|c| !["Degraded", "Progressing", "Ready"].contains(&c.type_.as_str()));
        told
    };
    assert!(
        told(&whole)
            .iter()
            .any(|c| c.type_ == "EtcdReady" && c.status == "True")
    );
    let mut world = whole.clone();
    hide(&mut world);
    world.settle();
    let now = told(&world);
    for before in told(&whole) {
        assert!(now.contains(&before), "{before:?}: {now:?}");
    }
    let kept = |world: &World| {
        let status = world.cluster.status.clone().unwrap();
        (
            status.etcd,
            status.rollout,
            status.version,
            status.addresses,
            status.endpoint,
        )
    };
    assert_eq!(kept(&world), kept(&whole));
}

#[test]
fn deletion_is_not_over_while_it_is_not_known_whose_the_namespace_is() {
    let whole = ready(minimal());
    let namespace = Key::new("Namespace", "", NS);
    let gone = |label: Value| {
        let mut world = whole.clone();
        let labels = &mut world.objects.get_mut(&namespace).unwrap()["metadata"]["labels"];
        labels[api::names::LABEL_TENANT_UID] = label;
        world.cluster.metadata.deletion_timestamp = Some(Time(now()));
        for _ in 0..3 {
            let _ = world.reconcile(&mut 1_000);
        }
        world
    };
    // Somebody took the label off ours: nobody may delete it then, and what is in it runs on.
    let unlabelled = gone(Value::Null);
    assert!(unlabelled.objects.contains_key(&namespace));
    assert!(unlabelled.cluster.metadata.finalizers.is_some());
    assert_eq!(
        unlabelled.condition("Progressing"),
        ("True".into(), "Deleting".into())
    );
    let conditions = unlabelled.cluster.status.unwrap().conditions;
    let said = conditions.iter().find(|c| c.type_ == "Progressing");
    let message = &said.unwrap().message;
    assert!(
        message.contains(api::names::LABEL_TENANT_UID) && message.contains(NS),
        "{message}"
    );
    // What is somebody else's for certain holds nothing up.
    let others = gone(json!("another"));
    assert!(others.objects.contains_key(&namespace));
    assert_eq!(others.cluster.metadata.finalizers, None);
}

#[test]
fn api_that_cannot_be_asked_is_not_said_to_lack_what_cannot_be_seen() {
    let whole = ready(minimal());
    for paused in [false, true] {
        let mut world = whole.clone();
        world.cluster.spec.paused = paused;
        hide(&mut world);
        world.settle();
        let conditions = world.cluster.status.clone().unwrap().conditions;
        let ready = conditions.iter().find(|c| c.type_ == "Ready").unwrap();
        assert_eq!(ready.reason, "ApiUnreachable");
        assert!(
            !ready.message.contains("missing") && ready.message.contains("not let into"),
            "{}",
            ready.message
        );
    }
}

#[test]
fn what_cannot_be_looked_at_neither_asks_for_a_place_nor_gives_one_back() {
    let mut world = World::new(minimal());
    assert!(
        world.observe().started().is_absent(),
        "nothing is there yet"
    );
    world.tenant_up = false;
    world.settle();
    let needs_no_place = |world: &World| {
        let observed = world.observe();
        let plan = plan(&observed, &world.settings, world.now);
        super::super::needs_no_place(&observed, &plan)
    };
    assert!(!needs_no_place(&world), "it starts");
    let mut hidden = world.clone();
    hide(&mut hidden);
    hidden.settle();
    assert!(hidden.observe().started().is_unknown());
    assert!(hidden.observe().was_running(), "no key is made anew");
    assert!(!needs_no_place(&hidden), "it may start");
    world.tenant_up = true;
    world.settle();
    assert!(needs_no_place(&world), "it runs");
    // A rollout may be under way.
    hide(&mut world);
    world.settle();
    assert!(!needs_no_place(&world));
    world.cluster.metadata.deletion_timestamp = Some(Time(now()));
    assert!(needs_no_place(&world), "whatever was under way ends");
}
