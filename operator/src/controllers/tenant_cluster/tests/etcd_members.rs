//! Members of etcd are restarted one by one, for another template or for what is free in their files.
//!
//! Invariant: the one that leads goes last, once another one does; none goes that others need.

use super::rollouts::{ended_members, upgrade_operator};
use super::*;
use crate::controllers::tenant_cluster::observed::{EtcdListing, Observed};
use crate::tenant_session::etcd::answers::Alarm;

#[test]
fn member_that_leads_is_ended_last_and_another_one_leads_by_then() {
    let mut world = ready(large());
    world.leads = 2;
    upgrade_operator(&mut world);
    let members = ended_members(&mut world, |_| {});
    assert_eq!(members, ["etcd-1", "etcd-0", "etcd-2"]);
    assert_ne!(world.leads, 2);
}

#[test]
fn no_member_is_ended_while_another_is_behind_or_began_to_serve_a_moment_ago() {
    let mut world = ready(large());
    upgrade_operator(&mut world);
    let mut observed = world.observe();
    observed.turn = Some(Answer::Go);
    // First that it begins, then the template.
    for _ in 0..2 {
        let first = plan(&observed, &world.settings, world.now);
        world.carry_out(&first, &mut observed, &mut usize::MAX.clone());
    }
    let mut observed = world.observe();
    observed.turn = Some(Answer::Go);
    let names = ["etcd-0", "etcd-1", "etcd-2"];
    let answers = |behind: u64| {
        let answer = |name: &str| {
            let mut answer = world.member(name);
            answer.index = if name == "etcd-1" {
                5000 - behind
            } else {
                5000
            };
            (name.to_owned(), Ok(answer))
        };
        Etcd::Asked(names.map(answer).into())
    };
    let ended = |observed: &Observed| {
        let plan = plan(observed, &world.settings, world.now);
        let ended: Vec<_> = plan.deletions().map(|t| t.key.name.clone()).collect();
        (ended, plan.requeue_after)
    };
    observed.etcd = answers(99);
    assert_eq!(ended(&observed).0, ["etcd-2"]);
    observed.etcd = answers(100);
    assert_eq!(ended(&observed).0, [""; 0]);
    observed.etcd = answers(0);
    let pod = observed
        .objects
        .get_mut(&Key::new("Pod", NS, "etcd-0"))
        .unwrap();
    let since = world.now - jiff::SignedDuration::from_secs(2);
    pod["status"]["conditions"][0]["lastTransitionTime"] = json!(since.to_string());
    let (none, again) = ended(&observed);
    assert_eq!(none, [""; 0], "it serves for two seconds");
    assert_eq!(again, Some(std::time::Duration::from_secs(3)));
    // One that has other data than the rest would not start again.
    let mut corrupt = world.observe();
    corrupt.turn = Some(Answer::Go);
    let Etcd::Asked(mut alarmed) = answers(0) else {
        panic!()
    };
    let answer = alarmed.get_mut("etcd-1").unwrap().as_mut().unwrap();
    answer.alarms = vec![Alarm::Corrupt];
    corrupt.etcd = Etcd::Asked(alarmed);
    corrupt.etcd_listing = Some(EtcdListing::default());
    assert_eq!(ended(&corrupt).0, [""; 0]);
    // One that does not answer is not known to have caught up.
    let mut unknown = world.observe();
    unknown.turn = Some(Answer::Go);
    let Etcd::Asked(mut some) = answers(0) else {
        panic!()
    };
    some.insert("etcd-1".to_owned(), Err("no".to_owned()));
    unknown.etcd = Etcd::Asked(some);
    assert_eq!(ended(&unknown).0, [""; 0]);
}

#[test]
fn members_whose_files_are_mostly_free_are_restarted_one_by_one_and_once() {
    let mut world = ready(large());
    for pod in world.pods.values_mut() {
        let created = world.now - jiff::SignedDuration::from_hours(2);
        pod["metadata"]["creationTimestamp"] = json!(created.to_string());
    }
    world.bytes = (600 << 20, 200 << 20, 1 << 30);
    world.glance.is_fragmented = true;
    let members = ended_members(&mut world, |_| {});
    assert_eq!(members, ["etcd-2", "etcd-1", "etcd-0"]);
    // Those that are new are left alone, whatever they say.
    world.dense.clear();
    for pod in world.pods.values_mut() {
        pod["metadata"]["creationTimestamp"] = json!(world.now.to_string());
    }
    assert_eq!(ended_members(&mut world, |_| {}), [""; 0]);
}
