//! etcd's identity, volumes and alarms.
//!
//! Invariant: nothing is bootstrapped over what was lost, and what a member said once it is.

use super::*;
use crate::tenant_session::etcd::Alarm;

/// What the Secret of etcd's members says under this key.
fn of_etcd(world: &World, key: &str) -> String {
    let secret = world.secret("etcd").unwrap();
    let text = secret["data"][key].as_str().unwrap();
    let text = base64::engine::general_purpose::STANDARD.decode(text);
    String::from_utf8(text.unwrap()).unwrap()
}

#[test]
fn member_may_start_empty_until_it_was_seen_with_a_leader() {
    let members = |world: &World| {
        let file: Value = serde_json::from_str(&of_etcd(world, "identity.json")).unwrap();
        let members = file["members"].as_array().unwrap().clone();
        members.into_iter().map(|member| {
            let claim = member["claimUID"].as_str().unwrap().to_owned();
            (claim, member["mayStartEmpty"] == true)
        })
    };
    let is_empty = |world: &World| members(world).map(|(_, empty)| empty).collect::<Vec<_>>();
    let mut world = World::new(large());
    world.start = Answer::Wait;
    world.settle();
    for (number, (claim, may_start_empty)) in members(&world).enumerate() {
        assert_eq!(claim, format!("uid-of-data-etcd-{number}"));
        assert!(may_start_empty);
    }
    // Two of three have made the cluster; the third comes later, and joins.
    world.start = Answer::Go;
    world.settle();
    let mut late = world.clone();
    late.cluster.status.as_mut().unwrap().etcd = None;
    let set = Key::new("StatefulSet", NS, "etcd");
    late.objects.get_mut(&set).unwrap()["status"]["readyReplicas"] = json!(2);
    for (number, ready) in ["True", "False", "True"].into_iter().enumerate() {
        let pod = late
            .pods
            .get_mut(&Key::new("Pod", NS, &format!("etcd-{number}")));
        pod.unwrap()["status"]["conditions"] = json!([{ "type": "Ready", "status": ready }]);
    }
    late.settle();
    assert_eq!(of_etcd(&late, "initial-cluster-state"), "existing");
    assert_eq!(is_empty(&late), [false, true, false]);
    late.objects.get_mut(&set).unwrap()["status"]["readyReplicas"] = json!(3);
    late.pods.clear();
    late.play_controllers();
    late.settle();
    assert_eq!(is_empty(&late), [false; 3]);
    // It ran, and that is never forgotten.
    late.objects.get_mut(&set).unwrap()["status"]["readyReplicas"] = json!(0);
    late.settle();
    assert_eq!(is_empty(&late), [false; 3]);
}

#[test]
fn etcd_says_once_what_it_is_and_another_cluster_is_not_taken_for_it() {
    let etcd = |world: &World| world.cluster.status.clone().unwrap().etcd.unwrap();
    let mut world = ready(large());
    let known = etcd(&world);
    assert_eq!(known.cluster_id.as_deref(), Some("cdf818194e3a8c32"));
    assert!(known.members.iter().all(|member| member.id.is_some()));
    let file: Value = serde_json::from_str(&of_etcd(&world, "identity.json")).unwrap();
    assert_eq!(file["clusterID"], "cdf818194e3a8c32");
    assert_eq!(file["members"][2]["memberID"], json!(known.members[2].id));
    let mut observed = world.observe();
    let mut other = Etcd::Asked(BTreeMap::from([("etcd-1".to_owned(), {
        let mut status = world.member("etcd-1");
        status.cluster_id = "1".to_owned();
        Ok(status)
    })]));
    std::mem::swap(&mut observed.etcd, &mut other);
    let next = plan(&observed, &world.settings, world.now);
    let kept = next.actions().any(|a| matches!(a, Action::KeepEtcd(_)));
    assert!(!kept, "it is not written over");
    assert_eq!(next.events[0].reason, "ForeignData");
    // One that does not answer is not known, and nothing waits for it.
    world.cluster.status.as_mut().unwrap().etcd = None;
    let mut observed = world.observe();
    observed.etcd = Etcd::Asked(BTreeMap::from([(
        "etcd-0".to_owned(),
        Err("no".to_owned()),
    )]));
    let next = plan(&observed, &world.settings, world.now);
    let kept = next.actions().find_map(|action| match action {
        Action::KeepEtcd(etcd) => Some(etcd.clone()),
        _ => None,
    });
    assert_eq!(kept.unwrap().cluster_id, None);
}

#[test]
fn alarm_of_etcd_is_told_and_ends_ready_until_it_is_taken_away() {
    let mut world = ready(minimal());
    world.alarms = vec![Alarm::NoSpace];
    world.list_due = true;
    world.settle();
    let alarm = ("False".into(), "NoSpace".into());
    assert_eq!(world.condition("Ready"), alarm);
    assert_eq!(world.condition("EtcdReady"), alarm);
    assert_eq!(
        world.condition("Degraded"),
        ("True".into(), "NoSpace".into())
    );
    // A member that does not answer has not taken it away.
    let mut unknown = world.observe();
    unknown.etcd = Etcd::Asked(BTreeMap::from([(
        "etcd-0".to_owned(),
        Err("no".to_owned()),
    )]));
    unknown.tenant = world.answer(false, false, &[]);
    let next = plan(&unknown, &world.settings, world.now);
    assert_eq!(Some(&next.status), world.cluster.status.as_ref());
    // It is looked at again by itself, and nothing is written meanwhile.
    world.list_due = false;
    let before = world.writes;
    world.settle();
    assert_eq!(world.writes, before);
    assert_eq!(world.condition("Ready"), alarm);
    world.alarms.clear();
    world.settle();
    assert_eq!(world.condition("Ready").0, "True");
    assert_eq!(world.condition("Degraded").0, "False");
}

#[test]
fn lost_volume_is_told_and_nothing_is_bootstrapped_over_it() {
    let state = |world: &World| of_etcd(world, "initial-cluster-state");
    let mut early = World::new(minimal());
    early.start = Answer::Wait;
    early.settle();
    assert_eq!(state(&early), "new");
    for (spec, members) in [(minimal(), 1), (large(), 3)] {
        let whole = ready(spec);
        assert_eq!(state(&whole), "existing");
        let claim = Key::new("PersistentVolumeClaim", NS, "data-etcd-0");
        let mut gone = whole.clone();
        gone.objects.remove(&claim);
        let mut replaced = whole.clone();
        replaced.objects.get_mut(&claim).unwrap()["metadata"]["uid"] = json!("another");
        let mut going = whole.clone();
        going.objects.get_mut(&claim).unwrap()["metadata"]["deletionTimestamp"] =
            json!("2026-11-21T12:00:00Z");
        for mut world in [gone, replaced, going] {
            world.tenant_up = members > 1;
            let before = world.objects.clone();
            world.settle();
            assert_eq!(world.objects, before, "nothing is made over it");
            assert_eq!(
                world.condition("Degraded"),
                ("True".into(), "VolumeLost".into())
            );
            let ready = if members > 1 { "True" } else { "False" };
            assert_eq!(world.condition("Ready").0, ready);
        }
    }
}

fn claim() -> Key {
    Key::new("PersistentVolumeClaim", NS, "data-etcd-0")
}

fn ask_for(world: &mut World, size: &str) {
    world.cluster.spec.etcd.storage.size = api::Quantity(size.to_owned());
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
}

fn request(world: &World) -> &Value {
    &world.objects[&claim()]["spec"]["resources"]["requests"]["storage"]
}

fn quota(world: &World) -> String {
    let etcd = &world.objects[&Key::new("StatefulSet", NS, "etcd")];
    let pod = &etcd["spec"]["template"]["spec"];
    let args = pod["containers"][0]["args"].as_array().unwrap().iter();
    let mut args = args.filter_map(Value::as_str);
    let found = args.find_map(|arg| arg.strip_prefix("--quota-backend-bytes="));
    found.unwrap().to_owned()
}

/// Finding C4: a StorageClass that lets no volume grow stopped everything after the volumes.
#[test]
fn volume_that_may_not_grow_holds_nothing_up_and_is_asked_for_no_more_once_taken_back() {
    let mut world = ready(minimal());
    world.refused.push(claim());
    ask_for(&mut world, "8Gi");
    world.cluster.spec.control_plane.replicas = 2;
    world.settle();
    assert_eq!(request(&world), "2Gi");
    let control_plane = &world.objects[&Key::new("Deployment", NS, "control-plane")];
    assert_eq!(control_plane["spec"]["replicas"], 2);
    assert_eq!(world.condition("Ready").0, "True");
    ask_for(&mut world, "2Gi");
    world.refused.clear();
    world.settle();
    assert_eq!(request(&world), "2Gi");
    assert_eq!(world.condition("Degraded").0, "False");
}

#[test]
fn database_grows_once_its_volume_has() {
    let mut world = ready(minimal());
    let before = quota(&world);
    let holds = |world: &mut World, size: &str| {
        let claim = world.objects.get_mut(&claim()).unwrap();
        claim["status"]["capacity"]["storage"] = json!(size);
    };
    holds(&mut world, "2Gi");
    ask_for(&mut world, "8Gi");
    world.settle();
    assert_eq!(request(&world), "8Gi");
    assert_eq!(quota(&world), before, "the volume holds 2Gi");
    holds(&mut world, "8Gi");
    world.settle();
    assert_eq!(quota(&world), (4_u64 << 30).to_string());
}

#[test]
fn volume_that_is_larger_than_asked_for_stays_and_is_told() {
    let mut world = ready(minimal());
    ask_for(&mut world, "8Gi");
    world.settle();
    let status = world.cluster.status.as_ref().unwrap();
    let members = &status.etcd.as_ref().unwrap().members;
    assert_eq!(members[0].volume_size.as_deref(), Some("8Gi"));
    ask_for(&mut world, "4Gi");
    world.settle();
    assert_eq!(request(&world), "8Gi");
    assert_eq!(
        world.condition("Degraded"),
        ("True".into(), "StorageShrinks".into())
    );
    assert_eq!(world.condition("Ready").0, "True");
}
