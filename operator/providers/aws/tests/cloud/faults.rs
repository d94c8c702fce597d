//! Every fault at every step of a creation and of a deletion.
//!
//! Invariant: `duplicates` and `orphans` are 0 in each, and in each the machine ran and is gone in the end.

use std::time::Duration;

use fake_clouds::faults::{Fault, Script};
use providers::subject::Asked;

use crate::life::{Machine, ROUND, Stage, check, until_gone, until_running};

/// Longer than a client waits.
const LONG: Duration = Duration::from_secs(60);

/// Those that any API has, and what AWS says of its own.
fn faults() -> Vec<Fault> {
    let mut all = vec![
        Fault::LostRequest,
        Fault::LostAnswer,
        Fault::CutAnswer,
        Fault::Garbage,
        Fault::StuckBefore(LONG),
        Fault::StuckAfter(LONG),
        Fault::Late(LONG),
        Fault::EndlessPages,
    ];
    for (status, code) in [(503, "Unavailable"), (504, "")] {
        all.push(Fault::DoneBut { status, code });
    }
    for (status, code) in [
        (500, "InternalError"),
        (502, ""),
        (404, ""),
        (503, "RequestLimitExceeded"),
        (500, "InsufficientInstanceCapacity"),
        (400, "VcpuLimitExceeded"),
        (403, "UnauthorizedOperation"),
        (401, "AuthFailure"),
        (401, "OptInRequired"),
        (400, "RequestExpired"),
        (400, "InvalidInstanceID.NotFound"),
        (400, "InvalidAMIID.NotFound"),
        (400, "IdempotentParameterMismatch"),
        (400, "IncorrectInstanceState"),
        (400, "InvalidParameterValue"),
    ] {
        all.push(Fault::refused(status, code));
    }
    all
}

/// One life, with a script. Gives the number of requests until it ran, and of all.
async fn life(script: Script, anew: bool, context: &str) -> (usize, usize) {
    let stage = Stage::new().await;
    stage.script(script);
    let mut machine = Machine::new("u1");
    let ran = until_running(&stage, &mut machine, anew).await;
    ran.unwrap_or_else(|error| panic!("{context}: {error}"));
    let requests = stage.requests();
    let gone = until_gone(&stage, &mut machine, anew).await;
    gone.unwrap_or_else(|error| panic!("{context}: {error}"));
    // What is still under way.
    stage.clock.advance(Duration::from_secs(3600));
    let journal = stage.fake.journal();
    check(&journal, context);
    assert_eq!(journal.made("instance"), 1, "{context}");
    (requests, journal.entries.len())
}

/// Every fault, for so many requests, at every step in a run of everything (`cargo xtask test --all`), else at each
/// `stride`th, of another fault at other ones.
async fn every_fault_at_every_step(anew: bool, length: usize, stride: usize) {
    let (_, steps) = life(Script::default(), anew, "no fault").await;
    assert!(steps > 10, "{steps} requests");
    let stride = if is_all() { 1 } else { stride };
    let mut lives = 0;
    for (number, fault) in faults().into_iter().enumerate() {
        for step in (number % stride..steps).step_by(stride) {
            let context = format!("{fault:?} at {step} for {length}, anew: {anew}");
            let script = Script::default().and(step, step + length, fault.clone());
            life(script, anew, &context).await;
            lives += 1;
        }
    }
    println!("{lives} lives of {steps} steps: duplicates 0, orphans 0");
}

/// Whether everything is run.
fn is_all() -> bool {
    std::env::var("COVEY_ALL").is_ok_and(|value| value == "1")
}

#[tokio::test]
async fn every_fault_at_steps_with_one_client() {
    every_fault_at_every_step(false, 1, 3).await;
}

#[tokio::test]
async fn every_fault_at_steps_with_a_client_that_begins_anew() {
    every_fault_at_every_step(true, 1, 5).await;
}

#[tokio::test]
async fn every_fault_at_steps_several_times_in_a_row() {
    every_fault_at_every_step(false, 4, 7).await;
}

/// The Machine is deleted while nobody knows what became of its creation.
#[tokio::test]
async fn machine_that_goes_at_any_step_leaves_nothing() {
    let (steps, _) = life(Script::default(), false, "no fault").await;
    let stride = if is_all() { 1 } else { 2 };
    for (number, fault) in faults().into_iter().enumerate() {
        for step in (number % stride..steps).step_by(stride) {
            let context = format!("deleted after {fault:?} at {step}");
            let stage = Stage::new().await;
            stage.script(Script::at(step, fault.clone()));
            let mut machine = Machine::new("u1");
            let cloud = stage.cloud();
            while stage.requests() <= step {
                let ran = machine.want(&cloud, stage.clock.now()).await;
                ran.unwrap_or_else(|error| panic!("{context}: {error}"));
                stage.clock.advance(ROUND);
            }
            let gone = until_gone(&stage, &mut machine, false).await;
            gone.unwrap_or_else(|error| panic!("{context}: {error}"));
            stage.clock.advance(Duration::from_secs(3600));
            check(&stage.fake.journal(), &context);
        }
    }
}

/// Two operators, both of whom believe that they lead.
#[tokio::test]
async fn two_that_ask_at_once_get_one_machine() {
    let stage = Stage::new().await;
    let (one, other) = (stage.cloud(), stage.cloud());
    let mut machine = Machine::new("u1");
    for _ in 0..4 {
        let wanted = machine.wanted.clone();
        let _ = tokio::join!(one.create(&wanted), other.create(&wanted));
        stage.clock.advance(ROUND);
    }
    assert_eq!(stage.fake.journal().made("instance"), 1);
    machine.asked = Asked::Pending { deleted: None };
    until_running(&stage, &mut machine, false).await.unwrap();
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "two operators");
}
