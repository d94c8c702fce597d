//! Credentials that end, lack a right, or are of another subscription or tenant; and clocks that are wrong.
//!
//! Invariant: nothing is made and nothing is deleted because of a credential, and no error holds one.

use std::collections::BTreeSet;
use std::time::Duration;

use fake_clouds::azure::SECRET;
use fake_clouds::faults::{Fault, Script};
use jiff::SignedDuration;
use provider_azure::credentials::By;
use providers::FaultKind;

use crate::life::{
    DEMO, FOREIGN, FOREIGN_TENANT, Machine, OTHER, ROUND, Stage, TENANT, check, credentials,
    until_gone, until_running,
};

#[tokio::test]
async fn credential_that_ends_in_the_middle_makes_and_deletes_nothing_until_there_is_another() {
    for step in (0..20).step_by(2) {
        let stage = Stage::new().await;
        let mut machine = Machine::new("u1");
        let unauthorized = Fault::refused(401, "ExpiredAuthenticationToken");
        stage.script(Script::default().and(step, usize::MAX, unauthorized));
        let cloud = stage.cloud();
        for _ in 0..30 {
            machine.want(&cloud, stage.clock.now()).await.unwrap();
            stage.clock.advance(ROUND);
        }
        assert!(stage.fake.journal().made("vm") <= 1);
        let left = stage.fake.journal().left().len();
        let refused = stage.cloud().check(&[], &[], false).await.unwrap_err();
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
    assert_eq!(stage.fake.journal().made("vm"), 1);
    // One that lives for less than the time before its end in which none is used is used once all the same.
    stage.fake.contents().behaviour.token_lives = Duration::from_secs(60);
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "tokens that end");
}

#[tokio::test]
async fn secret_that_ended_or_is_another_is_told_with_what_to_do() {
    let mut stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    for principal in stage.fake.contents().principals.values_mut() {
        principal.secret_ended = true;
    }
    let described = async |stage: &Stage| {
        let described = stage.cloud().describe(&machine.subject()).await;
        described.unwrap_err()
    };
    let refused = described(&stage).await;
    assert_eq!(
        (refused.kind, refused.code.as_str()),
        (FaultKind::Auth, "invalid_client")
    );
    let told = refused.to_string();
    assert!(
        told.contains("AADSTS7000222") && told.contains("new secret"),
        "{told}"
    );
    stage.credentials.by = By::Secret("other".to_owned());
    assert!(
        described(&stage)
            .await
            .to_string()
            .contains("AADSTS7000215")
    );
    stage.credentials.by = By::Secret(" ".to_owned());
    assert_eq!(described(&stage).await.code, "no_credentials");
    assert_eq!(stage.fake.journal().left().len(), 4);
}

/// The file is replaced while it is used, as a projected volume is.
#[tokio::test]
async fn token_of_this_cluster_is_read_anew_for_each_exchange() {
    let mut stage = Stage::new().await;
    let path = std::env::temp_dir().join(format!("covey-azure-{}", std::process::id()));
    let trust = |token: &str| {
        for principal in stage.fake.contents().principals.values_mut() {
            principal.federated = Some(token.to_owned());
        }
    };
    trust("eyJone");
    std::fs::write(&path, "eyJone\n").unwrap();
    stage.credentials.by = By::Federated(path.clone());
    let cloud = stage.cloud();
    cloud.check(&[], &[], false).await.unwrap();
    for principal in stage.fake.contents().principals.values_mut() {
        principal.federated = Some("eyJtwo".to_owned());
    }
    stage.fake.contents().tokens.clear();
    let refused = cloud.check(&[], &[], false).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Auth);
    assert!(
        !format!("{refused} {refused:?}").contains("eyJ"),
        "{refused:?}"
    );
    std::fs::write(&path, "eyJtwo\n").unwrap();
    cloud.check(&[], &[], false).await.unwrap();
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, true).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    let refused = stage.cloud().check(&[], &[], false).await.unwrap_err();
    assert_eq!(refused.code, "no_credentials");
}

#[tokio::test]
async fn another_subscription_or_tenant_proves_no_absence_and_makes_nothing() {
    let mut stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let before = stage.fake.journal().events.len();
    let account = stage.cloud().account().await.unwrap();
    let right = (stage.place.clone(), stage.credentials.clone());
    stage.place.account = Some(account);
    stage.place.subscription = OTHER.to_owned();
    stage.credentials = credentials(OTHER, TENANT);
    let wrong = stage.cloud();
    for _ in 0..60 {
        let refused = wrong.describe(&machine.subject()).await.unwrap_err();
        assert_eq!(
            (refused.kind, refused.code.as_str()),
            (FaultKind::Auth, "other_resource_group")
        );
        assert!(wrong.create(&machine.wanted).await.is_err());
        let owner = &machine.wanted.owner;
        assert!(wrong.delete(owner, machine.instance).await.is_err());
        assert!(wrong.found().await.is_err());
        stage.clock.advance(ROUND);
    }
    // A subscription that there is none of, one of another tenant, one that does not let us in, and a group that is gone.
    let of_other = || credentials(OTHER, TENANT);
    for (subscription, group, credentials) in [
        ("none", "workers", of_other()),
        (DEMO, "workers", of_other()),
        (DEMO, "workers", credentials(FOREIGN, FOREIGN_TENANT)),
        (DEMO, "gone", credentials(DEMO, TENANT)),
        (DEMO, "workers", credentials(DEMO, FOREIGN_TENANT)),
    ] {
        stage.place.subscription = subscription.to_owned();
        stage.place.group = group.to_owned();
        stage.credentials = credentials;
        let refused = stage.cloud().describe(&machine.subject()).await;
        assert_eq!(
            refused.unwrap_err().kind,
            FaultKind::Auth,
            "{subscription} {group}"
        );
    }
    assert_eq!(stage.fake.journal().events.len(), before);
    (stage.place, stage.credentials) = right;
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "another subscription");
}

/// The group goes while machines are in it, with all of them: that is not believed until there is one again.
#[tokio::test]
async fn resource_group_that_is_gone_proves_nothing() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let cloud = stage.cloud();
    cloud.describe(&machine.subject()).await.unwrap();
    stage.fake.contents().groups.clear();
    for _ in 0..5 {
        let refused = cloud.describe(&machine.subject()).await.unwrap_err();
        assert_eq!(refused.kind, FaultKind::Auth);
        stage.clock.advance(ROUND);
    }
}

#[tokio::test]
async fn right_that_is_missing_is_told_when_something_is_made() {
    let stage = Stage::new().await;
    let rights = [
        "Microsoft.Resources/subscriptions/resourceGroups/read",
        "Microsoft.Compute/virtualMachines/read",
        "Microsoft.Network/networkInterfaces/read",
        "Microsoft.Network/publicIPAddresses/read",
    ];
    let rights: BTreeSet<_> = rights.iter().map(|right| (*right).to_owned()).collect();
    for principal in stage.fake.contents().principals.values_mut() {
        principal.actions = Some(rights.clone());
    }
    let refused = stage.cloud().create(&Machine::new("u1").wanted).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Auth);
    let told = refused.to_string();
    assert!(told.contains("publicIPAddresses/write"), "{told}");
    assert!(told.contains("role"), "{told}");
}

#[tokio::test]
async fn no_error_holds_a_token_or_a_secret() {
    let stage = Stage::new().await;
    let mut errors = Vec::new();
    for fault in [
        Fault::LostRequest,
        Fault::CutAnswer,
        Fault::Garbage,
        Fault::refused(500, "InternalServerError"),
        Fault::refused(401, "InvalidAuthenticationToken"),
    ] {
        for step in 0..2 {
            let script = Script::default().and(stage.requests() + step, usize::MAX, fault.clone());
            stage.script(script);
            errors.push(stage.cloud().account().await.unwrap_err());
        }
    }
    for error in errors {
        let told = format!("{error} {error:?} {:?}", stage.credentials);
        assert!(!told.contains("eyJ") && !told.contains(SECRET), "{told}");
    }
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
