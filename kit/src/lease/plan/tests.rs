//! The election step by step, and its safety in the worst case.

use super::*;

fn record(holder: &str, version: u32) -> Record {
    Record {
        holder: (!holder.is_empty()).then(|| holder.to_owned()),
        duration: Some(Duration::from_secs(15)),
        resource_version: version.to_string(),
        transitions: 3,
        renewed: None,
        gap: None,
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn take(version: u32) -> Step {
    Step::Take {
        resource_version: version.to_string(),
        transitions: 4,
    }
}

#[test]
fn an_absent_or_released_lease_is_taken_at_once() {
    let now = Instant::now();
    let mut elector = Elector::new("a", Timing::default());
    assert_eq!(elector.observe(now, None), Step::Create);
    assert_eq!(elector.observe(now, Some(record("", 5))), take(5));
}

#[test]
fn a_deleted_lease_is_created_only_once_its_holder_must_have_stopped() {
    let start = Instant::now();
    let mut elector = Elector::new("a", Timing::default());
    assert_eq!(elector.observe(start, Some(record("b", 1))), Step::Wait);
    assert_eq!(elector.observe(start + seconds(2), None), Step::Wait);
    assert_eq!(elector.observe(start + seconds(17), None), Step::Wait);
    assert_eq!(elector.observe(start + seconds(18), None), Step::Create);
}

#[test]
fn a_leader_whose_lease_was_deleted_stops_and_creates_it_anew() {
    let now = Instant::now();
    let mut elector = Elector::new("a", Timing::default());
    elector.wrote(now, record("a", 8));
    assert_eq!(elector.observe(now, None), Step::Create);
    assert_eq!(elector.leads_until(), None);
}

#[test]
fn a_held_lease_is_taken_only_after_it_stood_still_for_its_duration() {
    let start = Instant::now();
    let mut elector = Elector::new("a", Timing::default());
    assert_eq!(elector.observe(start, Some(record("b", 1))), Step::Wait);
    assert_eq!(
        elector.observe(start + seconds(14), Some(record("b", 2))),
        Step::Wait
    );
    assert_eq!(
        elector.observe(start + seconds(28), Some(record("b", 2))),
        Step::Wait
    );
    assert_eq!(
        elector.observe(start + seconds(30), Some(record("b", 2))),
        take(2)
    );
}

#[test]
fn a_holder_that_promised_longer_is_given_longer() {
    let start = Instant::now();
    let mut elector = Elector::new("a", Timing::default());
    let long = Record {
        duration: Some(seconds(60)),
        ..record("b", 1)
    };
    assert_eq!(elector.observe(start, Some(long.clone())), Step::Wait);
    assert_eq!(
        elector.observe(start + seconds(59), Some(long.clone())),
        Step::Wait
    );
    assert_eq!(elector.observe(start + seconds(61), Some(long)), take(1));
}

#[test]
fn a_restarted_process_with_the_same_identity_renews_without_waiting() {
    let mut elector = Elector::new("a", Timing::default());
    let step = elector.observe(Instant::now(), Some(record("a", 7)));
    assert_eq!(
        step,
        Step::Renew {
            resource_version: "7".to_owned(),
            transitions: 3
        }
    );
    assert_eq!(
        elector.leads_until(),
        None,
        "it leads only once its own write succeeded"
    );
}

#[test]
fn leading_is_counted_from_the_sending_of_the_write() {
    let sent = Instant::now();
    let mut elector = Elector::new("a", Timing::default());
    elector.wrote(sent, record("a", 8));
    assert_eq!(elector.leads_until(), Some(sent + seconds(10)));
    assert_eq!(elector.renewable(), Some(record("a", 8)));
    elector.forget();
    assert_eq!((elector.leads_until(), elector.renewable()), (None, None));
}

#[test]
fn seeing_another_holder_ends_leading() {
    let now = Instant::now();
    let mut elector = Elector::new("a", Timing::default());
    elector.wrote(now, record("a", 8));
    assert_eq!(elector.observe(now, Some(record("b", 9))), Step::Wait);
    assert_eq!(elector.leads_until(), None);
}

#[test]
fn a_follower_never_takes_over_while_the_leader_may_believe_to_lead() {
    // The worst case: the follower sees the leader's write at the very moment it was sent.
    let sent = Instant::now();
    let timing = Timing::default();
    let mut leader = Elector::new("a", timing);
    let mut follower = Elector::new("b", timing);
    leader.wrote(sent, record("a", 1));
    follower.observe(sent, Some(record("a", 1)));
    for millis in (0..=15_000).step_by(100) {
        let now = sent + Duration::from_millis(millis);
        let leads = leader.leads_until().is_some_and(|until| now < until);
        let takes = follower.observe(now, Some(record("a", 1))) != Step::Wait;
        assert!(!(leads && takes), "after {millis} ms");
    }
}
