//! Random lives: locations are cut off, APIs die, offerings sell out, machines die, sizes change, the operator
//! restarts.
//!
//! Invariant: every step obeys the laws, and when everything is mended everything is as wanted.

use std::time::Duration;

use placement::next::Rebalance;
use placement::place::State;
use proptest::prelude::*;

use crate::cluster::Cluster;
use crate::fake::Location;

#[derive(Clone, Debug)]
enum Happening {
    Cut(usize, bool),
    Api(usize, bool),
    SoldOut(usize, bool),
    Endpoint(bool),
    Scale(u32),
    Weight(usize, u32),
    Die(prop::sample::Index),
    Restart,
    Later(i64),
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::*;
    let (which, flag) = (|| 0..3_usize, any::<bool>);
    prop_oneof![
        4 => (which(), flag()).prop_map(|(n, is)| Cut(n, is)),
        3 => (which(), flag()).prop_map(|(n, is)| Api(n, is)),
        1 => (which(), flag()).prop_map(|(n, is)| SoldOut(n, is)),
        1 => flag().prop_map(Endpoint),
        2 => (1..12_u32).prop_map(Scale),
        1 => (which(), 0..4_u32).prop_map(|(n, weight)| Weight(n, weight)),
        1 => any::<prop::sample::Index>().prop_map(Die),
        2 => Just(Restart),
        6 => (1..400_i64).prop_map(Later),
    ]
}

fn happens(cluster: &mut Cluster, what: &Happening) {
    match what {
        Happening::Cut(n, is) => cluster.locations[*n].is_cut = *is,
        Happening::Api(n, is) => cluster.locations[*n].is_api_down = *is,
        Happening::SoldOut(n, is) => {
            let types = ["large", "medium", "small"].map(str::to_owned);
            let types = types.into_iter().filter(|_| *is);
            cluster.locations[*n].sold_out = types.collect();
        }
        Happening::Endpoint(is) => cluster.is_public_cut = *is,
        Happening::Scale(replicas) => cluster.replicas = *replicas,
        Happening::Weight(n, weight) => cluster.locations[*n].weight = *weight,
        Happening::Die(which) if !cluster.machines.is_empty() => {
            let n = which.index(cluster.machines.len());
            cluster.machines[n].is_dead = cluster.machines[n].has_joined;
        }
        Happening::Die(_) => {}
        Happening::Restart => {
            let before = cluster.states();
            cluster.restart();
            cluster.run(1);
            assert_eq!(cluster.states(), before, "a restart changed a state");
        }
        Happening::Later(seconds) => cluster.pass(*seconds),
    }
}

proptest! {
    // A life is ten thousand steps.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(8)))]

    #[test]
    fn whatever_happens_it_ends_as_wanted(
        happenings in prop::collection::vec(happening(), 1..30),
        gradual in any::<bool>(),
    ) {
        let locations = ["a", "b", "c"].map(|name| Location::new(name, 1)).into();
        let mut cluster = Cluster::new(6, locations);
        if gradual {
            cluster.rebalance = Rebalance::Gradual;
        }
        cluster.failover.give_up_after = Duration::from_secs(3600);
        cluster.run(300);
        for happening in &happenings {
            happens(&mut cluster, happening);
        }
        for location in &mut cluster.locations {
            (location.is_cut, location.is_api_down) = (false, false);
            location.sold_out.clear();
            location.weight = location.weight.max(1);
        }
        cluster.is_public_cut = false;
        // An hour in which machines that never came back are given up, two in which a location proves that
        // it stays, and the time that moving takes.
        cluster.pass(6 * 3600);
        prop_assert_eq!(cluster.states(), [State::Healthy; 3]);
        prop_assert_eq!(cluster.ready(), cluster.replicas);
        prop_assert_eq!(cluster.machines.len(), cluster.ready() as usize);
        if gradual {
            let is_over = cluster.locations.iter().zip(cluster.spread()).any(|(location, ready)| {
                ready > cluster.step.targets.locations[&location.name]
            });
            prop_assert!(!is_over, "{:?} for {:?}", cluster.spread(), cluster.step.targets.locations);
        }
    }
}
