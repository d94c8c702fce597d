//! Laws: everybody else acts at any time, and the plan is broken off anywhere.

use kube::ResourceExt as _;
use proptest::prelude::*;
use serde_json::json;

use super::assert_adopted;
use super::sim::{Sim, object, settings};
use crate::adopt::observed::{is_of, volume_of};
use crate::adopt::plan::{Cluster, Next, Write, plan};

#[derive(Clone, Debug)]
enum Act {
    /// The plan looks, and its first so many writes are sent; then it is broken off.
    Plan(usize),
    /// As that, but somebody acts between looking and writing.
    Late(usize, u8),
    /// Somebody else acts.
    Other(u8),
    /// Somebody uses a claim that is there.
    Use(usize),
    /// Nobody uses anything.
    ScaleDown,
    /// The tenant sets the policy of the old PersistentVolume back.
    SetBack(usize),
    /// A controller makes a claim that is missing.
    Early(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => (0..4usize).prop_map(Act::Plan),
        2 => (0..4usize, any::<u8>()).prop_map(|(n, who)| Act::Late(n, who)),
        4 => any::<u8>().prop_map(Act::Other),
        1 => (0..2usize).prop_map(Act::Use),
        1 => Just(Act::ScaleDown),
        1 => (0..2usize).prop_map(Act::SetBack),
        1 => (0..2usize).prop_map(Act::Early),
    ];
    proptest::collection::vec(act, 0..80)
}

fn writes(sim: &Sim) -> Vec<Write> {
    let lines = plan(&sim.observed, &settings()).into_iter();
    lines
        .filter_map(|line| match line.next {
            Next::Write(_, write) => Some(write),
            _ => None,
        })
        .collect()
}

fn act(sim: &mut Sim, act: &Act, made: &mut Vec<String>) {
    match act {
        Act::Plan(most) => {
            for write in writes(sim).into_iter().take(*most) {
                sim.send(&write);
            }
        }
        Act::Late(most, who) => {
            let stale = writes(sim);
            sim.act(*who);
            sim.act(who.wrapping_add(1));
            stale.iter().take(*most).for_each(|write| sim.send(write));
        }
        Act::Other(who) => sim.act(*who),
        Act::Use(number) => {
            let name = format!("data-{number}");
            let claim = sim
                .observed
                .tenant
                .claims
                .iter()
                .find(|c| c.name_any() == name)
                .cloned();
            if let Some(claim) = claim {
                sim.pod(&name, volume_of(&claim));
            }
        }
        Act::ScaleDown => sim.scale_down(),
        Act::SetBack(number) => {
            let name = format!("pvc-{number}");
            let volume = sim
                .observed
                .tenant
                .volumes
                .iter_mut()
                .find(|v| v.name_any() == name);
            // One without a claim would be taken back at once, as its owner asks.
            if let Some(volume) = volume
                && sim
                    .observed
                    .tenant
                    .claims
                    .iter()
                    .any(|claim| is_of(volume, claim))
            {
                let spec = volume.spec.as_mut().unwrap();
                spec.persistent_volume_reclaim_policy = Some("Delete".to_owned());
            }
        }
        Act::Early(number) => {
            let name = format!("data-{number}");
            if !sim
                .observed
                .tenant
                .claims
                .iter()
                .any(|c| c.name_any() == name)
            {
                let claim = json!({
                    "metadata": { "name": name, "namespace": "default" },
                    "spec": { "storageClassName": "kubevirt" },
                });
                sim.make_claim(Cluster::Tenant, &object(claim));
                made.push(sim.observed.tenant.claims.last().unwrap().uid().unwrap());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever happens meanwhile and wherever it is broken off: no storage is lost, no claim of anybody
    /// else is deleted, it comes to rest, and once nobody is in the way everything is ours.
    #[test]
    fn no_storage_is_lost_and_the_end_is_the_same(acts in acts()) {
        let mut sim = Sim::new(2);
        let mut made = Vec::new();
        for one in &acts {
            act(&mut sim, one, &mut made);
            prop_assert!(sim.lost.is_empty(), "{:?} after {one:?}", sim.lost);
            for uid in &made {
                let there = sim.observed.tenant.claims.iter().any(|c| c.uid().as_ref() == Some(uid));
                prop_assert!(there, "a claim of somebody else was deleted");
            }
        }
        sim.run(&settings());
        prop_assert_eq!(sim.run(&settings()), 0, "it came to rest");
        // An administrator does what the sentences say.
        sim.scale_down();
        sim.observed.tenant.claims.retain(|claim| !made.contains(&claim.uid().unwrap()));
        sim.run(&settings());
        prop_assert!(sim.lost.is_empty());
        (0..2).for_each(|number| assert_adopted(&sim, number));
        prop_assert_eq!(sim.run(&settings()), 0);
    }
}
