//! What a new etcd begins with: who is told of a golden file, until when, and what is noted of it.
//!
//! Invariant: a tenant cluster that ran, or is brought back, is told of none; no pod differs by it.

use api::tenant_cluster::EtcdStatus;
use tenant_cp::golden_start::objects_hash;
use tenant_cp::settings::golden_start::GoldenStart;

use super::etcd::of_etcd;
use super::*;

const FILE: &str = "kubernetes-1.35.4-etcd-3.6-0a1b2c3d4e5f6071.db";

/// One that waits for its turn, with a golden file of its version.
fn waiting(spec: Value) -> World {
    let mut world = World::new(spec);
    let start = GoldenStart {
        etcd: "3.6".to_owned(),
        objects: objects_hash(),
        file: FILE.to_owned(),
        sha256: "0a".repeat(32),
    };
    for version in ["1.34.4", "1.35.4"] {
        let versions = &mut world.settings.golden_starts;
        versions.insert(version.to_owned(), start.clone());
    }
    world.start = Answer::Wait;
    world.settle();
    world
}

fn told(world: &World) -> Value {
    let file: Value = serde_json::from_str(&of_etcd(world, "identity.json")).unwrap();
    file["golden"].clone()
}

/// What the next plan notes of etcd where its pod's gate said this.
fn noted(world: &World, before: Option<EtcdStatus>, said: &str) -> Option<EtcdStatus> {
    let mut world = world.clone();
    world.cluster.status.as_mut().unwrap().etcd = before;
    let mut observed = world.observe();
    let pod = json!({
        "metadata": { "name": "etcd-0", "labels": { api::names::LABEL_COMPONENT: "etcd" } },
        "status": { "initContainerStatuses": [{ "name": "gate", "state": { "terminated": {
            "exitCode": 0, "message": said } } }] },
    });
    observed.objects.insert(Key::new("Pod", NS, "etcd-0"), pod);
    let next = plan(&observed, &world.settings, world.now);
    next.actions().find_map(|action| match action {
        Action::KeepEtcd(etcd) => Some(etcd.clone()),
        _ => None,
    })
}

#[test]
fn new_cluster_is_told_of_its_file_until_it_ran_and_no_pod_differs_by_it() {
    let mut world = waiting(minimal());
    let golden = told(&world);
    assert_eq!(golden["file"], FILE);
    assert_eq!(golden["token"], json!(world.cluster.metadata.uid));
    assert_eq!(golden["peerURL"], "https://etcd-0:2380");
    world.start = Answer::Go;
    world.settle();
    assert_eq!(told(&world), Value::Null, "it ran");
    assert_eq!(of_etcd(&world, "initial-cluster-state"), "existing");
    let set = Key::new("StatefulSet", NS, "etcd");
    let without = ready(minimal());
    assert_eq!(
        world.objects[&set]["spec"]["template"]["spec"],
        without.objects[&set]["spec"]["template"]["spec"]
    );
    // And never again, whatever becomes of its pods.
    world.objects.get_mut(&set).unwrap()["status"]["readyReplicas"] = json!(0);
    world.settle();
    assert_eq!(told(&world), Value::Null);
}

#[test]
fn three_members_and_what_was_chosen_begin_without_data() {
    assert_eq!(told(&waiting(large())), Value::Null);
    let mut chosen = minimal();
    chosen["controlPlane"] = json!({ "apiServer": { "extraArgs": {
        "enable-priority-and-fairness": "false",
    } } });
    assert_eq!(told(&waiting(chosen)), Value::Null);
    let mut older = minimal();
    older["version"] = json!("1.35.3");
    assert_eq!(told(&waiting(older)), Value::Null);
}

#[test]
fn what_the_gate_of_its_first_pod_said_is_noted_once_and_stays() {
    let mut world = waiting(minimal());
    world.start = Answer::Go;
    world.settle();
    let said = format!("GoldenStart: {FILE}: etcd-0 starts for the first time");
    let known = world.cluster.status.clone().unwrap().etcd;
    assert_eq!(known.as_ref().unwrap().golden_file, None);
    let begun = noted(&world, known.clone(), &said).unwrap();
    assert_eq!(begun.golden_file.as_deref(), Some(FILE));
    assert_eq!(noted(&world, Some(begun.clone()), &said), None, "again");
    let later = "Start: etcd-0 has its data: cluster 1, member 2";
    assert_eq!(noted(&world, Some(begun), later), None, "it stays");
    let empty = "Start: etcd-0 starts for the first time, without data";
    assert_eq!(noted(&world, known, empty), None);
}
