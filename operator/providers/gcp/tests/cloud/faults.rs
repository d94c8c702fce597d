//! Every fault at every step of a creation and of a deletion.
//!
//! Invariant: `duplicates` and `orphans` are 0 in each, and in each the machine ran and is gone in the end.

use std::time::Duration;

use fake_clouds::faults::{Fault, Script};
use providers::subject::Asked;

use crate::life::{Machine, ROUND, Stage, check, until_gone, until_running};

/// Longer than a client waits.
const LONG: Duration = Duration::from_secs(60);

fn faults() -> Vec<Fault> {
    let refused = |status, code, retry_after| Fault::Refused {
        status,
        code,
        retry_after,
    };
    let done_but = |status, code| Fault::DoneBut { status, code };
    vec![
        Fault::LostRequest,
        Fault::LostAnswer,
        Fault::CutAnswer,
        Fault::Garbage,
        Fault::StuckBefore(LONG),
        Fault::StuckAfter(LONG),
        Fault::Late(LONG),
        refused(429, "rateLimitExceeded", None),
        refused(429, "rateLimitExceeded", Some(20)),
        Fault::refused(403, "rateLimitExceeded"),
        Fault::refused(500, "internalError"),
        Fault::refused(502, ""),
        Fault::refused(503, "backendError"),
        done_but(503, "backendError"),
        done_but(504, ""),
        Fault::refused(401, "authError"),
        Fault::refused(403, "forbidden"),
        Fault::refused(403, "quotaExceeded"),
        Fault::refused(404, "notFound"),
        Fault::refused(409, "alreadyExists"),
        Fault::refused(412, "conditionNotMet"),
        Fault::refused(400, "resourceNotReady"),
        Fault::refused(400, "invalid"),
        Fault::EndlessPages,
    ]
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
/// `stride`th, of another fault at other ones: a thousand lives take minutes.
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
    every_fault_at_every_step(false, 1, 5).await;
}

#[tokio::test]
async fn every_fault_at_steps_with_a_client_that_begins_anew() {
    every_fault_at_every_step(true, 1, 11).await;
}

#[tokio::test]
async fn every_fault_at_steps_several_times_in_a_row() {
    every_fault_at_every_step(false, 4, 11).await;
}

/// The Machine is deleted while nobody knows what became of its creation.
#[tokio::test]
async fn machine_that_goes_at_any_step_leaves_nothing() {
    let (steps, _) = life(Script::default(), false, "no fault").await;
    let stride = if is_all() { 1 } else { 3 };
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
async fn two_that_ask_at_once_get_one_instance() {
    let stage = Stage::new().await;
    let (one, other) = (stage.cloud(), stage.cloud());
    let mut machine = Machine::new("u1");
    for _ in 0..4 {
        let wanted = machine.wanted.clone();
        let _ = tokio::join!(one.create(&wanted), other.create(&wanted));
    }
    assert_eq!(stage.fake.journal().made("instance"), 1);
    machine.asked = Asked::Pending { deleted: None };
    until_running(&stage, &mut machine, false).await.unwrap();
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "two operators");
}
