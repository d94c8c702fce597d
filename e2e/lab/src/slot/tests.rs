//! Slots: disjoint addresses, exclusive claims.

use std::path::Path;

use super::*;

fn me() -> ProcessId {
    ProcessId::of(i32::try_from(std::process::id()).unwrap()).unwrap()
}

fn dead() -> ProcessId {
    ProcessId {
        boot_id: "an earlier boot".into(),
        ..me()
    }
}

fn registry() -> (tempfile::TempDir, Registry) {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::at(folder.path()).unwrap();
    (folder, registry)
}

#[test]
fn networks_of_all_slots_are_disjoint_and_private() {
    let networks: Vec<_> = Slot::all()
        .flat_map(|slot| {
            [
                slot.node_network(),
                slot.pod_network(),
                slot.service_network(),
                slot.load_balancer_network(),
            ]
        })
        .collect();
    for (at, one) in networks.iter().enumerate() {
        assert!(
            one.network().is_private() && one.broadcast().is_private(),
            "{one}"
        );
        for other in &networks[at + 1..] {
            assert!(
                !one.contains(other) && !other.contains(one),
                "{one} overlaps {other}"
            );
        }
    }
}

#[test]
fn addresses_lie_in_their_networks() {
    for slot in Slot::all() {
        assert!(slot.node_network().contains(&slot.host_address(0)));
        assert!(slot.node_network().contains(&slot.machine_address()));
        assert!(slot.pod_network().contains(&slot.host_pod_network(3)));
        assert!(slot.service_network().contains(&slot.dns_address()));
        // IFNAMSIZ is 16 with the final zero.
        assert!(slot.cable(255).len() < 16);
    }
}

#[test]
fn an_interface_of_one_slot_is_not_anothers() {
    let slots: Vec<_> = Slot::all().collect();
    assert!(slots[1].owns_interface("cvy1") && slots[1].owns_interface("cvy1-0"));
    assert!(!slots[1].owns_interface("cvy0-1") && !slots[1].owns_interface("cvy10"));
}

#[test]
fn two_checkouts_get_different_slots() {
    let (_folder, registry) = registry();
    let a = registry
        .claim_beside(Path::new("/a"), &me(), |_| None)
        .unwrap();
    let b = registry
        .claim_beside(Path::new("/b"), &me(), |_| None)
        .unwrap();
    assert_ne!(a, b);
    assert_eq!(registry.of_checkout(Path::new("/b")), [b]);
}

#[test]
fn a_checkout_keeps_its_slot_even_when_a_lower_one_is_free() {
    let (_folder, registry) = registry();
    registry
        .claim_beside(Path::new("/a"), &me(), |_| None)
        .unwrap();
    let b = registry
        .claim_beside(Path::new("/b"), &me(), |_| None)
        .unwrap();
    registry.release(Path::new("/a")).unwrap();
    assert_eq!(
        registry
            .claim_beside(Path::new("/b"), &me(), |_| None)
            .unwrap(),
        b
    );
}

#[test]
fn the_slot_of_a_dead_lab_is_taken_over() {
    let (_folder, registry) = registry();
    let a = registry
        .claim_beside(Path::new("/a"), &dead(), |_| None)
        .unwrap();
    assert_eq!(
        registry
            .claim_beside(Path::new("/b"), &me(), |_| None)
            .unwrap(),
        a
    );
    assert!(registry.of_checkout(Path::new("/a")).is_empty());
}

#[test]
fn the_slot_of_a_dead_owner_is_not_taken_over_while_hosts_live_in_it() {
    let (_folder, registry) = registry();
    let a = registry
        .claim_beside(Path::new("/a"), &dead(), |_| None)
        .unwrap();
    let claim = |checkout: &str| {
        let checkout = Path::new(checkout);
        registry.claim_beside(checkout, &me(), |slot| {
            let lives = || slot == a;
            inhabited(registry.read(slot).as_ref(), checkout, lives, lives)
        })
    };
    assert_ne!(claim("/b").unwrap(), a);
    assert_eq!(registry.holder(a).unwrap(), Path::new("/a"));
    assert_eq!(claim("/a").unwrap(), a, "they are its own");
}

#[test]
fn a_slot_of_a_lab_with_another_cache_is_passed_over() {
    let (checkout, has, has_not) = (Path::new("/a"), || true, || false);
    assert!(inhabited(None, checkout, has, has_not).is_some());
    assert_eq!(inhabited(None, checkout, has_not, has_not), None);
}

#[test]
fn a_slot_that_is_anothers_by_now_is_not_handed_over() {
    let (_folder, registry) = registry();
    let slot = registry
        .claim_beside(Path::new("/a"), &dead(), |_| None)
        .unwrap();
    assert!(!registry.is_foreign(slot, Path::new("/a")));
    registry
        .claim_beside(Path::new("/b"), &me(), |_| None)
        .unwrap();
    assert!(registry.is_foreign(slot, Path::new("/a")));
    let refused = registry.hand_over(slot, Path::new("/a"), &me());
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("/b"), "{refused}");
    assert_eq!(registry.holder(slot).unwrap(), Path::new("/b"));
}

#[test]
fn used_addresses_are_passed_over_and_named_when_no_slot_is_left() {
    let (_folder, registry) = registry();
    let first = |slot: Slot| (slot.number() == 0).then(|| "in use by docker0".to_owned());
    assert_eq!(
        registry
            .claim_beside(Path::new("/a"), &me(), first)
            .unwrap()
            .number(),
        1
    );
    let error = registry
        .claim_beside(Path::new("/b"), &me(), |_| {
            Some("in use by docker0".to_owned())
        })
        .unwrap_err();
    assert!(error.to_string().contains("docker0"), "{error}");
}
