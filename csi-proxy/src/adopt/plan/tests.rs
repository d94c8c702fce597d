//! Laws of adoption, in clusters where everybody else acts at any time and the plan is broken off anywhere.

use kube::ResourceExt as _;
use serde_json::json;

use self::sim::{NEW, OLD, Sim, object, settings};
use super::{Cluster, Next, Write, plan};
use crate::adopt::observed::{is_of, policy, volume_of};
use crate::cache::objects::Volume;
use crate::names;

mod laws;
mod sim;

/// What is said of the only volume.
fn said(sim: &Sim) -> String {
    match &plan(&sim.observed, &settings())[..] {
        [line] => match &line.next {
            Next::Refused(why) | Next::Wait(why) => why.clone(),
            Next::Write(what, _) => format!("would {what}"),
            Next::Done => "done".to_owned(),
        },
        lines => panic!("{lines:?}"),
    }
}

/// Everything of one volume is as it would be if our driver had made it.
fn assert_adopted(sim: &Sim, number: usize) {
    let (id, store) = (format!("vol-pvc-{number}"), format!("store-{number}"));
    let observed = &sim.observed;
    let tenant = observed
        .tenant
        .volumes
        .iter()
        .find(|v| v.name_any() == id)
        .unwrap();
    let claim = observed
        .tenant
        .claims
        .iter()
        .find(|c| c.name_any() == format!("data-{number}"));
    let claim = claim.unwrap();
    assert!(is_of(tenant, claim) && volume_of(claim) == id);
    assert_eq!(policy(tenant), "Delete");
    assert_eq!(claim.labels()["app"], "db");
    assert_eq!(claim.annotations()["team"], "one");
    assert!(
        !claim
            .annotations()
            .contains_key("pv.kubernetes.io/bind-completed")
    );
    let csi = tenant.spec.as_ref().unwrap().csi.clone().unwrap();
    assert_eq!(
        (csi.driver.as_str(), csi.volume_handle.as_str()),
        (names::DRIVER, id.as_str())
    );
    assert_eq!(csi.fs_type.as_deref(), Some("ext4"));
    let ours = observed
        .management
        .claims
        .iter()
        .find(|c| c.name_any() == id)
        .unwrap();
    let volume = observed
        .management
        .volumes
        .iter()
        .find(|v| v.name_any() == store)
        .unwrap();
    assert!(is_of(volume, ours) && volume_of(ours) == store);
    assert_eq!(policy(volume), "Delete");
    let read = Volume::read(ours, "uid-of-demo").unwrap();
    assert_eq!(read.class.as_deref(), Some("fast"));
    assert!(
        !read.shared,
        "one node has it at a time, though its storage could do more"
    );
    assert_eq!(
        ours.annotations()[names::ANNOTATION_TENANT_CLAIM],
        format!("default/data-{number}")
    );
    assert_eq!(ours.namespace().as_deref(), Some(NEW));
    let left =
        [&observed.management.old_claims].map(|all| all.iter().any(|c| c.name_any() == id[4..]));
    assert_eq!(left, [false]);
    assert!(
        !observed
            .tenant
            .volumes
            .iter()
            .any(|v| v.name_any() == id[4..])
    );
}

#[test]
fn volumes_become_ours_and_a_second_run_writes_nothing() {
    let mut sim = Sim::new(2);
    // CDI may have taken the DataVolume away long ago: then there is a claim to delete.
    sim.observed.management.data_volumes.pop();
    let writes = sim.run(&settings());
    assert_eq!(writes, 2 * 11);
    assert!(sim.lost.is_empty());
    (0..2).for_each(|number| assert_adopted(&sim, number));
    assert!(
        plan(&sim.observed, &settings())
            .iter()
            .all(|line| line.next == Next::Done)
    );
    assert_eq!(sim.run(&settings()), 0);
    // From now on it is deleted like any other: with its storage.
    sim.observed.tenant.claims.clear();
    sim.run(&settings());
    assert_eq!(sim.lost.len(), 2);
}

#[test]
fn nothing_is_deleted_before_storage_is_kept_on_both_sides() {
    let mut sim = Sim::new(1);
    let mut steps = Vec::new();
    loop {
        sim.rest();
        match plan(&sim.observed, &settings()).remove(0).next {
            Next::Write(what, write) => {
                steps.push(what);
                sim.send(&write);
            }
            Next::Done => break,
            other => panic!("{other:?}"),
        }
    }
    let at = |word: &str| steps.iter().position(|step| step.contains(word)).unwrap();
    let first = at("delete");
    for kept in [
        "keep the old PersistentVolume",
        "keep the PersistentVolume",
        "make our PersistentVolume",
    ] {
        assert!(at(kept) < first, "{steps:?}");
    }
    assert!(
        at("make our claim") < at("delete the tenant's claim"),
        "{steps:?}"
    );
    assert_eq!(
        *steps.last().unwrap(),
        "delete the old PersistentVolume of the tenant cluster"
    );
}

#[test]
fn volume_in_use_is_refused_and_holds_up_no_other() {
    let mut sim = Sim::new(2);
    sim.pod("data-0", "pvc-0");
    sim.run(&settings());
    assert_adopted(&sim, 1);
    let lines = plan(&sim.observed, &settings());
    let of = |volume: &str| lines.iter().find(|line| line.volume == volume).unwrap();
    let Next::Refused(why) = &of("pvc-0").next else {
        panic!("{lines:?}")
    };
    assert!(
        why.contains("pod default/pod-data-0 uses it; scale down"),
        "{why}"
    );
    assert_eq!(
        policy(sim.inside("pvc-0")),
        "Delete",
        "nothing of it was touched"
    );
    sim.observed.tenant.pods.clear();
    let Next::Refused(why) = plan(&sim.observed, &settings())[0].next.clone() else {
        panic!()
    };
    assert!(why.contains("attached to node n1"), "{why}");
    sim.scale_down();
    let user = ["VirtualMachine w1".to_owned()].into();
    sim.observed
        .management
        .users
        .insert("pvc-0".to_owned(), user);
    let Next::Refused(why) = plan(&sim.observed, &settings())[0].next.clone() else {
        panic!()
    };
    assert!(why.contains("VirtualMachine w1 has it"), "{why}");
    sim.observed.management.users.clear();
    sim.run(&settings());
    assert_adopted(&sim, 0);
}

#[test]
fn odd_states_are_refused_with_what_to_do_and_nothing_is_written() {
    type Odd = (&'static str, fn(&mut Sim));
    let odd: [Odd; 15] = [
        ("no claim has it", |sim| {
            sim.inside("pvc-0").spec.as_mut().unwrap().claim_ref = None;
        }),
        ("is not there any more", |sim| {
            // Already Released.
            sim.inside("pvc-0")
                .spec
                .as_mut()
                .unwrap()
                .persistent_volume_reclaim_policy = Some("Retain".to_owned());
            sim.observed.tenant.claims.clear();
        }),
        ("was made anew by somebody", |sim| {
            sim.inside("pvc-0")
                .spec
                .as_mut()
                .unwrap()
                .persistent_volume_reclaim_policy = Some("Retain".to_owned());
            sim.observed.tenant.claims[0].metadata.uid = Some("another".to_owned());
        }),
        ("all have the volumeHandle", |sim| {
            let mut twin = sim.inside("pvc-0").clone();
            twin.metadata.name = Some("twin".to_owned());
            let spec = twin.spec.as_mut().unwrap();
            spec.claim_ref = None;
            sim.observed.tenant.volumes.push(twin);
        }),
        ("is not how the driver calls claims", |sim| {
            let spec = sim.inside("pvc-0").spec.as_mut().unwrap();
            spec.csi.as_mut().unwrap().volume_handle = "data-etcd-0".to_owned();
        }),
        ("has not the label", |sim| {
            // Another tenant's volume, which this tenant named in a PersistentVolume of its own.
            sim.observed.management.old_claims[0].metadata.labels = None;
        }),
        ("there is no claim", |sim| {
            sim.observed.management.data_volumes.clear();
            sim.observed.management.old_claims.clear();
            let store = sim.observed.management.volumes[0].spec.as_mut().unwrap();
            store.persistent_volume_reclaim_policy = Some("Retain".to_owned());
        }),
        ("is not bound, so there is no data", |sim| {
            sim.observed.management.old_claims[0]
                .spec
                .as_mut()
                .unwrap()
                .volume_name = None;
        }),
        ("which does not say so", |sim| {
            let store = sim.observed.management.volumes[0].spec.as_mut().unwrap();
            store.claim_ref.as_mut().unwrap().uid = Some("another".to_owned());
            store.persistent_volume_reclaim_policy = Some("Retain".to_owned());
        }),
        ("has 524288000; find out", |sim| {
            sim.observed.management.volumes[0]
                .spec
                .as_mut()
                .unwrap()
                .capacity = object(json!({ "storage": "500Mi" }));
        }),
        ("no offered class has the StorageClass \"odd\"", |sim| {
            sim.observed.management.volumes[0]
                .spec
                .as_mut()
                .unwrap()
                .storage_class_name = Some("odd".to_owned());
        }),
        ("nodes cannot make a filesystem btrfs", |sim| {
            let spec = sim.inside("pvc-0").spec.as_mut().unwrap();
            spec.csi.as_mut().unwrap().fs_type = Some("btrfs".to_owned());
        }),
        ("is being adopted as other/vol-pvc-0", |sim| {
            sim.observed.management.volumes[0].metadata.annotations = object(json!({
                names::ANNOTATION_ADOPTED_AS: "other/vol-pvc-0",
            }));
            sim.inside("pvc-0")
                .spec
                .as_mut()
                .unwrap()
                .persistent_volume_reclaim_policy = Some("Retain".to_owned());
        }),
        ("that is not for this volume", |sim| {
            sim.make_claim(
                Cluster::Management,
                &object(json!({
                    "metadata": { "name": "vol-pvc-0", "namespace": NEW },
                    "spec": { "storageClassName": "ceph", "volumeMode": "Block" },
                })),
            );
        }),
        ("belongs to pod p and goes with it", |sim| {
            sim.observed.tenant.claims[0].metadata.owner_references = object(json!([
                { "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p" },
            ]));
        }),
    ];
    for (why, make) in odd {
        let mut sim = Sim::new(1);
        make(&mut sim);
        sim.act(0);
        let before = sim.observed.clone();
        let lines = plan(&sim.observed, &settings());
        let all = format!("{lines:?}");
        assert!(all.contains(&why.replace('"', "\\\"")), "{why}: {all}");
        assert!(
            lines
                .iter()
                .all(|line| matches!(line.next, Next::Refused(_))),
            "{why}: {all}"
        );
        let written = lines
            .iter()
            .any(|line| matches!(line.next, Next::Write(..)));
        assert!(
            !written && before == sim.observed && sim.deleted.is_empty(),
            "{why}"
        );
    }
}

#[test]
fn claim_that_a_controller_made_meanwhile_is_not_touched() {
    let mut sim = Sim::new(1);
    while !said(&sim).contains("make the tenant's claim anew") {
        let Next::Write(_, write) = plan(&sim.observed, &settings()).remove(0).next else {
            panic!()
        };
        sim.send(&write);
        sim.rest();
    }
    // What a StatefulSet does when it is scaled up too early.
    let early = object(json!({
        "metadata": { "name": "data-0", "namespace": "default" },
        "spec": { "storageClassName": "kubevirt" },
    }));
    sim.make_claim(Cluster::Tenant, &early);
    assert_eq!(sim.run(&settings()), 0);
    assert!(
        said(&sim).contains("made anew by somebody"),
        "{}",
        said(&sim)
    );
    sim.observed.tenant.claims.clear();
    sim.run(&settings());
    assert_adopted(&sim, 0);
}

#[test]
fn tenant_that_writes_its_own_half_gets_no_storage_of_others() {
    // A PersistentVolume as if half of the work were done, for a volume that another tenant has.
    let mut sim = Sim::new(1);
    sim.observed.management.old_claims[0].metadata.labels = None;
    sim.inside("pvc-0")
        .spec
        .as_mut()
        .unwrap()
        .persistent_volume_reclaim_policy = Some("Retain".to_owned());
    let forged = json!({
        "metadata": { "name": "vol-pvc-0", "annotations": {
            names::ANNOTATION_ADOPTED_FROM: crate::adopt::DRIVER,
            names::ANNOTATION_ADOPT_POLICY: "Delete",
            names::ANNOTATION_ADOPTED_AS: format!("{NEW}/vol-pvc-0"),
        } },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
            "claimRef": { "namespace": "default", "name": "data-0" },
            "csi": { "driver": names::DRIVER, "volumeHandle": "vol-pvc-0" },
            "storageClassName": "kubevirt", "volumeMode": "Filesystem",
        },
    });
    sim.send(&Write::MakeVolume(Box::new(object(forged))));
    assert_eq!(sim.run(&settings()), 0);
    assert!(said(&sim).contains("has not the label"), "{}", said(&sim));
    // Nor when its claim is on it already.
    sim.observed.tenant.claims[0]
        .spec
        .as_mut()
        .unwrap()
        .volume_name = Some("vol-pvc-0".to_owned());
    assert_eq!(sim.run(&settings()), 0);
    assert!(
        sim.deleted.is_empty() && sim.observed.management.old_claims[0].namespace().unwrap() == OLD
    );
}

#[test]
fn disk_image_in_a_filesystem_stays_one() {
    let mut sim = Sim::new(1);
    let filesystem = Some("Filesystem".to_owned());
    sim.observed.management.volumes[0]
        .spec
        .as_mut()
        .unwrap()
        .volume_mode = filesystem.clone();
    sim.observed.management.old_claims[0]
        .spec
        .as_mut()
        .unwrap()
        .volume_mode = filesystem.clone();
    sim.run(&settings());
    assert_adopted(&sim, 0);
    let claim = &sim.observed.management.claims[0];
    assert_eq!(claim.spec.as_ref().unwrap().volume_mode, filesystem);
}
