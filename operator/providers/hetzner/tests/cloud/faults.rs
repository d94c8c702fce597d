//! Every fault at every step of a creation and of a deletion.
//!
//! Invariant: `duplicates` and `orphans` are 0 in each, and in each the machine ran and is gone in the end.

use std::time::Duration;

use fake_clouds::faults::{Fault, Script};

use crate::life::{Machine, Stage, check, until_gone, until_running};

/// Longer than a client waits.
const LONG: Duration = Duration::from_secs(60);

fn faults() -> Vec<Fault> {
    let throttled = |retry_after| Fault::Refused {
        status: 429,
        code: "rate_limit_exceeded",
        retry_after,
    };
    vec![
        Fault::LostRequest,
        Fault::LostAnswer,
        Fault::CutAnswer,
        Fault::Garbage,
        Fault::StuckBefore(LONG),
        Fault::StuckAfter(LONG),
        Fault::Late(LONG),
        throttled(None),
        throttled(Some(20)),
        Fault::refused(500, "server_error"),
        Fault::refused(502, ""),
        Fault::refused(503, "unavailable"),
        Fault::refused(504, "timeout"),
        Fault::DoneBut {
            status: 500,
            code: "server_error",
        },
        Fault::DoneBut {
            status: 504,
            code: "",
        },
        Fault::refused(401, "unauthorized"),
        Fault::refused(403, "forbidden"),
        Fault::refused(403, "resource_limit_exceeded"),
        Fault::refused(404, "not_found"),
        Fault::refused(409, "conflict"),
        Fault::refused(409, "uniqueness_error"),
        Fault::refused(412, "resource_unavailable"),
        Fault::refused(422, "invalid_input"),
        Fault::refused(423, "locked"),
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
    assert_eq!(journal.made("server"), 1, "{context}");
    (requests, journal.entries.len())
}

/// Every fault, for so many requests, at every step, or at each `stride`th.
async fn every_fault_at_every_step(anew: bool, length: usize, stride: usize) {
    let (_, steps) = life(Script::default(), anew, "no fault").await;
    assert!(steps > 10, "{steps} requests");
    let mut lives = 0;
    for fault in faults() {
        for step in (0..steps).step_by(stride) {
            let context = format!("{fault:?} at {step} for {length}, anew: {anew}");
            let script = Script::default().and(step, step + length, fault.clone());
            life(script, anew, &context).await;
            lives += 1;
        }
    }
    println!("{lives} lives of {steps} steps: duplicates 0, orphans 0");
}

#[tokio::test]
async fn every_fault_at_every_step_with_one_client() {
    every_fault_at_every_step(false, 1, 1).await;
}

#[tokio::test]
async fn every_fault_at_every_step_with_a_client_that_begins_anew() {
    every_fault_at_every_step(true, 1, 1).await;
}

#[tokio::test]
async fn every_fault_at_every_third_step_several_times_in_a_row() {
    every_fault_at_every_step(false, 4, 3).await;
}

/// The Machine is deleted while nobody knows what became of its creation.
#[tokio::test]
async fn machine_that_goes_at_any_step_leaves_nothing() {
    let (steps, _) = life(Script::default(), false, "no fault").await;
    for fault in faults() {
        for step in 0..steps {
            let context = format!("deleted after {fault:?} at {step}");
            let stage = Stage::new().await;
            stage.script(Script::at(step, fault.clone()));
            let mut machine = Machine::new("u1");
            let cloud = stage.cloud();
            while stage.requests() <= step {
                let ran = machine.want(&cloud, stage.clock.now()).await;
                ran.unwrap_or_else(|error| panic!("{context}: {error}"));
                stage.clock.advance(crate::life::ROUND);
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
async fn two_that_ask_at_once_get_one_server() {
    let stage = Stage::new().await;
    let (one, other) = (stage.cloud(), stage.cloud());
    let mut machine = Machine::new("u1");
    for _ in 0..4 {
        let wanted = machine.wanted.clone();
        let _ = tokio::join!(one.create(&wanted), other.create(&wanted));
    }
    assert_eq!(stage.fake.journal().made("server"), 1);
    machine.asked = providers::subject::Asked::Pending { deleted: None };
    until_running(&stage, &mut machine, false).await.unwrap();
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "two operators");
}
