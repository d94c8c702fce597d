//! Tests of a restore beside the tenant cluster: when, one at a time, and what is said of what came of it.

use api::tenant_cluster::{BackupStatus, RestoreTest};
use kit_objects::object;

use super::super::restore_test::is_due;
use super::*;

const DAY: i64 = 24 * 3600;

/// A tenant cluster that was made at 0, is backed up and whole, at this second.
fn backed_up(second: i64) -> World {
    let mut world = World::new(bucket());
    world.settle();
    let cluster = Arc::make_mut(&mut world.observed.cluster);
    cluster.metadata.creation_timestamp = serde_json::from_value(json!(at(0))).unwrap();
    is_now(&mut world, second);
    world
}

/// Time passes, and a look is taken as `observe` takes it.
fn is_now(world: &mut World, second: i64) {
    world.now = at(second);
    world.says(Report {
        now_ms: u64::try_from(at(second).as_millisecond()).unwrap(),
        cluster: Some("cdf818194e3a8c32".to_owned()),
        ..whole()
    });
    let report = world.observed.report.clone().unwrap().unwrap();
    let due = is_due(&world.observed.cluster, &report, world.now);
    let is_restoring = world
        .observed
        .cluster
        .status
        .as_ref()
        .unwrap()
        .restore
        .is_some();
    world.observed.tests = (due || is_restoring).then(Vec::new);
}

fn jobs(world: &World) -> Vec<String> {
    let keys = world.observed.objects.keys();
    let jobs = keys.filter(|key| key.kind == "Job");
    jobs.map(|key| key.name.clone()).collect()
}

/// Its only Job ended so, at this second.
fn ends(world: &mut World, second: i64, condition: &str, pods: Vec<Value>) {
    let name = jobs(world).pop().unwrap();
    let job = world
        .observed
        .objects
        .get_mut(&Key::new("Job", NS, &name))
        .unwrap();
    job["status"] = json!({ "conditions": [
        { "type": condition, "status": "True", "message": "Job has reached the backoff limit",
            "lastTransitionTime": at(second) },
    ] });
    is_now(world, second + 5);
    let of_job = |mut pod: Value| {
        pod["metadata"]["labels"] = json!({ "batch.kubernetes.io/job-name": name });
        pod
    };
    world.observed.tests = Some(pods.into_iter().map(of_job).collect());
}

fn pod(container: &str, code: i64, message: &str) -> Value {
    json!({
        "metadata": { "name": "p", "creationTimestamp": "2026-11-26T20:00:00Z" },
        "status": {
            "initContainerStatuses": [{ "name": "etcd", "state": { "running": {} } }],
            "containerStatuses": [{ "name": container, "state": { "terminated": {
                "exitCode": code, "message": message, "reason": "Error" } } }],
        },
    })
}

/// The status says what was said, as the TenantCluster's own reconcile writes it.
fn is_written(world: &mut World, plan: &Plan) -> RestoreTest {
    let Some(Said::Is {
        restore_test: Some(test),
        ..
    }) = &plan.said
    else {
        panic!("{:?}", plan.said);
    };
    let cluster = Arc::make_mut(&mut world.observed.cluster);
    cluster.status.as_mut().unwrap().backup = Some(BackupStatus {
        restore_test: Some(test.clone()),
        ..BackupStatus::default()
    });
    test.clone()
}

#[test]
fn first_test_comes_within_a_day_and_the_next_ones_after_the_time_that_was_asked_for() {
    let mut world = backed_up(3500);
    world.settle();
    assert_eq!(jobs(&world), [""; 0], "it is young");
    is_now(&mut world, DAY + 3600);
    let plan = world.settle();
    assert_eq!((jobs(&world).len(), plan.tests), (1, true));
    let writes = world.writes;
    is_now(&mut world, DAY + 3660);
    assert!(world.settle().tests);
    assert_eq!(world.writes, writes, "it runs");
    let report = r#"{"revision":1437,"keys":9,"bytes":99}"#;
    ends(
        &mut world,
        DAY + 3700,
        "Complete",
        vec![pod("compare", 0, report)],
    );
    let plan = world.settle();
    assert_eq!(told(&plan).1, Reason::BackedUp);
    assert!(!plan.tests);
    // The same is said until it is written, and then nothing more.
    assert_eq!(world.settle().said, plan.said);
    let test = is_written(&mut world, &plan);
    let (ended, revision) = (at(DAY + 3700).to_string(), Some(1437));
    assert_eq!(
        (&test.at, test.passed.as_ref(), test.revision),
        (&ended, Some(&ended), revision)
    );
    assert_eq!((test.problem, test.differs), (None, false));
    let first = jobs(&world);
    for (second, many) in [(DAY + 3800, 1), (8 * DAY + 3699, 1), (8 * DAY + 3700, 2)] {
        is_now(&mut world, second);
        world.settle();
        assert_eq!(jobs(&world).len(), many, "{second}");
    }
    assert!(
        jobs(&world).contains(&first[0]),
        "another Job of another name"
    );
}

#[test]
fn test_has_the_steps_of_a_restore_reads_alone_and_has_a_bound() {
    for place in [bucket(), json!({ "claim": { "size": "20Gi" } })] {
        let is_claim = place.get("claim").is_some();
        let mut world = World::new(place);
        world.settle();
        let cluster = Arc::make_mut(&mut world.observed.cluster);
        cluster.metadata.creation_timestamp = serde_json::from_value(json!(at(0))).unwrap();
        is_now(&mut world, 2 * DAY);
        world.settle();
        let job = world.object("Job", &jobs(&world)[0]).unwrap();
        let pod = &job["spec"]["template"]["spec"];
        let names = |field: &str| -> Vec<_> {
            let all = pod[field].as_array().unwrap().iter();
            all.map(|container| container["name"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(names("initContainers"), ["fetch", "unpack", "etcd"]);
        assert_eq!(names("containers"), ["compare"]);
        assert_eq!(pod["automountServiceAccountToken"], false);
        let text = pod.to_string();
        for part in [
            "--live=https://etcd-0:2379",
            "--live-tls=/run/covey/etcd",
            "--cluster=cdf818194e3a8c32",
            "--least-revision=0",
            "--etcd=http://127.0.0.1:2379",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // 1 GiB of quota twice, and room; no volume of a member; what the target has is read.
        let volumes = pod["volumes"].as_array().unwrap();
        let scratch = volumes
            .iter()
            .find(|volume| volume["name"] == "scratch")
            .unwrap();
        assert_eq!(scratch["emptyDir"]["sizeLimit"], "4294967296");
        let claims: Vec<_> = volumes
            .iter()
            .filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
            .collect();
        assert_eq!(claims, if is_claim { vec!["backup"] } else { vec![] });
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        for mount in mounts.iter().filter(|mount| mount["name"] != "scratch") {
            assert_eq!(mount["readOnly"], true, "{mount}");
        }
        // The etcd beside has neither certificates nor keys.
        let etcd = &pod["initContainers"][2];
        assert_eq!(etcd["volumeMounts"].as_array().unwrap().len(), 1, "{etcd}");
        assert_eq!(pod["affinity"].get("podAffinity").is_some(), is_claim);
        assert_eq!(job["spec"]["activeDeadlineSeconds"], 3600);
        let policies = [("backup", "podSelector"), ("backup-to-etcd", "ingress")];
        for (name, part) in policies {
            let policy = &world.object("NetworkPolicy", name).unwrap()["spec"][part];
            assert!(
                policy.to_string().contains("restore-test"),
                "{name}: {policy}"
            );
        }
    }
}

#[test]
fn what_differs_or_cannot_be_tested_is_told_until_a_test_passes() {
    let mut world = backed_up(2 * DAY);
    world.settle();
    let said = "{\"level\":\"INFO\"}\nat revision 1437: the backup lacks /registry/a\n";
    let first = jobs(&world).remove(0);
    ends(
        &mut world,
        2 * DAY + 60,
        "Failed",
        vec![pod("compare", 5, said)],
    );
    let plan = world.settle();
    assert_eq!(
        told(&plan),
        (
            ConditionStatus::False,
            Reason::BackupDiffers,
            "what was restored to test it is not what etcd has: at revision 1437: the backup lacks /registry/a"
                .to_owned()
        )
    );
    assert!(is_written(&mut world, &plan).differs);
    // It stays told, also to an operator that has just begun, and is not tried again at once.
    is_now(&mut world, 2 * DAY + 600);
    assert_eq!(told(&world.settle()).1, Reason::BackupDiffers);
    assert_eq!(jobs(&world).len(), 1);
    // What is late is worse.
    let late = Report {
        waiting_since_ms: Some(1),
        ..world.observed.report.clone().unwrap().unwrap()
    };
    world.observed.report = Some(Ok(late));
    assert_eq!(told(&world.settle()).1, Reason::BackupLate);
    // A newer snapshot that is whole has it tested anew; else it takes six hours.
    is_now(&mut world, 2 * DAY + 700);
    let mut report = world.observed.report.clone().unwrap().unwrap();
    let is_tested =
        |world: &World, report: &Report| is_due(&world.observed.cluster, report, world.now);
    assert!(!is_tested(&world, &report));
    report.verified.as_mut().unwrap().taken_ms = report.now_ms - 600_000;
    assert!(is_tested(&world, &report));
    is_now(&mut world, 2 * DAY + 60 + 6 * 3600);
    world.settle();
    assert_eq!(jobs(&world).len(), 2);
    // Kubernetes forgets the first one an hour after its end.
    world.observed.objects.remove(&Key::new("Job", NS, &first));
    ends(
        &mut world,
        3 * DAY,
        "Failed",
        vec![pod("fetch", 1, "list: it is busy")],
    );
    let plan = world.settle();
    let (_, reason, message) = told(&plan);
    assert_eq!(reason, Reason::RestoreTestFailed);
    assert_eq!(
        message,
        "a restore could not be tested: fetch: list: it is busy"
    );
    is_written(&mut world, &plan);
    // Who wants none is told of none.
    let cluster = Arc::make_mut(&mut world.observed.cluster);
    cluster.spec.backup.as_mut().unwrap().restore_test = Some(api::Duration::from("0s"));
    is_now(&mut world, 12 * DAY);
    assert_eq!(told(&world.settle()).1, Reason::BackedUp);
    assert_eq!(jobs(&world).len(), 1);
}

#[test]
fn job_without_a_word_has_failed_and_an_evicted_pod_has_said_why() {
    for (condition, pods, wanted) in [
        ("Complete", vec![], "its pod is gone"),
        ("Complete", vec![pod("compare", 0, "{}")], "its pod is gone"),
        ("Failed", vec![], "reached the backoff limit"),
        (
            "Failed",
            vec![json!({ "metadata": { "name": "p" },
                "status": { "message": "Usage of EmptyDir volume \"scratch\" exceeds the limit" } })],
            "exceeds the limit",
        ),
    ] {
        let mut world = backed_up(2 * DAY);
        world.settle();
        ends(&mut world, 2 * DAY + 60, condition, pods);
        let plan = world.settle();
        let test = is_written(&mut world, &plan);
        assert!(
            test.problem
                .as_ref()
                .is_some_and(|why| why.contains(wanted)),
            "{test:?}"
        );
        assert!(!test.differs && test.passed.is_none());
    }
}

#[test]
fn no_test_begins_while_others_run_or_nothing_is_whole_or_a_restore_is_under_way() {
    let mut world = backed_up(2 * DAY);
    world.observed.may_test = false;
    assert_eq!(told(&world.settle()).1, Reason::BackedUp);
    assert_eq!(jobs(&world), [""; 0]);
    let report = world.observed.report.clone().unwrap().unwrap();
    let nothing = Report {
        verified: None,
        ..report
    };
    assert!(!is_due(&world.observed.cluster, &nothing, world.now));
    world.observed.may_test = true;
    world.settle();
    assert_eq!(jobs(&world).len(), 1);
    // A Restore begins: the test ends, and comes again when that is over.
    let restore = api::tenant_cluster::RestoreProgress::default();
    let cluster = Arc::make_mut(&mut world.observed.cluster);
    cluster.status.as_mut().unwrap().restore = Some(restore);
    is_now(&mut world, 2 * DAY + 10);
    world.settle();
    assert_eq!(jobs(&world), [""; 0]);
    let cluster = Arc::make_mut(&mut world.observed.cluster);
    cluster.status.as_mut().unwrap().restore = None;
    is_now(&mut world, 2 * DAY + 600);
    world.settle();
    assert_eq!(jobs(&world).len(), 1);
    // Switched off, it goes with the rest.
    let cluster = Arc::make_mut(&mut world.observed.cluster);
    cluster.spec.backup = None;
    assert_eq!(world.settle().said, Some(Said::Nothing));
    assert_eq!(jobs(&world), [""; 0]);
}

#[test]
fn tenant_clusters_that_are_made_together_are_not_tested_together() {
    let world = backed_up(3600);
    let report = world.observed.report.clone().unwrap().unwrap();
    let due_after = |uid: &str| {
        let mut cluster = (*world.observed.cluster).clone();
        cluster.metadata.uid = Some(uid.to_owned());
        let hours = 1..=25;
        let mut hours = hours.filter(|hour| is_due(&cluster, &report, at(hour * 3600)));
        hours.next().unwrap()
    };
    let hours: std::collections::BTreeSet<_> = (0..20)
        .map(|number| due_after(&object::hash(&json!(number))))
        .collect();
    assert!(hours.len() > 5, "{hours:?}");
}
