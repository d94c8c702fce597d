//! Lists of many pages, whole and not.
//!
//! Invariant: a list that misses something says so, and proves nothing.

use fake_clouds::faults::{Fault, Script};
use providers::identity::{Labels, of_installation, of_namespace};
use providers::{FaultKind, Presence};

use crate::life::{Machine, ROUND, Stage, TOKEN, fill};

#[tokio::test]
async fn all_pages_are_read_and_sorted_by_name() {
    let stage = Stage::new().await;
    fill(&stage, 120);
    let cloud = stage.cloud();
    let all = cloud
        .list(&of_installation("installation-1"))
        .await
        .unwrap();
    assert!(all.complete);
    assert_eq!(all.machines.len(), 120);
    assert!(all.machines.is_sorted_by(|a, b| a.name <= b.name));
    let namespace = of_namespace("installation-1", "covey-demo-0a1b2c3d4e");
    assert_eq!(cloud.list(&namespace).await.unwrap().machines.len(), 120);
    let other = of_namespace("installation-1", "covey-other-1");
    assert_eq!(cloud.list(&other).await.unwrap().machines.len(), 0);
    let other = of_installation("installation-2");
    assert_eq!(cloud.list(&other).await.unwrap().machines.len(), 0);
}

#[tokio::test]
async fn page_that_does_not_come_makes_a_list_incomplete() {
    for fault in [
        Fault::refused(503, "unavailable"),
        Fault::CutAnswer,
        Fault::Garbage,
        Fault::refused(429, "rate_limit_exceeded"),
        Fault::EndlessPages,
    ] {
        let stage = Stage::new().await;
        fill(&stage, 120);
        stage.script(Script::default().each("GET", "/servers", "page=2", fault.clone()));
        let cloud = stage.cloud();
        let part = cloud
            .list(&of_installation("installation-1"))
            .await
            .unwrap();
        // The second page of endless ones is followed by the third, which ends.
        assert_eq!(part.complete, fault == Fault::EndlessPages, "{fault:?}");
        let found = cloud.found().await;
        assert_eq!(found.is_ok(), fault == Fault::EndlessPages, "{fault:?}");
    }
}

#[tokio::test]
async fn pages_without_an_end_are_not_followed_for_ever() {
    let stage = Stage::new().await;
    fill(&stage, 10);
    stage.script(Script::default().each("GET", "/servers", "", Fault::EndlessPages));
    let cloud = stage.cloud();
    let part = cloud
        .list(&of_installation("installation-1"))
        .await
        .unwrap();
    assert!(!part.complete);
    assert!(stage.requests() <= 62, "{}", stage.requests());
}

#[tokio::test]
async fn machine_that_a_broken_list_misses_is_not_gone() {
    let stage = Stage::new().await;
    fill(&stage, 120);
    let mut machine = Machine::new("u110");
    machine.asked = providers::subject::Asked::Seen;
    let broken = Fault::refused(503, "unavailable");
    stage.script(Script::default().each("GET", "/servers", "page=2", broken));
    let cloud = stage.cloud();
    for _ in 0..50 {
        let found = cloud.describe(&machine.subject()).await;
        assert!(!matches!(found, Ok(Presence::Absent(_))), "{found:?}");
        stage.clock.advance(ROUND);
    }
}

#[tokio::test]
async fn check_says_whose_it_is_and_what_is_missing() {
    let stage = Stage::new().await;
    let cloud = stage.cloud();
    let types = |name: &str| [name.to_owned()];
    let image = ["worker-1.35.4".to_owned()];
    let checked = cloud.check(&types("cx22"), &image).await.unwrap();
    assert_eq!(checked.account, Some(cloud.account().await.unwrap()));
    let id = stage.fake.contents().projects[TOKEN].images[0]
        .id
        .to_string();
    cloud.check(&types("cx22"), &[id]).await.unwrap();
    for (types, image, field) in [
        (types("huge"), "worker-1.35.4", "types of the node pool"),
        (types("cx11"), "worker-1.35.4", "types of the node pool"),
        (types("cx22"), "4711", "image of the node pool"),
        (types("cx22"), "no-such-image", "image of the node pool"),
    ] {
        let refused = cloud.check(&types, &[image.to_owned()]).await.unwrap_err();
        assert_eq!(refused.kind, FaultKind::Terminal);
        assert!(refused.to_string().contains(field), "{refused}");
    }
    let sizes = cloud.sizes(&["cx32".to_owned(), "cx22".to_owned()]).await;
    let sizes = sizes.unwrap();
    assert_eq!(sizes[0].offering.price, Some(0.011));
    assert_eq!(sizes[1].offering.price, Some(0.006));
    let writes = stage.fake.journal().requests("GET");
    assert_eq!(writes, stage.requests(), "it changes nothing");
}

#[tokio::test]
async fn selector_of_labels_is_sent_as_it_is_meant() {
    let stage = Stage::new().await;
    fill(&stage, 3);
    {
        let mut contents = stage.fake.contents();
        let project = contents.projects.get_mut(TOKEN).unwrap();
        project.servers.get_mut(&2).unwrap().labels = Labels::new();
    }
    let cloud = stage.cloud();
    let all = cloud
        .list(&of_installation("installation-1"))
        .await
        .unwrap();
    assert_eq!(all.machines.len(), 2);
}
