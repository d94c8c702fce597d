//! What holds in any life of a pool, whatever happens to its Machines.
//!
//! Invariant: every law is looked at after every single happening, and at the end everybody is
//! well and the pool is as wanted.

use api::machine::MachinePhase;
use api::{Reason, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit_objects::known::Known;
use kube::ResourceExt;
use proptest::prelude::*;
use serde_json::json;
use tenant_cp::problem::Problem;

use super::world::World;
use crate::capacity::Answer;
use crate::controllers::node_pool::plan::{Plan, plan};

/// What may happen to a pool.
#[derive(Clone, Debug)]
enum Happening {
    Scale(i32),
    Version(bool),
    Ready(prop::sample::Index),
    Silent(prop::sample::Index),
    Unknown(prop::sample::Index),
    Failed(prop::sample::Index),
    Named(prop::sample::Index),
    Deleted(prop::sample::Index),
    Buried,
    Later(i64),
    Crash(usize),
    Capacity(bool),
    Weights([i32; 3]),
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::*;
    let index = || any::<prop::sample::Index>();
    prop_oneof![
        2 => (0..7_i32).prop_map(Scale),
        1 => any::<bool>().prop_map(Version),
        6 => index().prop_map(Ready),
        2 => index().prop_map(Silent),
        1 => index().prop_map(Unknown),
        1 => index().prop_map(Failed),
        1 => index().prop_map(Named),
        1 => index().prop_map(Deleted),
        2 => Just(Buried),
        2 => (1..12_i64).prop_map(Later),
        1 => (0..5_usize).prop_map(Crash),
        1 => any::<bool>().prop_map(Capacity),
        1 => (1..4_i32, 0..4_i32, 0..4_i32).prop_map(|(a, b, c)| Weights([a, b, c])),
    ]
}

fn happens(world: &mut World, what: Happening) {
    let live = world.live();
    let pick = |index: prop::sample::Index| (!live.is_empty()).then(|| index.get(&live).clone());
    match what {
        Happening::Scale(replicas) => world.pool.spec.replicas = replicas,
        Happening::Version(old) => {
            world.pool.spec.version = Some(if old { "1.34.4" } else { "1.35.4" }.into());
        }
        Happening::Ready(at) => {
            pick(at)
                .into_iter()
                .for_each(|n| world.says(&n, MachinePhase::Running, Some(true)));
        }
        Happening::Silent(at) => {
            pick(at)
                .into_iter()
                .for_each(|n| world.says(&n, MachinePhase::Running, Some(false)));
        }
        Happening::Unknown(at) => {
            pick(at)
                .into_iter()
                .for_each(|n| world.says(&n, MachinePhase::Running, None));
        }
        Happening::Failed(at) => {
            pick(at)
                .into_iter()
                .for_each(|n| world.says(&n, MachinePhase::Failed, Some(false)));
        }
        Happening::Named(at) => {
            let annotation = names::ANNOTATION_DELETE_MACHINE.to_owned();
            if let Some(name) = pick(at) {
                let machine = world.machine(&name);
                machine.annotations_mut().insert(annotation, String::new());
            }
        }
        Happening::Deleted(at) => {
            let now = Time(world.now);
            if let Some(name) = pick(at) {
                world.machine(&name).metadata.deletion_timestamp = Some(now);
            }
        }
        Happening::Buried => world.bury(),
        Happening::Later(minutes) => world.later(minutes),
        Happening::Crash(budget) => {
            let _ = world.reconcile(&mut budget.clone());
        }
        Happening::Weights(weights) => {
            let locations = world.pool.spec.locations.iter_mut();
            locations.zip(weights).for_each(|(at, n)| at.weight = n);
        }
        Happening::Capacity(true) => world.capacity = Answer::Fits,
        Happening::Capacity(false) => world.capacity = super::capacity::exhausted(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_life_of_a_pool_keeps_its_promises(
        replicas in 0..6_i32,
        (surge, unavailable) in prop_oneof![
            Just((1, 0)), Just((0, 1)), Just((2, 1)), Just((0, 3)), Just((3, 0))
        ],
        share in prop_oneof![Just(json!("40%")), Just(json!(1)), Just(json!(0))],
        life in proptest::collection::vec(happening(), 0..40),
        turn in any::<prop::sample::Index>(),
        (is_spread, is_gradual) in any::<(bool, bool)>(),
    ) {
        let mut spec = json!({
            "rollout": { "maxSurge": surge, "maxUnavailable": unavailable },
            "health": { "maxReplaced": share },
        });
        if is_spread {
            spec["provider"] = json!(null);
            let location = |name| json!({ "name": name, "provider": { "kubevirt": {} } });
            spec["locations"] = ["a", "b", "c"].map(location).into_iter().collect();
            spec["placement"] = json!({ "rebalance": if is_gradual { "Gradual" } else { "Never" } });
        }
        // One that is moved is one more for a while.
        let most = usize::max(surge, usize::from(is_spread && is_gradual));
        let mut world = World::new(replicas, &spec);
        world.settle();
        for what in life {
            happens(&mut world, what);
            let (ready, before) = (world.ready(), world.live());
            let first = world.plan();
            let going = world.going_outdated(first.status.version.as_deref());

            // The order of what was observed does not matter.
            let mut turned = world.observe();
            if !turned.machines.is_empty() {
                let by = turn.index(turned.machines.len());
                turned.machines.rotate_left(by);
                turned.machines.reverse();
            }
            prop_assert_eq!(plan(&turned, world.now), first.clone());

            // Whatever is not known: no machine is made or goes, and no number is told anew.
            let told = |plan: &Plan| {
                let status = plan.status.clone();
                (status.replicas, status.ready_replicas, status.updated_replicas)
            };
            let mut blind = world.observe();
            blind.cluster = Known::default();
            let blind = plan(&blind, world.now);
            prop_assert!(blind.is_settled(), "{blind:#?}");
            let known = world.pool.status.clone().unwrap_or_default();
            prop_assert_eq!(&blind.status.conditions, &known.conditions);
            let blind_said = told(&blind);
            prop_assert_eq!(
                blind_said,
                (known.replicas, known.ready_replicas, known.updated_replicas)
            );
            let mut blind = world.observe();
            blind.reserved_unknown = Some(Problem::new(
                "network.reserved",
                Reason::ReservedRangesUnknown,
                "name them",
            ));
            let blind = plan(&blind, world.now);
            prop_assert!(blind.is_settled(), "{blind:#?}");
            let there = i32::try_from(world.live().len()).unwrap();
            let ready_now = i32::try_from(world.ready()).unwrap();
            let updated = known.updated_replicas.min(there);
            prop_assert_eq!(told(&blind), (there, ready_now, updated));

            // One application, and nothing is left but the status.
            prop_assert!(world.carry_out(&first, &mut usize::MAX.clone()));
            // Whoever makes machines has said before that there is no room for them.
            let is_full = world.capacity.said().is_some_and(|(fits, _)| !fits);
            if is_full && !first.creations.is_empty() {
                prop_assert_eq!(world.condition("Capacity").0, "False");
            }
            let again = world.plan();
            prop_assert!(again.is_settled(), "{first:#?}\nand then\n{again:#?}");
            world.settle();

            let wanted = usize::try_from(world.pool.spec.replicas).unwrap();
            if !first.creations.is_empty() {
                // What a rollout takes away has its place until it is gone; what is lost has none.
                let rolled = first.deletions.iter().filter(|d| d.reason == "RollingOut").count();
                let there = world.live().len() + going + rolled;
                prop_assert!(there <= wanted + most, "{there} of {wanted}+{most}: {first:#?}");
            }
            // Nobody but the user took a ready one below the line.
            let named = first.deletions.iter().any(|target| {
                let annotation = names::ANNOTATION_DELETE_MACHINE;
                world.machine(&target.name).annotations().contains_key(annotation)
            });
            let line = wanted.saturating_sub(unavailable).min(ready);
            prop_assert!(named || world.ready() >= line, "{} of {line} are ready", world.ready());
            // Lost ones are replaced a share at a time, and what is on its way counts.
            let replaced = first.deletions.iter().filter(|d| d.reason == "Replacing").count();
            let budget = match share.as_u64() {
                Some(number) => usize::try_from(number).unwrap(),
                None => (wanted * 2).div_ceil(5),
            };
            prop_assert!(replaced == 0 || world.coming() <= budget, "{} come of {budget}: {first:#?}", world.coming());
            prop_assert!(first.deletions.iter().all(|d| before.contains(&d.name)));
        }
        // Whatever happened, with everybody well it ends as wanted.
        world.comes_to_rest();
        prop_assert_eq!(world.live().len(), usize::try_from(world.pool.spec.replicas).unwrap());
        let status = world.pool.status.clone().unwrap();
        prop_assert_eq!(status.updated_replicas, world.pool.spec.replicas);
        prop_assert_eq!(status.ready_replicas, world.pool.spec.replicas);
    }
}
