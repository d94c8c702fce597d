//! etcd's identity, volumes and alarms.
//!
//! Invariant: nothing is bootstrapped over what was lost, and what a member said once it is.

use api::tenant_cluster::BackupStatus;

use super::*;
use crate::controllers::tenant_cluster::observed::{EtcdListing, Observed};
use crate::controllers::tenant_cluster::plan::{Part, Plan};
use crate::etcd_replacement::step::Step;
use crate::tenant_session::etcd::answers::{Alarm, ListedMember};

/// What the Secret of etcd's members says under this key.
pub(super) fn of_etcd(world: &World, key: &str) -> String {
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
    world.bytes = (1 << 30, 1000 << 20, 1 << 30);
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
    world.bytes.1 = 0;
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
            let reason = if members > 1 {
                "MemberLost"
            } else {
                "VolumeLost"
            };
            assert_eq!(world.condition("Degraded"), ("True".into(), reason.into()));
            let ready = if members > 1 { "True" } else { "False" };
            assert_eq!(world.condition("Ready").0, ready);
        }
    }
}

#[test]
fn lost_volume_is_told_with_the_newest_backup_that_is_whole() {
    let mut world = ready(minimal());
    let status = world.cluster.status.as_mut().unwrap();
    status.backup = Some(BackupStatus {
        last_full: Some("2026-11-27T01:00:00Z".to_owned()),
        verified: Some("2026-11-27T00:00:00Z".to_owned()),
        ..BackupStatus::default()
    });
    let claim = Key::new("PersistentVolumeClaim", NS, "data-etcd-0");
    world.objects.remove(&claim);
    world.tenant_up = false;
    world.settle();
    let status = world.cluster.status.clone().unwrap();
    let degraded = status.conditions.iter().find(|c| c.type_ == "Degraded");
    let message = &degraded.unwrap().message;
    assert!(
        message.contains("found whole is of 2026-11-27T00:00:00Z"),
        "{message}"
    );
}

/// One of three members whose claim was deleted an hour after all of them had come up, and made anew by the
/// StatefulSet two minutes ago; etcd has all three.
pub(super) fn with_a_lost_member() -> (World, Observed) {
    let mut world = ready(large());
    world.now = now()
        .checked_add(jiff::SignedDuration::from_hours(1))
        .unwrap();
    let lately = world
        .now
        .checked_sub(jiff::SignedDuration::from_mins(2))
        .unwrap();
    let set = Key::new("StatefulSet", NS, "etcd");
    world.objects.get_mut(&set).unwrap()["status"]["readyReplicas"] = json!(2);
    for number in 0..3 {
        let pod = Key::new("Pod", NS, &format!("etcd-{number}"));
        let pod = world.pods.get_mut(&pod).unwrap();
        let (ready, since) = if number == 1 {
            ("False", lately)
        } else {
            ("True", now())
        };
        pod["metadata"]["creationTimestamp"] = json!(since.to_string());
        pod["status"]["conditions"] = json!([{
            "type": "Ready", "status": ready, "lastTransitionTime": since.to_string(),
        }]);
    }
    let claim = Key::new("PersistentVolumeClaim", NS, "data-etcd-1");
    let claim = world.objects.get_mut(&claim).unwrap();
    claim["metadata"]["uid"] = json!("another");
    claim["metadata"]["creationTimestamp"] = json!(lately.to_string());
    let mut observed = world.observe();
    let answer = |name: &str| {
        let mut answer = world.member(name);
        answer.leader = Some(world.member("etcd-0").member_id);
        (name.to_owned(), Ok(answer))
    };
    let mut answers = BTreeMap::from(["etcd-0", "etcd-2"].map(answer));
    answers.insert("etcd-1".to_owned(), Err("no".to_owned()));
    observed.etcd = Etcd::Asked(answers);
    observed.etcd_listing = Some(EtcdListing {
        members: Some((0..3).map(|number| listed(&world, number)).collect()),
        hashes: BTreeMap::new(),
    });
    (world, observed)
}

fn listed(world: &World, number: i32) -> ListedMember {
    let name = tenant_cp::names::etcd_member(number);
    ListedMember {
        id: world.member(&name).member_id,
        name: Some(name),
        peer_urls: vec![tenant_cp::names::etcd_peer_url(number)],
        is_learner: false,
    }
}

pub(super) fn repair(plan: &Plan) -> Option<Step> {
    plan.actions().find_map(|action| match action {
        Action::ReplaceMember { step, .. } => Some(step.clone()),
        _ => None,
    })
}

pub(super) fn reason(plan: &Plan, type_: &str) -> String {
    let mut conditions = plan.status.conditions.iter();
    conditions
        .find(|c| c.type_ == type_)
        .unwrap()
        .reason
        .clone()
}

#[test]
fn lost_member_of_three_is_replaced_and_that_is_told() {
    let (world, mut observed) = with_a_lost_member();
    let next = |observed: &Observed| plan(observed, &world.settings, world.now);
    let begins = next(&observed);
    let Some(Step::Record(begun)) = repair(&begins) else {
        panic!("{:?}", repair(&begins));
    };
    assert_eq!(begun.replacing.as_ref().unwrap().member, "etcd-1");
    assert_eq!(reason(&begins, "Degraded"), "MemberLost");
    observed.cluster.status.as_mut().unwrap().etcd = Some(begun);
    let removes = next(&observed);
    let id = world.member("etcd-1").member_id;
    assert_eq!(repair(&removes), Some(Step::Remove { id: id.clone() }));
    assert_eq!(reason(&removes, "Progressing"), "ReplacingMember");
    let mut events = removes.events.iter();
    assert!(
        events.any(|event| event.reason == "ReplacingMember"),
        "{:?}",
        removes.events
    );
    assert_eq!(
        removes.deletions().count(),
        0,
        "no pod is rolled out meanwhile"
    );
    // Its claim is made where there is none, and only now.
    let claim = Key::new("PersistentVolumeClaim", NS, "data-etcd-1");
    let makes = |plan: &Plan| {
        let mut objects = plan.parts.iter().flat_map(Part::objects);
        objects.any(|object| object.key() == claim)
    };
    let mut gone = observed.clone();
    gone.objects.remove(&claim);
    assert!(!makes(&next(&gone)));
    let listing = gone.etcd_listing.as_mut().unwrap();
    listing
        .members
        .as_mut()
        .unwrap()
        .retain(|member| member.id != id);
    assert!(makes(&next(&gone)));
    // A reconcile ends after a few steps, and says what etcd refuses.
    observed.etcd_steps.refusal = Some("etcdserver: unhealthy cluster".to_owned());
    let refused = next(&observed);
    assert_eq!(repair(&refused), None);
    let mut parts = refused.parts.iter();
    let etcd = parts.find(|part| part.name == PartName::Etcd).unwrap();
    assert!(etcd.is_settled());
    let waiting = etcd.waiting.as_ref().unwrap();
    assert!(
        waiting.message.ends_with("etcdserver: unhealthy cluster"),
        "{waiting:?}"
    );
    assert!(refused.requeue_after.unwrap() < std::time::Duration::from_secs(5));
}

#[test]
fn end_of_a_replacement_is_told_once_and_one_that_came_back_by_itself_is_not() {
    let mut world = ready(large());
    world.now = now()
        .checked_add(jiff::SignedDuration::from_hours(1))
        .unwrap();
    let told = |world: &World| {
        let next = plan(&world.observe(), &world.settings, world.now);
        let mut events = next.events.iter();
        events.any(|event| event.reason == "MemberReplaced")
    };
    assert!(!told(&world));
    let tell = |world: &mut World, reason: &str, ended: jiff::Timestamp| {
        let since = world.now;
        let status = world.cluster.status.as_mut().unwrap();
        status.etcd.as_mut().unwrap().last_replacement = Some(ended.to_string());
        let progressing = status
            .conditions
            .iter_mut()
            .find(|c| c.type_ == "Progressing");
        let progressing = progressing.unwrap();
        progressing.reason = reason.to_owned();
        progressing.last_transition_time.0 = since;
    };
    let after = world
        .now
        .checked_add(jiff::SignedDuration::from_mins(2))
        .unwrap();
    for (reason, is_told) in [
        ("ReplacingMember", true),
        ("MemberLost", true),
        ("AsDesired", false),
    ] {
        tell(&mut world, reason, after);
        assert_eq!(told(&world), is_told, "{reason}");
    }
    tell(&mut world, "MemberLost", now());
    assert!(!told(&world));
}

#[test]
fn members_that_start_may_be_empty_only_as_far_as_the_status_says() {
    let (world, mut observed) = with_a_lost_member();
    let mut etcd = observed.cluster.status.clone().unwrap().etcd.unwrap();
    etcd.members[1] = api::tenant_cluster::EtcdMemberStatus {
        volume_uid: "another".to_owned(),
        id: Some("77".to_owned()),
        started: false,
        learner: true,
        ..etcd.members[1].clone()
    };
    observed.cluster.status.as_mut().unwrap().etcd = Some(etcd);
    let next = plan(&observed, &world.settings, world.now);
    let mut objects = next.parts.iter().flat_map(Part::objects);
    let secret = objects.find(|object| object.kind == "Secret" && object.name == "etcd");
    let data = &secret.unwrap().value["data"];
    let text = |key: &str| {
        let bytes = base64::engine::general_purpose::STANDARD.decode(data[key].as_str().unwrap());
        String::from_utf8(bytes.unwrap()).unwrap()
    };
    assert_eq!(
        text("initial-cluster-state"),
        "existing",
        "nothing is bootstrapped twice"
    );
    let file: Value = serde_json::from_str(&text("identity.json")).unwrap();
    let members = file["members"].as_array().unwrap();
    let empty: Vec<_> = members.iter().map(|m| m["mayStartEmpty"] == true).collect();
    assert_eq!(empty, [false, true, false]);
    assert_eq!(
        (&members[1]["claimUID"], &members[1]["memberID"]),
        (&json!("another"), &json!("77"))
    );
}

#[test]
fn two_lost_members_of_three_are_told_and_left_alone() {
    let (world, mut observed) = with_a_lost_member();
    let claim = Key::new("PersistentVolumeClaim", NS, "data-etcd-2");
    observed.objects.get_mut(&claim).unwrap()["metadata"]["uid"] = json!("yet-another");
    if let Etcd::Asked(answers) = &mut observed.etcd {
        answers.insert("etcd-2".to_owned(), Err("no".to_owned()));
    }
    observed.etcd_listing.as_mut().unwrap().members = None;
    let next = plan(&observed, &world.settings, world.now);
    assert_eq!(repair(&next), None);
    assert_eq!(reason(&next, "Degraded"), "QuorumLost");
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
