//! Whatever happens in whatever order while versions change.
//!
//! Invariant: a version that was taken back is not begun again with the same `retry`, and Ready stays True.

use semver::Version;

use super::rollouts::ask_for;
use super::upgrade_failures::{
    crashes, lacks_its_image, of_the_minor, of_the_minor_itself, of_the_patch,
};
use super::upgrades::{ask_for_a_minor, later, status};
use super::*;
use crate::upgrades::versions;

/// How far the template of the control plane is on its way to a version.
fn rank(world: &World) -> usize {
    let to: Version = world.cluster.spec.version.parse().unwrap();
    let deployment = &world.objects[&Key::new("Deployment", NS, "control-plane")];
    match versions::template(deployment, &to) {
        versions::Template::Other => 0,
        versions::Template::Emulates => 1,
        versions::Template::Serves => 2,
    }
}

fn was_taken_back(world: &World) -> bool {
    let spec = &world.cluster.spec;
    status(world).is_some_and(|told| {
        told.failed_version.as_deref() == Some(spec.version.as_str())
            && told.failed_retry == Some(spec.upgrade.retry)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn upgrade_that_failed_is_never_begun_again_and_ready_stays_true(
        steps in proptest::collection::vec((0..9_u8, 0..9_usize), 1..24),
    ) {
        static READY: std::sync::OnceLock<World> = std::sync::OnceLock::new();
        let mut world = READY.get_or_init(|| ready(minimal())).clone();
        for (step, writes) in steps {
            let serves = world.cluster.status.clone().unwrap().version.unwrap();
            match step {
                0 => world.fails = Some((of_the_patch, crashes())),
                1 => world.fails = Some((of_the_minor, crashes())),
                2 => world.fails = Some((of_the_minor_itself, lacks_its_image())),
                3 => world.fails = None,
                4 => ask_for(&mut world, &serves),
                5 if serves == "1.35.4" => ask_for(&mut world, "1.35.5"),
                6 if serves.starts_with("1.35.") => ask_for_a_minor(&mut world),
                7 => world.cluster.spec.upgrade.retry += 1,
                _ => later(&mut world, 8),
            }
            world.play_controllers();
            let (failed, before) = (was_taken_back(&world), rank(&world));
            world.reconcile(&mut writes.clone());
            prop_assert!(!failed || was_taken_back(&world));
            prop_assert!(!failed || rank(&world) <= before);
            prop_assert_eq!(world.condition("Ready").0, "True");
        }
        let failed = was_taken_back(&world);
        let before = rank(&world);
        world.settle();
        prop_assert!(!failed || (was_taken_back(&world) && rank(&world) <= before));
        prop_assert_eq!(world.condition("Ready").0, "True");
    }
}
