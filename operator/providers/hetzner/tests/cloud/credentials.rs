//! Credentials that end, are for reading alone, or of another project; and clocks that are wrong.
//!
//! Invariant: nothing is made and nothing is deleted because of a credential, and no error holds one.

use std::time::Duration;

use fake_clouds::faults::{Fault, Script};
use jiff::SignedDuration;
use providers::FaultKind;

use crate::life::{Machine, OTHER, ROUND, Stage, TOKEN, check, until_gone, until_running};

#[tokio::test]
async fn token_that_ends_in_the_middle_makes_and_deletes_nothing_until_there_is_another() {
    for step in 0..12 {
        let stage = Stage::new().await;
        let mut machine = Machine::new("u1");
        let unauthorized = Fault::refused(401, "unauthorized");
        stage.script(Script::default().and(step, usize::MAX, unauthorized));
        let cloud = stage.cloud();
        for _ in 0..40 {
            machine.want(&cloud, stage.clock.now()).await.unwrap();
            stage.clock.advance(ROUND);
        }
        assert!(stage.fake.journal().made("server") <= 1);
        let left = stage.fake.journal().left().len();
        let refused = stage.cloud().check(&[], &[]).await.unwrap_err();
        assert_eq!(refused.kind, FaultKind::Auth);
        assert!(refused.to_string().contains("tokenSecret"), "{refused}");
        let _ = cloud.delete(&machine.wanted.owner, None).await;
        assert_eq!(stage.fake.journal().left().len(), left);
        stage.script(Script::default());
        until_running(&stage, &mut machine, false).await.unwrap();
        until_gone(&stage, &mut machine, false).await.unwrap();
        check(&stage.fake.journal(), &format!("ended at {step}"));
    }
}

#[tokio::test]
async fn token_of_another_project_proves_no_absence_and_makes_nothing() {
    let mut stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.project.account = Some(stage.cloud().account().await.unwrap());
    let wrong = stage.cloud_with(OTHER);
    let before = stage.fake.journal().events.len();
    for _ in 0..100 {
        let refused = wrong.describe(&machine.subject()).await.unwrap_err();
        assert_eq!(
            (refused.kind, refused.code.as_str()),
            (FaultKind::Auth, "other_project")
        );
        assert!(wrong.create(&machine.wanted).await.is_err());
        assert!(
            wrong
                .delete(&machine.wanted.owner, machine.instance)
                .await
                .is_err()
        );
        assert!(wrong.found().await.is_err());
        stage.clock.advance(ROUND);
    }
    assert_eq!(stage.fake.journal().events.len(), before);
    // The same where the key is not there at all.
    stage
        .fake
        .contents()
        .projects
        .get_mut(OTHER)
        .unwrap()
        .keys
        .clear();
    let refused = stage.cloud_with(OTHER).describe(&machine.subject()).await;
    assert_eq!(refused.unwrap_err().kind, FaultKind::Auth);
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "another project");
}

#[tokio::test]
async fn token_for_reading_alone_is_told_when_something_is_made() {
    let stage = Stage::new().await;
    let reader = ("reader".to_owned(), TOKEN.to_owned());
    stage.fake.contents().readers.extend([reader]);
    let cloud = stage.cloud_with("reader");
    cloud.check(&["cx22".to_owned()], &[]).await.unwrap();
    let refused = cloud.create(&Machine::new("u1").wanted).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Auth);
    assert!(refused.to_string().contains("Read & Write"), "{refused}");
}

#[tokio::test]
async fn no_error_holds_the_token() {
    let stage = Stage::new().await;
    let token = "a-token-nobody-knows";
    let cloud = stage.cloud_with(token);
    let refused = cloud.describe(&Machine::new("u1").subject()).await;
    assert!(refused.is_ok(), "nothing was asked for");
    let mut errors = Vec::new();
    for fault in [
        None,
        Some(Fault::LostRequest),
        Some(Fault::CutAnswer),
        Some(Fault::Garbage),
        Some(Fault::refused(500, "server_error")),
    ] {
        let script = fault.map(|fault| Script::default().and(0, usize::MAX, fault));
        stage.script(script.unwrap_or_default());
        errors.push(stage.cloud_with(token).account().await.unwrap_err());
    }
    for error in errors {
        assert!(!format!("{error} {error:?}").contains(token), "{error:?}");
    }
}

#[tokio::test]
async fn clock_that_is_wrong_by_ten_minutes_changes_nothing() {
    for minutes in [-10, 10] {
        let mut stage = Stage::new().await;
        stage.skew = SignedDuration::from_mins(minutes);
        stage.fake.contents().behaviour.rate_limit = 400;
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
    stage.clock.advance(Duration::from_secs(60));
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "a clock that jumps");
}
