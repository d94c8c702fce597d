//! How often the API is asked.
//!
//! Invariant: below half of what a project may ask, whatever there is to do.

use std::time::Duration;

use fake_clouds::faults::{Fault, Script};
use provider_hetzner::http_client::LIMIT;
use providers::FaultKind;
use providers::subject::Asked;

use crate::life::{Machine, Stage, check, fill, until_gone, until_running};

/// Machines of a fleet.
const FLEET: usize = 200;

#[tokio::test]
async fn fleet_at_rest_is_looked_at_by_few_lists() {
    let stage = Stage::new().await;
    fill(&stage, u64::try_from(FLEET).unwrap());
    let cloud = stage.cloud();
    let mut machines: Vec<_> = (1..=FLEET)
        .map(|n| Machine::new(&format!("u{n}")))
        .collect();
    for machine in &mut machines {
        machine.asked = Asked::Seen;
    }
    let before = stage.requests();
    // Each is looked at each 2 min, as the operator does.
    for _ in 0..30 {
        for machine in &mut machines {
            assert!(machine.want(&cloud, stage.clock.now()).await.unwrap());
        }
        stage.clock.advance(Duration::from_secs(120));
    }
    let asked = stage.requests() - before;
    let pages = FLEET.div_ceil(50);
    println!("{FLEET} machines at rest: {asked} requests in an hour, {pages} pages a list");
    assert!(asked <= 31 * pages, "{asked}");
    // A list of 1,000 has 20 pages.
    assert!(30 * 20 < LIMIT as usize / 2);
}

#[tokio::test]
async fn own_limit_is_told_and_never_the_projects_reached() {
    let stage = Stage::new().await;
    let cloud = stage.cloud();
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let mut refused = None;
    for _ in 0..1000 {
        if let Err(error) = cloud.list("covey.dev/installation").await {
            refused = Some(error);
            break;
        }
    }
    let refused = refused.unwrap();
    assert_eq!(refused.code, "own_budget");
    assert!(matches!(
        refused.kind,
        FaultKind::Throttled { after: Some(_) }
    ));
    let throttled = |status: Option<u16>| status == Some(429);
    let entries = stage.fake.journal().entries;
    assert!(!entries.iter().any(|entry| throttled(entry.status)));
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "own limit");
}

#[tokio::test]
async fn project_whose_limit_others_use_up_is_asked_slowly() {
    let stage = Stage::new().await;
    stage.fake.contents().behaviour.rate_limit = 180;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "a small limit");
}

#[tokio::test]
async fn a_429_holds_back_every_call_of_the_project_as_long_as_it_says() {
    let stage = Stage::new().await;
    let throttled = Fault::Refused {
        status: 429,
        code: "rate_limit_exceeded",
        retry_after: Some(30),
    };
    stage.script(Script::at(0, throttled));
    let cloud = stage.cloud();
    let refused = cloud.account().await.unwrap_err();
    let after = Duration::from_secs(30);
    assert_eq!(refused.kind, FaultKind::Throttled { after: Some(after) });
    let machine = Machine::new("u1");
    for _ in 0..10 {
        assert!(cloud.create(&machine.wanted).await.is_err());
        assert!(cloud.list("x").await.is_err());
    }
    assert_eq!(stage.requests(), 1, "nothing is sent meanwhile");
    stage.clock.advance(after);
    cloud.account().await.unwrap();
}
