//! Laws of the decisions.

use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn waited(uid: &str) -> Waited {
    Waited {
        uid: uid.to_owned(),
        since: at(0),
        server: None,
        source_ranges: Vec::new(),
    }
}

#[test]
fn a_port_that_goes_to_another_tenant_is_closed_and_opened_anew() {
    let open = [(1, "a"), (2, "b"), (3, "c")].map(|(port, uid)| (port, uid.to_owned()));
    let wanted = [(1, "a"), (2, "x"), (4, "d")].map(|(port, uid)| (port, waited(uid)));
    let changes = ports(&open.into(), &wanted.into());
    assert_eq!(changes.close, BTreeSet::from([2, 3]));
    assert_eq!(changes.open, BTreeSet::from([2, 4]));
}

#[test]
fn ranges_hold_and_an_address_of_ipv4_is_known_in_clothes_of_ipv6() {
    let ranges: Vec<IpNet> = ["192.0.2.0/24", "2001:db8::/32"]
        .map(|range| range.parse().unwrap())
        .into();
    for (address, allowed) in [
        ("192.0.2.7", true),
        ("::ffff:192.0.2.7", true),
        ("2001:db8::1", true),
        ("198.51.100.1", false),
        ("::ffff:198.51.100.1", false),
    ] {
        assert_eq!(
            is_allowed(&ranges, address.parse().unwrap()),
            allowed,
            "{address}"
        );
    }
    assert!(is_allowed(&[], "198.51.100.1".parse().unwrap()));
}

#[test]
fn the_first_asks_and_all_others_of_that_sleep_do_not() {
    let Wake::Ask { wakes } = wake(&Asked::default(), at(100), at(200)) else {
        panic!("not asked");
    };
    let asked = Asked {
        renewed: Some(at(200)),
        wakes,
    };
    assert_eq!(wake(&asked, at(100), at(200)), Wake::Asked);
    assert_eq!(wake(&asked, at(100), at(90_000)), Wake::Asked);
    // It sleeps again.
    assert!(
        matches!(wake(&asked, at(300), at(301)), Wake::Ask { wakes } if wakes == [at(200), at(301)])
    );
}

#[test]
fn the_fifth_in_an_hour_waits_until_the_first_is_an_hour_ago() {
    let asked = Asked {
        renewed: Some(at(40)),
        wakes: [10, 20, 30, 40].map(at).into(),
    };
    assert_eq!(
        wake(&asked, at(50), at(60)),
        Wake::TooOften { until: at(3610) }
    );
    assert!(matches!(wake(&asked, at(50), at(3610)), Wake::Ask { .. }));
}

proptest! {
    /// Sleep, ask, sleep, ask … at any times: never more than so many in any hour.
    #[test]
    fn never_more_wakes_than_the_limit_in_any_hour(steps in prop::collection::vec(1..3000_i64, 1..80)) {
        let (mut now, mut asked, mut woken) = (0, Asked::default(), Vec::new());
        for step in steps {
            let since = at(now);
            now += step;
            match wake(&asked, since, at(now)) {
                Wake::Ask { wakes } => {
                    asked = Asked { renewed: Some(at(now)), wakes };
                    woken.push(now);
                }
                Wake::TooOften { until } => prop_assert!(until > at(now)),
                Wake::Asked => prop_assert!(false, "slept since"),
            }
        }
        for (place, first) in woken.iter().enumerate() {
            let within = woken[place..].iter().filter(|time| **time - first < 3600).count();
            prop_assert!(within <= WAKES_AN_HOUR);
        }
        prop_assert!(asked.wakes.len() <= WAKES_AN_HOUR);
    }

    #[test]
    fn ports_are_right_after_one_change(
        open in prop::collection::btree_map(0..20_u16, "[ab]", 0..10),
        wanted in prop::collection::btree_map(0..20_u16, "[ab]", 0..10),
    ) {
        let wanted: BTreeMap<_, _> = wanted.iter().map(|(port, uid)| (*port, waited(uid))).collect();
        let mut after = open.clone();
        let changes = ports(&open, &wanted);
        after.retain(|port, _| !changes.close.contains(port));
        after.extend(changes.open.iter().map(|port| (*port, wanted[port].uid.clone())));
        prop_assert_eq!(ports(&after, &wanted), Ports::default());
    }
}
