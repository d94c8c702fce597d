//! Tests of the next call of a creation.
//!
//! Invariant: what may be made is asked for once.

use super::*;
use crate::schema::OperationError;

const UID: &str = "5d2f1c1e-8a52-4b2e-9f0b-0d9f6c1b7a11";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

fn wanted() -> Wanted {
    Wanted {
        owner: Owner {
            installation: "i-1".to_owned(),
            machine: "workers-x2k9p".to_owned(),
            uid: UID.to_owned(),
            ..Owner::default()
        },
        machine_type: "e2-medium".to_owned(),
        image: "projects/demo/global/images/worker-1-36".to_owned(),
        disk: 20,
        is_spot: false,
        user_data: "#cloud-config\n".to_owned(),
    }
}

fn project() -> Project {
    Project {
        installation: "i-1".to_owned(),
        project: "demo".to_owned(),
        zone: "europe-west1-b".to_owned(),
        subnet: "workers".to_owned(),
        tags: vec!["workers".to_owned()],
        ..Project::default()
    }
}

fn insertion(id: &str, begun: i64, ended: Option<i64>, failed: bool) -> Operation {
    Operation {
        id: id.to_owned(),
        operation_type: "insert".to_owned(),
        insert_time: Some(at(begun).to_string()),
        end_time: ended.map(|ended| at(ended).to_string()),
        status: if ended.is_some() { "DONE" } else { "RUNNING" }.to_owned(),
        error: failed.then(OperationError::default),
        ..Operation::default()
    }
}

fn next(insertions: Vec<Operation>, now: i64) -> Creation {
    let seen = Seen {
        instance: None,
        insertions,
    };
    creation(&wanted(), &project(), &seen, at(now))
}

fn asked(creation: Creation) -> String {
    match creation {
        Creation::Insert { request, .. } => request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn request_is_the_uid_and_another_after_each_failure() {
    assert_eq!(asked(next(Vec::new(), 0)), UID);
    let failed = |id| vec![insertion(id, 0, Some(10), true)];
    assert!(matches!(next(failed("1"), 20), Creation::Failed(_)));
    let (second, third) = (asked(next(failed("1"), 200)), asked(next(failed("2"), 200)));
    assert!(is_uuid(&second) && second != UID && second != third);
    assert_eq!(second, asked(next(failed("1"), 300)), "always the same");
}

#[test]
fn nothing_is_asked_for_while_something_may_come_of_it() {
    assert_eq!(
        next(vec![insertion("1", 0, None, false)], 9000),
        Creation::Wait
    );
    let failed_and_running = vec![
        insertion("1", 0, Some(10), true),
        insertion("2", 200, None, false),
    ];
    assert_eq!(next(failed_and_running, 9000), Creation::Wait);
    let made = || vec![insertion("1", 0, Some(10), false)];
    assert_eq!(next(made(), 20), Creation::Wait);
    assert_eq!(next(made(), 9000), Creation::Ended, "never made twice");
}

#[test]
fn instance_of_the_name_is_taken_by_its_labels_alone() {
    let mut instance = Instance {
        id: "7".to_owned(),
        name: wanted().owner.name(),
        labels: labels::spelled(&wanted().owner),
        ..Instance::default()
    };
    let of = |instance: &Instance| {
        let seen = Seen {
            instance: Some(instance.clone()),
            insertions: Vec::new(),
        };
        creation(&wanted(), &project(), &seen, at(0))
    };
    assert!(matches!(of(&instance), Creation::There(_)));
    let owner = &wanted().owner;
    assert!(is_its(owner, None, &instance));
    instance.labels.clear();
    assert_eq!(of(&instance), Creation::Taken);
    assert!(is_its(owner, Some(7), &instance) && !is_its(owner, Some(8), &instance));
    assert!(!is_its(owner, None, &instance));
}

#[test]
fn what_is_sent_has_labels_no_account_and_goes_with_its_disk() {
    let sent = serde_json::to_value(body(&wanted(), &project())).unwrap();
    assert_eq!(sent["labels"]["covey_machine_uid"], UID);
    let disk = &sent["disks"][0];
    assert_eq!(disk["initializeParams"]["labels"], sent["labels"]);
    assert_eq!(disk["autoDelete"], true);
    assert!(sent["serviceAccounts"].is_null());
    assert!(sent["networkInterfaces"][0]["accessConfigs"].is_null());
    assert_eq!(sent["scheduling"]["onHostMaintenance"], "MIGRATE");
    let spot = scheduling(true);
    assert_eq!(spot.instance_termination_action.as_deref(), Some("DELETE"));
    assert!(!spot.automatic_restart);
    assert!(!format!("{:?}", body(&wanted(), &project())).contains("cloud-config"));
}

#[test]
fn what_can_only_fail_is_not_asked_for() {
    let of = |wanted: &Wanted, project: &Project| match creation(
        wanted,
        project,
        &Seen::default(),
        at(0),
    ) {
        Creation::Impossible(why) => why,
        other => panic!("{other:?}"),
    };
    let large = Wanted {
        user_data: "x".repeat(USER_DATA_LIMIT + 1),
        ..wanted()
    };
    assert!(of(&large, &project()).contains("262145 bytes"));
    let family = Wanted {
        image: "projects/demo/global/images/family/worker".to_owned(),
        ..wanted()
    };
    assert!(of(&family, &project()).contains("no family"));
    let nowhere = Project {
        subnet: String::new(),
        ..project()
    };
    assert!(of(&wanted(), &nowhere).contains("subnet"));
}
