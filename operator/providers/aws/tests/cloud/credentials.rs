//! Credentials that end, lack a right, or are of another account or region; and clocks that are wrong.
//!
//! Invariant: nothing is made and nothing is deleted because of a credential, and no error holds one.

use std::collections::BTreeSet;
use std::time::Duration;

use fake_clouds::aws::{EXTERNAL_ID, SECRET};
use fake_clouds::faults::{Fault, Script};
use jiff::SignedDuration;
use provider_aws::credentials::Credentials;
use providers::FaultKind;

use crate::life::{
    DEMO, IMAGE, Machine, OTHER, REGION, ROUND, Stage, check, keys, until_gone, until_running,
};

fn role() -> String {
    format!("arn:aws:iam::{DEMO}:role/covey")
}

fn of_role(external_id: &str) -> Credentials {
    Credentials::Role {
        keys: keys(DEMO),
        role: role(),
        external_id: external_id.to_owned(),
    }
}

#[tokio::test]
async fn credential_that_ends_in_the_middle_makes_and_deletes_nothing_until_there_is_another() {
    let codes = ["AuthFailure", "RequestExpired", "UnauthorizedOperation"];
    for (step, code) in (0..12).zip(codes.into_iter().cycle()) {
        let stage = Stage::new().await;
        let mut machine = Machine::new("u1");
        let unauthorized = Fault::refused(401, code);
        stage.script(Script::default().and(step, usize::MAX, unauthorized));
        let cloud = stage.cloud();
        for _ in 0..30 {
            machine.want(&cloud, stage.clock.now()).await.unwrap();
            stage.clock.advance(ROUND);
        }
        assert!(stage.fake.journal().made("instance") <= 1);
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
async fn session_of_a_role_that_ends_is_had_anew_and_nobody_notices() {
    let mut stage = Stage::new().await;
    stage.credentials = of_role(EXTERNAL_ID);
    let mut machine = Machine::new("u1");
    let cloud = stage.cloud();
    let mut runs = false;
    for _ in 0..20 {
        runs = machine.want(&cloud, stage.clock.now()).await.unwrap();
        // All sessions end at once, in the middle.
        let now = stage.clock.now();
        for principal in stage.fake.contents().principals.values_mut() {
            if let Some((_, until)) = &mut principal.session {
                *until = now;
            }
        }
        stage.clock.advance(ROUND);
    }
    assert!(runs);
    assert_eq!(stage.fake.journal().made("instance"), 1);
    // One that lives for less than the time before its end in which none is used is used once all the same.
    stage.fake.contents().behaviour.session_lives = Duration::from_secs(60);
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "sessions that end");
}

#[tokio::test]
async fn role_is_taken_on_by_its_external_id_alone() {
    let mut stage = Stage::new().await;
    stage.credentials = of_role("installation-1/team-b/aws");
    let refused = stage.cloud().check(&[], &[], false).await.unwrap_err();
    assert_eq!(
        (refused.kind, refused.code.as_str()),
        (FaultKind::Auth, "AccessDenied")
    );
    // Whoever has to write it into the trust policy learns it here.
    let told = refused.to_string();
    assert!(told.contains("installation-1/team-b/aws"), "{told}");
    stage.credentials = of_role(EXTERNAL_ID);
    let checked = stage.cloud().check(&[], &[], false).await.unwrap();
    assert_eq!(checked.account, Some(format!("{DEMO}/{REGION}")));
}

/// The file is replaced while it is used, as a projected volume is.
#[tokio::test]
async fn token_of_this_cluster_is_read_anew_for_each_exchange_and_stands_in_no_error() {
    let mut stage = Stage::new().await;
    let path = std::env::temp_dir().join(format!("covey-aws-{}", std::process::id()));
    let trust = |stage: &Stage, token: &str| {
        let mut contents = stage.fake.contents();
        let role = contents.roles.get_mut(&role()).unwrap();
        role.web_token = Some(token.to_owned());
    };
    trust(&stage, "eyJone");
    std::fs::write(&path, "eyJone\n").unwrap();
    stage.credentials = Credentials::WebIdentity {
        role: role(),
        token: path.clone(),
    };
    let cloud = stage.cloud();
    cloud.check(&[], &[], false).await.unwrap();
    trust(&stage, "eyJtwo");
    let of_session = |key: &String| key.starts_with("ASIA");
    stage
        .fake
        .contents()
        .principals
        .retain(|key, _| !of_session(key));
    let refused = cloud.check(&[], &[], false).await.unwrap_err();
    assert_eq!(
        (refused.kind, refused.code.as_str()),
        (FaultKind::Auth, "InvalidIdentityToken")
    );
    assert!(!format!("{refused} {refused:?}").contains("eyJ"));
    std::fs::write(&path, "eyJtwo\n").unwrap();
    cloud.check(&[], &[], false).await.unwrap();
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, true).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    let refused = stage.cloud().check(&[], &[], false).await.unwrap_err();
    assert_eq!(refused.code, "no_credentials");
}

#[tokio::test]
async fn another_account_or_region_proves_no_absence_and_makes_nothing() {
    let mut stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let before = stage.fake.journal().events.len();
    let account = stage.cloud().account().await.unwrap();
    stage.place.account = Some(account);
    let right = (stage.place.clone(), stage.credentials.clone());
    for (credentials, region) in [
        (Credentials::Keys(keys(OTHER)), REGION),
        (Credentials::Keys(keys(DEMO)), "eu-west-1"),
    ] {
        stage.credentials = credentials;
        stage.place.region = region.to_owned();
        let wrong = stage.cloud();
        for _ in 0..40 {
            let refused = wrong.describe(&machine.subject()).await.unwrap_err();
            assert_eq!(
                (refused.kind, refused.code.as_str()),
                (FaultKind::Auth, "other_account")
            );
            assert!(wrong.create(&machine.wanted).await.is_err());
            let owner = &machine.wanted.owner;
            assert!(wrong.delete(owner, machine.instance).await.is_err());
            assert!(wrong.found().await.is_err());
            stage.clock.advance(ROUND);
        }
    }
    assert_eq!(stage.fake.journal().events.len(), before);
    (stage.place, stage.credentials) = right;
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "another account");
}

/// The account may not use the region any more, with all that runs there.
#[tokio::test]
async fn region_that_is_off_proves_nothing_and_is_told() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let off = BTreeSet::from([REGION.to_owned()]);
    stage.fake.contents().behaviour.regions_off = off;
    let cloud = stage.cloud();
    for _ in 0..5 {
        let refused = cloud.describe(&machine.subject()).await.unwrap_err();
        assert_eq!(refused.kind, FaultKind::Auth);
        assert!(refused.to_string().contains("opt in"), "{refused}");
        stage.clock.advance(ROUND);
    }
    stage.fake.contents().behaviour.regions_off.clear();
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "a region that was off");
}

#[tokio::test]
async fn right_that_is_missing_is_told_with_what_to_do() {
    let stage = Stage::new().await;
    let rights = ["ec2:DescribeInstances", "ec2:RunInstances"];
    let rights: BTreeSet<_> = rights.iter().map(|right| (*right).to_owned()).collect();
    for principal in stage.fake.contents().principals.values_mut() {
        principal.actions = Some(rights.clone());
    }
    let refused = stage.cloud().create(&Machine::new("u1").wanted).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Auth);
    let told = refused.to_string();
    assert!(told.contains("ec2:CreateTags"), "{told}");
    assert!(told.contains("iam-policy.json"), "{told}");
}

/// Gives every user these rights alone.
fn may(stage: &Stage, rights: &BTreeSet<String>) {
    for principal in stage.fake.contents().principals.values_mut() {
        principal.actions = Some(rights.clone());
    }
}

#[tokio::test]
async fn rights_that_are_missing_are_told_by_the_check_before_a_machine_is_made() {
    let stage = Stage::new().await;
    let images = [IMAGE.to_owned()];
    let all = [
        "ec2:CreateTags",
        "ec2:DescribeImages",
        "ec2:DescribeInstances",
        "ec2:DescribeInstanceTypeOfferings",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSpotPriceHistory",
        "ec2:DescribeSubnets",
        "ec2:DescribeVolumes",
        "ec2:RunInstances",
    ];
    let all: BTreeSet<String> = all.iter().map(|right| (*right).to_owned()).collect();
    may(&stage, &all);
    stage.cloud().check(&[], &images, false).await.unwrap();
    for missing in &all {
        let mut rights = all.clone();
        rights.remove(missing);
        may(&stage, &rights);
        // AWS lets few machines be asked for at once, dry runs too.
        stage.clock.advance(Duration::from_secs(60));
        let refused = stage.cloud().check(&[], &images, false).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind, FaultKind::Auth, "{missing}");
        assert_eq!(refused.code, "UnauthorizedOperation", "{missing}");
        let mend = refused.mend.clone().unwrap_or_default();
        assert!(
            mend.contains(missing) && mend.contains("iam-policy.json"),
            "{mend}"
        );
    }
    // All that would only be asked for later, at once.
    let mut rights = all.clone();
    rights.retain(|right| right != "ec2:RunInstances" && right != "ec2:DescribeVolumes");
    may(&stage, &rights);
    let refused = stage.cloud().check(&[], &images, false).await;
    let told = refused.unwrap_err().to_string();
    assert!(
        told.contains("ec2:DescribeVolumes, ec2:RunInstances"),
        "{told}"
    );
    assert_eq!(stage.fake.journal().made("instance"), 0);
}

#[tokio::test]
async fn type_that_a_check_chose_itself_refuses_nothing_but_rights() {
    let stage = Stage::new().await;
    let images = [IMAGE.to_owned()];
    stage.cloud().check(&[], &images, false).await.unwrap();
    let runs = |entry: &fake_clouds::journal::Entry| entry.path == "/RunInstances";
    let at = stage.fake.journal().entries.iter().position(runs);
    let number = at.unwrap();
    let before = stage.requests();
    for (status, code, is_let) in [
        (400, "InvalidParameterValue", true),
        (400, "Unsupported", true),
        (403, "UnauthorizedOperation", false),
        (500, "InternalError", false),
    ] {
        let from = stage.requests() + number;
        stage.script(Script::at(from, Fault::refused(status, code)));
        let checked = stage.cloud().check(&[], &images, false).await;
        assert_eq!(checked.is_ok(), is_let, "{code}: {checked:?}");
    }
    assert!(stage.requests() > before);
    assert_eq!(stage.fake.journal().made("instance"), 0);
}

#[tokio::test]
async fn no_error_holds_a_secret_or_a_session() {
    let mut stage = Stage::new().await;
    let mut errors = Vec::new();
    for credentials in [Credentials::Keys(keys(DEMO)), of_role(EXTERNAL_ID)] {
        stage.credentials = credentials;
        for fault in [
            Fault::LostRequest,
            Fault::CutAnswer,
            Fault::Garbage,
            Fault::refused(500, "InternalError"),
            Fault::refused(401, "AuthFailure"),
        ] {
            for step in 0..2 {
                let from = stage.requests() + step;
                stage.script(Script::default().and(from, usize::MAX, fault.clone()));
                let cloud = stage.cloud();
                if let Err(error) = cloud.account().await {
                    errors.push(error);
                } else {
                    errors.push(cloud.list(None).await.unwrap_err());
                }
            }
        }
    }
    for error in errors {
        let told = format!("{error} {error:?} {:?}", stage.credentials);
        for secret in [SECRET, "secASIA", "tokASIA"] {
            assert!(!told.contains(secret), "{told}");
        }
    }
}

#[tokio::test]
async fn clock_that_is_wrong_by_ten_minutes_changes_nothing() {
    for minutes in [-10, 10] {
        for by_role in [false, true] {
            let mut stage = Stage::new().await;
            stage.skew = SignedDuration::from_mins(minutes);
            if by_role {
                stage.credentials = of_role(EXTERNAL_ID);
            }
            let mut machine = Machine::new("u1");
            until_running(&stage, &mut machine, false).await.unwrap();
            until_gone(&stage, &mut machine, false).await.unwrap();
            check(&stage.fake.journal(), &format!("{minutes} min"));
        }
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
