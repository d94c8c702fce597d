//! Scenarios of clouds.md 13.3: M1, M3 to M7, M17, and what 11.3 and 11.4 promise beside.
//!
//! Invariant: times are those of the virtual clock, so they may be asserted.

use placement::budget::{Budget, Micros};
use placement::next::{Hold, Rebalance, Why};
use placement::place::State;
use placement::recovery::Reason;

use crate::cluster::{Cluster, at};
use crate::fake::{BOOT, Location, Phase};

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;

fn three() -> Vec<Location> {
    ["ec2", "gcp", "azure"]
        .map(|name| Location::new(name, 1))
        .into()
}

fn nine() -> Cluster {
    let cluster = Cluster::settled(9, three());
    assert_eq!(cluster.spread(), [3, 3, 3]);
    cluster
}

#[test]
fn m1_weights_are_followed_one_at_a_time_and_never_below_replicas() {
    let mut cluster = nine();
    cluster.rebalance = Rebalance::Gradual;
    let weights = [2, 1, 0];
    (0..3).for_each(|n| cluster.locations[n].weight = weights[n]);
    for _ in 0..HOUR {
        cluster.run(1);
        assert!(cluster.ready() >= 9);
        assert!(cluster.machines.len() <= 10);
    }
    assert_eq!(cluster.spread(), [6, 3, 0]);
    assert_eq!(cluster.asked.len(), 3);
    assert!(
        cluster
            .asked
            .iter()
            .all(|(_, why, _)| *why == Why::Rebalance)
    );
}

#[test]
fn m1_without_rebalance_nothing_moves() {
    let mut cluster = nine();
    let weights = [2, 1, 0];
    (0..3).for_each(|n| cluster.locations[n].weight = weights[n]);
    let names = cluster.names();
    cluster.pass(2 * HOUR);
    assert_eq!(cluster.names(), names);
}

#[test]
fn m3_an_api_that_is_dead_replaces_nothing_and_new_ones_go_elsewhere() {
    let mut cluster = nine();
    let names = cluster.names();
    cluster.location("ec2").is_api_down = true;
    cluster.run(2 * MINUTE);
    assert_eq!(cluster.state("ec2"), State::Suspect);
    assert_eq!(
        cluster.location("ec2").record.reason,
        Some(Reason::ApiOutage)
    );
    let before = cluster.now;
    cluster.replicas = 12;
    cluster.run(8 * MINUTE);
    assert_eq!(cluster.spread(), [3, 4, 5]);
    // A first try each, and the others as soon as that is answered.
    assert!(
        cluster.asked.iter().all(|(.., when)| when - before <= 5),
        "{:?}",
        cluster.asked
    );
    assert_eq!(cluster.asked.len(), 3);
    cluster.location("ec2").is_api_down = false;
    cluster.pass(HOUR);
    assert_eq!(
        (cluster.asked.len(), cluster.state("ec2")),
        (3, State::Healthy)
    );
    assert!(cluster.names().is_superset(&names));
}

#[test]
fn m4_a_location_that_is_cut_off_is_replaced_within_a_minute_and_comes_back() {
    for is_api_down in [false, true] {
        let mut cluster = nine();
        let names = cluster.names();
        cluster.location("gcp").is_cut = true;
        cluster.location("gcp").is_api_down = is_api_down;
        let cut = cluster.now;
        cluster.pass(HOUR);
        assert_eq!(cluster.state("gcp"), State::Out);
        assert_eq!(cluster.spread(), [4, 0, 5]);
        let asked: Vec<_> = cluster.asked.iter().map(|(.., when)| when - cut).collect();
        assert_eq!(asked.len(), 3);
        assert!(asked.iter().all(|after| *after <= 35), "{asked:?}");
        assert!(
            cluster.names().is_superset(&names),
            "nothing is deleted there"
        );
        let healed = cluster.now;
        cluster.location("gcp").is_cut = false;
        cluster.location("gcp").is_api_down = false;
        while cluster.names() != names {
            cluster.run(1);
            assert!(cluster.ready() >= 9 && cluster.now - healed < HOUR);
        }
        assert_eq!(cluster.state("gcp"), State::Healthy);
        // A lease or a probe, a minute, returnAfter, three drains.
        assert!(cluster.now - healed <= 5 * MINUTE + MINUTE + 10 * MINUTE + 3 * 30);
        cluster.pass(6 * HOUR);
        assert_eq!((cluster.names(), cluster.asked.len()), (names, 3));
    }
}

#[test]
fn m5_an_endpoint_that_is_cut_replaces_nothing() {
    let mut locations = three();
    locations.push(Location {
        endpoint: "inside",
        ..Location::new("kubevirt", 1)
    });
    let mut cluster = Cluster::settled(12, locations);
    let names = cluster.names();
    cluster.is_public_cut = true;
    cluster.pass(2 * HOUR);
    assert_eq!(
        cluster.verdict.unreachable["public"],
        ["ec2", "gcp", "azure"]
    );
    let reason = cluster.location("ec2").record.reason;
    assert_eq!(reason, Some(Reason::EndpointUnreachable));
    cluster.is_public_cut = false;
    cluster.pass(HOUR);
    assert_eq!((cluster.names(), cluster.asked.len()), (names, 0));
    assert_eq!(cluster.states(), [State::Healthy; 4]);
}

#[test]
fn when_all_are_silent_nothing_happens() {
    let mut cluster = nine();
    let names = cluster.names();
    cluster.is_public_cut = true;
    cluster.pass(2 * HOUR);
    assert_eq!(cluster.states(), [State::Healthy; 3]);
    cluster.is_public_cut = false;
    cluster.pass(HOUR);
    assert_eq!((cluster.names(), cluster.asked.len()), (names, 0));
}

#[test]
fn m6_a_location_that_flaps_costs_what_it_lost_once() {
    // Away and back for so many seconds each: a period of 90 s, and 90 s each.
    for half in [45, 90] {
        let mut cluster = nine();
        let names = cluster.names();
        let mut was_out = false;
        for second in 0..2 * HOUR {
            cluster.location("gcp").is_cut = (second / half) % 2 == 0;
            cluster.run(1);
            let state = cluster.state("gcp");
            was_out |= state == State::Out;
            assert!(!was_out || state.is_outage());
        }
        assert!(was_out);
        assert_eq!(cluster.asked.len(), 3, "{half}");
        assert!(cluster.names().is_superset(&names));
        cluster.location("gcp").is_cut = false;
        cluster.pass(4 * HOUR);
        assert_eq!((cluster.names(), cluster.asked.len()), (names, 3));
    }
}

#[test]
fn the_worst_timing_costs_four_times_what_is_lost_in_two_hours() {
    let mut cluster = nine();
    let begin = cluster.now;
    let mut relapses = 0;
    while cluster.now - begin < 2 * HOUR {
        cluster.location("gcp").is_cut = true;
        let before = cluster.asked.len();
        while cluster.asked.len() < before + 3 && cluster.now - begin < 2 * HOUR {
            cluster.run(1);
        }
        relapses += 1;
        cluster.location("gcp").is_cut = false;
        // Back until all that was made for it is gone again.
        while cluster.machines.len() > 9 && cluster.now - begin < 2 * HOUR {
            cluster.run(1);
        }
    }
    assert_eq!((relapses, cluster.asked.len()), (4, 12));
}

#[test]
fn m7_sold_out_but_for_the_last_type_of_the_last_location() {
    let mut cluster = Cluster::new(3, three());
    for location in &mut cluster.locations {
        location.sold_out = ["large", "medium", "small"].map(str::to_owned).into();
    }
    // Among equals by name, so the last one is gcp.
    cluster.location("gcp").sold_out.remove("small");
    cluster.run(2 * MINUTE);
    assert_eq!(cluster.spread(), [0, 3, 0]);
    let calls: u32 = cluster.locations.iter().map(|l| l.calls).sum();
    assert!(calls <= 9 + 5, "{calls}");
    // From each refusal to the next call at most two seconds.
    let times: Vec<_> = cluster.asked.iter().map(|(.., when)| *when).collect();
    assert!(
        times.windows(2).all(|pair| pair[1] - pair[0] <= 2),
        "{times:?}"
    );
}

#[test]
fn a_location_whose_machines_never_join_does_not_burn_money() {
    let mut cluster = Cluster::new(2, three());
    cluster.location("azure").never_joins = true;
    cluster.pass(12 * HOUR);
    // Two, then canaries after 30 min, 1 h, and every 2 h; each is waited for 10 min.
    let made = cluster.asked.len();
    assert!(made <= 2 + 2 + 2 + 6, "{made}");
    assert_eq!(cluster.ready(), 2);
}

#[test]
fn m17_a_budget_that_is_reached_in_an_outage_refuses_and_touches_nothing() {
    let mut cluster = nine();
    let names = cluster.names();
    // Ten of 0.10 an hour; nine live, silent ones too.
    cluster.budget = Some(Budget {
        hourly: Micros(1_050_000),
        currency: "EUR".to_owned(),
    });
    cluster.location("gcp").is_cut = true;
    cluster.pass(HOUR);
    assert_eq!(cluster.asked.len(), 1);
    assert!(cluster.has_hold(|hold| matches!(hold, Hold::Budget { .. })));
    assert!(cluster.names().is_superset(&names));
    cluster.location("gcp").is_cut = false;
    cluster.pass(HOUR);
    assert_eq!(cluster.names(), names);
}

#[test]
fn a_restart_in_any_phase_changes_nothing() {
    let play = |restarts: &[i64]| {
        let mut cluster = nine();
        let mut phases = Vec::new();
        for second in 0..40 * MINUTE {
            cluster.location("gcp").is_cut = second < 10 * MINUTE;
            cluster.location("gcp").is_api_down = (MINUTE..8 * MINUTE).contains(&second);
            if restarts.contains(&second) {
                let before = cluster.states();
                cluster.restart();
                cluster.run(1);
                assert_eq!(cluster.states(), before, "at {second}");
            } else {
                cluster.run(1);
            }
            let state = cluster.state("gcp");
            // The first look may fall into the time in which nobody listens yet.
            if state != State::Suspect && phases.last() != Some(&state) {
                phases.push(state);
            }
        }
        (phases, cluster.names(), cluster.asked.len())
    };
    let expected = play(&[]);
    assert_eq!(expected.0.last(), Some(&State::Healthy));
    assert_eq!(expected.2, 3);
    for second in (5..40 * MINUTE).step_by(113) {
        assert_eq!(play(&[second]), expected, "restart after {second} s");
    }
}

#[test]
fn machines_that_do_not_come_back_are_given_up_after_a_day() {
    let mut cluster = nine();
    let names = cluster.names();
    cluster.location("gcp").is_cut = true;
    cluster.pass(24 * HOUR - MINUTE);
    assert!(cluster.names().is_superset(&names));
    cluster.run(3 * MINUTE);
    let left = cluster.names().intersection(&names).count();
    assert_eq!((left, cluster.ready()), (6, 9));
    // Nothing old is left to come back, so a canary asks, and its place is healthy again.
    cluster.location("gcp").is_cut = false;
    cluster.pass(HOUR);
    assert_eq!(cluster.state("gcp"), State::Healthy);
    assert!(cluster.asked.iter().any(|(_, why, _)| *why == Why::Canary));
    assert_eq!(cluster.ready(), 9);
}

#[test]
fn the_clock_of_the_fake_is_what_it_says() {
    let mut cluster = Cluster::new(1, vec![Location::new("a", 1)]);
    cluster.run(2);
    assert_eq!(cluster.machines[0].phase, Phase::Made(2));
    cluster.run(BOOT - 1);
    assert_eq!(cluster.ready(), 0);
    cluster.run(1);
    assert_eq!((cluster.ready(), at(1) > at(0)), (1, true));
}
