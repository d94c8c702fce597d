//! The rotation as a whole, step by step, with crashes after every step.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const NAMESPACE: &str = "covey-system";

fn start() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn days(count: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * count)
}

/// API and leader in one, with a clock of its own.
struct World {
    now: Timestamp,
    observed: Observed,
    next: Option<Next>,
}

impl World {
    fn new() -> Self {
        let bundles = Some(vec![String::new(), String::new()]);
        Self {
            now: start(),
            observed: Observed {
                secret: None,
                bundles,
            },
            next: None,
        }
    }

    fn settled() -> Self {
        let mut world = Self::new();
        world.settle();
        world
    }

    /// One step as `serve` takes it; gives whether there was something to do.
    fn step(&mut self) -> bool {
        if due(self.observed.secret.as_ref(), NAMESPACE, self.now).is_none() {
            self.next = None;
        }
        match plan(&self.observed, self.next.as_ref(), NAMESPACE, self.now) {
            Step::Wait(CHECK) => return false,
            Step::Wait(wait) => self.now += SignedDuration::try_from(wait).unwrap(),
            Step::Issue(_) => {
                let material = issue(self.observed.secret.as_ref(), NAMESPACE, self.now).unwrap();
                self.next = Some(Next {
                    material,
                    published: None,
                });
            }
            Step::Publish(bundle) => {
                let bundles = self.observed.bundles.as_mut().unwrap();
                bundles.iter_mut().for_each(|b| b.clone_from(&bundle));
            }
            Step::Published => self.next.as_mut().unwrap().published = Some(self.now),
            Step::Store => self.observed.secret = self.next.take().map(|next| next.material),
        }
        true
    }

    fn settle(&mut self) -> usize {
        let steps = (0..20).take_while(|_| self.step()).count();
        assert!(steps < 20, "it never comes to an end");
        steps
    }

    /// Whether an API server that read the bundle takes this certificate.
    fn trusts(&self, served: &Material) -> bool {
        let bundles = self.observed.bundles.as_ref().unwrap();
        bundles.iter().all(|bundle| {
            let seen = Material {
                authorities: bundle.clone(),
                ..served.clone()
            };
            trusted(&seen, NAMESPACE, self.now)
        })
    }
}

fn authorities(material: &Material) -> usize {
    material.authorities.matches("BEGIN CERTIFICATE").count()
}

#[test]
fn from_nothing_to_a_trusted_certificate() {
    let mut world = World::new();
    assert_eq!(
        plan(&world.observed, None, NAMESPACE, world.now),
        Step::Issue(Reason::Missing)
    );
    world.settle();
    let secret = world.observed.secret.clone().unwrap();
    assert!(world.trusts(&secret));
    assert_eq!(authorities(&secret), 1);
    assert_eq!(world.now, start(), "nobody waits for the first certificate");
    assert_eq!(world.settle(), 0, "planning again gives nothing to do");
}

#[test]
fn without_a_configuration_the_certificate_is_made_all_the_same() {
    let mut world = World::new();
    world.observed.bundles = None;
    world.settle();
    assert!(world.observed.secret.is_some());
    // The configuration comes later.
    world.observed.bundles = Some(vec![String::new()]);
    assert_eq!(world.settle(), 1);
    assert!(world.trusts(&world.observed.secret.clone().unwrap()));
}

#[test]
fn a_bundle_that_was_reset_is_written_again() {
    let mut world = World::settled();
    world.observed.bundles = Some(vec![String::new()]);
    assert_eq!(world.settle(), 1);
}

#[test]
fn it_rotates_when_a_third_is_left_and_not_before() {
    let mut world = World::settled();
    world.now = start() + days(59);
    assert_eq!(world.settle(), 0);
    world.now = start() + days(61);
    let former = world.observed.secret.clone().unwrap();
    world.settle();
    let secret = world.observed.secret.clone().unwrap();
    assert_ne!(secret, former);
    assert_eq!(
        world.now,
        start() + days(61) + SETTLE,
        "API servers had time to see the bundle"
    );
    assert!(
        world.trusts(&former),
        "a replica that has not reloaded yet is still trusted"
    );
    assert_eq!(authorities(&secret), 2);
    // Never more than two, however often it rotates.
    for round in 2..5 {
        world.now = start() + days(61 * round);
        world.settle();
        assert_eq!(authorities(&world.observed.secret.clone().unwrap()), 2);
    }
}

#[test]
fn an_authority_that_has_ended_is_not_kept() {
    let mut world = World::settled();
    world.now = start() + days(91);
    let secret = world.observed.secret.as_ref();
    assert_eq!(due(secret, NAMESPACE, world.now), Some(Reason::Untrusted));
    world.settle();
    assert_eq!(authorities(&world.observed.secret.clone().unwrap()), 1);
    assert_eq!(
        world.now,
        start() + days(91),
        "nobody waits while nothing is trusted"
    );
}

#[test]
fn what_is_no_good_is_replaced_and_says_why() {
    let good = World::settled().observed.secret.unwrap();
    let other = World::settled().observed.secret.unwrap();
    let due = |material: &Material, namespace: &str| due(Some(material), namespace, start());
    assert_eq!(due(&good, NAMESPACE), None);
    assert_eq!(due(&good, "elsewhere"), Some(Reason::Untrusted));
    let swapped = Material {
        key: other.key.clone(),
        ..good.clone()
    };
    assert_eq!(due(&swapped, NAMESPACE), Some(Reason::Unreadable));
    let foreign = Material {
        authorities: other.authorities,
        ..good.clone()
    };
    assert_eq!(due(&foreign, NAMESPACE), Some(Reason::Untrusted));
    let torn = Material {
        authorities: "-----BEGIN".to_owned(),
        ..good
    };
    assert_eq!(due(&torn, NAMESPACE), Some(Reason::Untrusted));
    // What cannot be read does not get into the next bundle, which the API would refuse.
    let next = issue(Some(&torn), NAMESPACE, start()).unwrap();
    assert_eq!(authorities(&next), 1);
}

#[test]
fn a_pair_in_hand_is_dropped_when_another_leader_was_quicker() {
    let mut world = World::new();
    world.step();
    assert!(world.next.is_some());
    let theirs = World::settled().observed.secret;
    world.observed.secret.clone_from(&theirs);
    world.settle();
    assert!(world.next.is_none());
    assert_eq!(world.observed.secret, theirs);
}

#[test]
fn private_keys_do_not_show() {
    let world = World::settled();
    let text = format!("{:?}", world.observed);
    assert!(
        text.contains("BEGIN CERTIFICATE") && !text.contains("PRIVATE KEY"),
        "{text}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever replicas may serve (the Secret's certificate and the one before it) is trusted at
    /// every moment, and a crash after any step leads to the same end.
    #[test]
    fn what_is_served_is_always_trusted(crashes in prop::collection::btree_set(0_usize..12, 0..4)) {
        let crashes: BTreeSet<usize> = crashes;
        let mut world = World::settled();
        world.now = start() + days(61);
        let before = world.observed.secret.clone().unwrap();
        for at in 0..40 {
            let more = world.step();
            let served = world.observed.secret.clone().unwrap();
            prop_assert!(world.trusts(&served), "after step {at}");
            prop_assert!(world.trusts(&before), "after step {at}");
            if crashes.contains(&at) {
                world.next = None;
            } else if !more {
                break;
            }
        }
        let end = world.observed.secret.clone().unwrap();
        prop_assert_eq!(due(Some(&end), NAMESPACE, world.now), None);
        prop_assert_eq!(world.observed.bundles, Some(vec![end.authorities; 2]));
    }
}
