//! Credentials that end, lack a right, or are of another project; and clocks that are wrong.
//!
//! Invariant: nothing is made and nothing is deleted because of a credential, and no error holds one.

use std::collections::BTreeSet;
use std::time::Duration;

use fake_clouds::faults::{Fault, Script};
use jiff::SignedDuration;
use provider_gcp::key::{ServiceKey, TOKEN_URI, Unusable};
use providers::FaultKind;
use serde_json::json;

use crate::life::{Machine, OTHER, ROUND, Stage, check, until_gone, until_running};

#[tokio::test]
async fn credential_that_ends_in_the_middle_makes_and_deletes_nothing_until_there_is_another() {
    for step in 0..12 {
        let stage = Stage::new().await;
        let mut machine = Machine::new("u1");
        let unauthorized = Fault::refused(401, "authError");
        stage.script(Script::default().and(step, usize::MAX, unauthorized));
        let cloud = stage.cloud();
        for _ in 0..40 {
            machine.want(&cloud, stage.clock.now()).await.unwrap();
            stage.clock.advance(ROUND);
        }
        assert!(stage.fake.journal().made("instance") <= 1);
        let left = stage.fake.journal().left().len();
        let refused = stage.cloud().check(&[], &[]).await.unwrap_err();
        assert_eq!(refused.kind, FaultKind::Auth);
        let _ = cloud.delete(&machine.wanted.owner, None).await;
        assert_eq!(stage.fake.journal().left().len(), left);
        stage.script(Script::default());
        until_running(&stage, &mut machine, false).await.unwrap();
        until_gone(&stage, &mut machine, false).await.unwrap();
        check(&stage.fake.journal(), &format!("ended at {step}"));
    }
}

#[tokio::test]
async fn token_that_ends_is_had_anew_and_nobody_notices() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    let cloud = stage.cloud();
    let mut runs = false;
    for _ in 0..20 {
        runs = machine.want(&cloud, stage.clock.now()).await.unwrap();
        stage.fake.contents().tokens.clear();
        stage.clock.advance(ROUND);
    }
    assert!(runs);
    assert_eq!(stage.fake.journal().made("instance"), 1);
    // One that lives for less than the time before its end in which none is used is used once all the same.
    stage.fake.contents().behaviour.token_lives = Duration::from_secs(60);
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "tokens that end");
}

#[tokio::test]
async fn key_that_was_deleted_is_told_with_what_to_do() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.fake.contents().accounts.clear();
    let refused = stage
        .cloud()
        .describe(&machine.subject())
        .await
        .unwrap_err();
    assert_eq!(refused.kind, FaultKind::Auth);
    assert_eq!(refused.code, "invalid_grant");
    assert!(refused.to_string().contains("new key"), "{refused}");
    assert_eq!(stage.fake.journal().left().len(), 2);
}

#[tokio::test]
async fn another_project_proves_no_absence_and_makes_nothing() {
    let mut stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let before = stage.fake.journal().events.len();
    let account = stage.cloud().account().await.unwrap();
    let right = stage.project.clone();
    stage.project.account = Some(account);
    stage.project.project = OTHER.to_owned();
    let wrong = stage.cloud_of("covey@other");
    for _ in 0..100 {
        let refused = wrong.describe(&machine.subject()).await.unwrap_err();
        assert_eq!(
            (refused.kind, refused.code.as_str()),
            (FaultKind::Auth, "other_project")
        );
        assert!(wrong.create(&machine.wanted).await.is_err());
        let owner = &machine.wanted.owner;
        assert!(wrong.delete(owner, machine.instance).await.is_err());
        assert!(wrong.found().await.is_err());
        stage.clock.advance(ROUND);
    }
    // The same project in another zone, where nothing of the name is.
    stage.project.project = right.project.clone();
    stage.project.zone = "europe-west1-c".to_owned();
    let elsewhere = stage.cloud();
    let refused = elsewhere.describe(&machine.subject()).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Auth);
    assert!(refused.to_string().contains("europe-west1-b"), "{refused}");
    // One that there is none of, and one that does not let us in.
    for (project, account) in [("none", "covey@other"), ("demo", "covey@other")] {
        stage.project.project = project.to_owned();
        let refused = stage.cloud_of(account).describe(&machine.subject()).await;
        assert_eq!(refused.unwrap_err().kind, FaultKind::Auth, "{project}");
    }
    assert_eq!(stage.fake.journal().events.len(), before);
    stage.project = right;
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "another project");
}

#[tokio::test]
async fn right_that_is_missing_is_told_when_something_is_made() {
    let stage = Stage::new().await;
    let rights = [
        "compute.projects.get",
        "compute.instances.get",
        "compute.instances.list",
        "compute.zoneOperations.list",
    ];
    let rights: BTreeSet<_> = rights.iter().map(|right| (*right).to_owned()).collect();
    for account in stage.fake.contents().accounts.values_mut() {
        account.permissions = Some(rights.clone());
    }
    let refused = stage.cloud().create(&Machine::new("u1").wanted).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Auth);
    let told = refused.to_string();
    assert!(told.contains("compute.instances.create"), "{told}");
    assert!(told.contains("permissions"), "{told}");
}

#[tokio::test]
async fn no_error_holds_a_token_or_what_was_signed() {
    let stage = Stage::new().await;
    let mut errors = Vec::new();
    for fault in [
        Fault::LostRequest,
        Fault::CutAnswer,
        Fault::Garbage,
        Fault::refused(500, "backendError"),
        Fault::refused(401, "authError"),
    ] {
        for step in 0..2 {
            let script = Script::default().and(stage.requests() + step, usize::MAX, fault.clone());
            stage.script(script);
            errors.push(stage.cloud().account().await.unwrap_err());
        }
    }
    for error in errors {
        let told = format!("{error} {error:?}");
        assert!(!told.contains("ya29."), "{told}");
        assert!(!told.contains("eyJ"), "{told}");
        assert!(!told.contains("PRIVATE"), "{told}");
    }
}

#[test]
fn file_that_would_ask_elsewhere_is_no_key() {
    let read = |file: &serde_json::Value| ServiceKey::read(&file.to_string(), TOKEN_URI).err();
    let file = json!({
        "type": "service_account", "client_email": "a@b", "private_key_id": "k", "private_key": "none",
        "token_uri": TOKEN_URI,
    });
    let with = |key: &str, value: &str| {
        let mut file = file.clone();
        file[key] = json!(value);
        file
    };
    assert_eq!(read(&file), Some(Unusable::PrivateKey));
    let elsewhere = with("token_uri", "https://example.com/token");
    assert_eq!(read(&elsewhere), Some(Unusable::TokenUri));
    for type_ in ["external_account", "authorized_user"] {
        assert_eq!(read(&with("type", type_)), Some(Unusable::Type), "{type_}");
    }
    assert_eq!(read(&json!({})), Some(Unusable::NoFile));
    assert_eq!(read(&json!("a")), Some(Unusable::NoFile));
}

#[tokio::test]
async fn clock_that_is_wrong_by_ten_minutes_changes_nothing() {
    for minutes in [-10, 10] {
        let mut stage = Stage::new().await;
        stage.skew = SignedDuration::from_mins(minutes);
        let mut machine = Machine::new("u1");
        until_running(&stage, &mut machine, false).await.unwrap();
        until_gone(&stage, &mut machine, false).await.unwrap();
        check(&stage.fake.journal(), &format!("{minutes} min"));
    }
}

#[tokio::test]
async fn clock_that_jumps_neither_loses_nor_doubles_a_machine() {
    let mut stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.skew = SignedDuration::from_hours(24);
    until_running(&stage, &mut machine, true).await.unwrap();
    stage.skew = SignedDuration::from_hours(-24);
    until_running(&stage, &mut machine, true).await.unwrap();
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "a clock that jumps");
}
