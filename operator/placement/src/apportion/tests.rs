//! Laws L1 to L7 of clouds.md 11.1, over random weights, caps, prices and held seats.
//!
//! Invariant: the quick way gives what giving seats one by one gives.

use proptest::prelude::*;

use super::{Apportioned, ByPrice, Share, apportion, claim};
use crate::budget::Micros;

#[derive(Clone, Debug, Eq, PartialEq)]
struct Row {
    weight: u32,
    cap: u32,
    held: u32,
    hourly: Option<Micros>,
    name: String,
}

fn rows(most: usize) -> impl Strategy<Value = Vec<Row>> {
    // Small weights and few prices, so that there are ties.
    let weight = prop_oneof![0..=6_u32, 0..=1000_u32];
    let cap = prop_oneof![3 => Just(u32::MAX), 1 => 0..12_u32];
    let hourly = prop_oneof![Just(None), (0..3_u64).prop_map(|n| Some(Micros(n)))];
    let row = (weight, cap, 0..9_u32, hourly);
    prop::collection::vec(row, 0..=most).prop_map(|rows| {
        let row = |(n, (weight, cap, held, hourly))| Row {
            weight,
            cap,
            held,
            hourly,
            name: format!("l{n:02}"),
        };
        rows.into_iter().enumerate().map(row).collect()
    })
}

fn divide(seats: u32, rows: &[Row]) -> Apportioned {
    let share = |row: &'_ Row| Share {
        weight: row.weight,
        cap: row.cap,
        held: row.held,
        tie: (row.hourly.is_none(), row.hourly, row.name.clone()),
    };
    apportion(seats, &rows.iter().map(share).collect::<Vec<_>>())
}

fn divided(seats: u32, rows: &[Row]) -> Vec<u32> {
    divide(seats, rows).seats
}

/// As the method is written down: seat by seat, comparing all.
fn one_by_one(seats: u32, rows: &[Row]) -> Vec<u32> {
    let mut given = vec![0; rows.len()];
    for _ in 0..seats {
        let open = (0..rows.len()).filter(|n| rows[*n].weight > 0 && given[*n] < rows[*n].cap);
        let best = open.max_by(|a, b| {
            let ((x, y), (p, q)) = ((&rows[*a], &rows[*b]), (given[*a], given[*b]));
            let tie = |row: &Row| (row.hourly.is_none(), row.hourly, row.name.clone());
            claim(x.weight, p, y.weight, q)
                .then((x.held > p).cmp(&(y.held > q)))
                .then(tie(y).cmp(&tie(x)))
        });
        let Some(best) = best else { break };
        given[best] += 1;
    }
    given
}

fn uncapped(rows: &[Row]) -> Vec<Row> {
    let free = |row: &Row| Row {
        cap: u32::MAX,
        ..row.clone()
    };
    rows.iter().map(free).collect()
}

fn simple(weights: &[u32], seats: u32) -> Vec<u32> {
    let row = |(n, weight): (usize, &u32)| Row {
        weight: *weight,
        cap: u32::MAX,
        held: 0,
        hourly: None,
        name: format!("l{n}"),
    };
    divided(
        seats,
        &weights.iter().enumerate().map(row).collect::<Vec<_>>(),
    )
}

proptest! {
    #[test]
    fn the_quick_way_gives_what_one_by_one_gives(rows in rows(7), seats in 0..60_u32) {
        prop_assert_eq!(divided(seats, &rows), one_by_one(seats, &rows));
    }

    #[test]
    fn l1_all_seats_are_given_up_to_the_caps(rows in rows(16), seats in 0..3000_u32) {
        let Apportioned { seats: given, missing } = divide(seats, &rows);
        let caps: u64 = rows.iter().filter(|r| r.weight > 0).map(|r| u64::from(r.cap)).sum();
        let sum: u64 = given.iter().copied().map(u64::from).sum();
        prop_assert_eq!(sum, u64::from(seats).min(caps));
        prop_assert_eq!(sum + u64::from(missing), u64::from(seats));
        prop_assert!(given.iter().zip(&rows).all(|(n, row)| *n <= row.cap));
    }

    #[test]
    fn l2_no_weight_no_seat(rows in rows(16), seats in 0..3000_u32) {
        let given = divided(seats, &rows);
        prop_assert!(given.iter().zip(&rows).all(|(n, row)| row.weight > 0 || *n == 0));
    }

    #[test]
    fn l3_one_seat_more_takes_none_away(rows in rows(16), seats in 0..3000_u32) {
        let (less, more) = (divided(seats, &rows), divided(seats + 1, &rows));
        prop_assert!(less.iter().zip(&more).all(|(a, b)| a <= b), "{:?} {:?}", less, more);
    }

    #[test]
    fn l4_who_drops_out_takes_nothing_from_survivors(
        rows in rows(16), seats in 0..500_u32, out in any::<prop::sample::Index>(),
    ) {
        prop_assume!(!rows.is_empty());
        let out = out.index(rows.len());
        let before = divided(seats, &rows);
        let mut without = rows.clone();
        without[out].cap = 0;
        let after = divided(seats, &without);
        for n in (0..rows.len()).filter(|n| *n != out) {
            prop_assert!(after[n] >= before[n]);
        }
        let free = uncapped(&rows);
        let mut without = free.clone();
        without[out].cap = 0;
        let (before, after) = (divided(seats, &free), divided(seats, &without));
        let others = free.iter().enumerate().any(|(n, row)| n != out && row.weight > 0);
        let gained: u32 = (0..rows.len()).filter(|n| *n != out).map(|n| after[n] - before[n]).sum();
        prop_assert_eq!(gained, if others { before[out] } else { 0 });
        // Back again: the exact reverse, because nothing else was looked at.
        without[out].cap = u32::MAX;
        prop_assert_eq!(divided(seats, &without), before);
    }

    #[test]
    fn l5_more_weight_is_never_fewer_seats(
        rows in rows(16), seats in 0..500_u32, who in any::<prop::sample::Index>(), more in 1..500_u32,
    ) {
        prop_assume!(!rows.is_empty());
        let who = who.index(rows.len());
        let mut heavier = rows.clone();
        heavier[who].weight += more;
        prop_assert!(divided(seats, &heavier)[who] >= divided(seats, &rows)[who]);
    }

    #[test]
    fn l6_the_order_of_the_input_changes_nothing(
        (rows, shuffled) in rows(16).prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
        seats in 0..500_u32,
    ) {
        let by_name = |rows: &[Row]| {
            let given = divided(seats, rows);
            let mut named: Vec<_> = rows.iter().map(|r| r.name.clone()).zip(given).collect();
            named.sort();
            named
        };
        prop_assert_eq!(by_name(&rows), by_name(&shuffled));
    }

    #[test]
    fn l6_other_names_in_the_same_order_change_nothing(rows in rows(16), seats in 0..500_u32) {
        let renamed: Vec<_> = rows.iter().map(|row| Row {
            name: format!("other-{}", row.name),
            ..row.clone()
        }).collect();
        prop_assert_eq!(divided(seats, &rows), divided(seats, &renamed));
    }

    /// In integers: |seats · Σ − n · w| against the bound times Σ. What is proven is ½ + p · (k − 2) / 2 for
    /// k locations and a share p of the weights: ½ for two, below 1 for three.
    #[test]
    fn l7_nobody_is_far_from_its_exact_share(rows in rows(6), seats in 0..3000_u32) {
        let rows: Vec<_> = uncapped(&rows).into_iter().filter(|row| row.weight > 0).collect();
        let total: i64 = rows.iter().map(|row| i64::from(row.weight)).sum();
        let k = i64::try_from(rows.len()).unwrap();
        for (row, given) in rows.iter().zip(divided(seats, &rows)) {
            let weight = i64::from(row.weight);
            let off = (i64::from(given) * total - i64::from(seats) * weight).abs();
            match k {
                1 => prop_assert_eq!(off, 0),
                2 => prop_assert!(2 * off <= total),
                3 => prop_assert!(off < total),
                _ => {}
            }
            if k > 1 {
                prop_assert!(2 * off <= total + weight * (k - 2), "{} of {:?}", given, rows);
            }
        }
    }

    #[test]
    fn a_price_moves_no_seat_that_is_held(rows in rows(16), seats in 0..500_u32, prices in prop::collection::vec(0..3_u64, 16)) {
        let first = divided(seats, &rows);
        let settled: Vec<_> = rows.iter().zip(&first).zip(prices).map(|((row, held), price)| Row {
            held: *held,
            hourly: Some(Micros(price)),
            ..row.clone()
        }).collect();
        prop_assert_eq!(divided(seats, &settled), first);
    }
}

#[test]
fn equal_weights_are_divided_evenly() {
    assert_eq!(simple(&[1, 1, 1], 9), [3, 3, 3]);
    assert_eq!(simple(&[2, 1, 0], 9), [6, 3, 0]);
    // Largest remainder would give (2, 2, 0) for four.
    assert_eq!(simple(&[5, 5, 2], 3), [1, 1, 1]);
    assert_eq!(simple(&[5, 5, 2], 4), [2, 1, 1]);
}

/// The bound of 1.07 that was seen for four to six locations in random cases is none: one large weight and
/// five small ones are 2.5 seats off.
#[test]
fn one_large_weight_among_small_ones_is_two_and_a_half_seats_off() {
    assert_eq!(simple(&[1000, 1, 1, 1, 1, 1], 500), [500, 0, 0, 0, 0, 0]);
    let exact = 500.0 * 1000.0 / 1005.0;
    assert!(500.0 - exact > 2.48);
}

#[test]
fn among_equals_the_cheaper_one_then_the_name() {
    let known = |hourly: u64, name| ByPrice {
        hourly: Some(Micros(hourly)),
        name,
    };
    let unknown = |name| ByPrice { hourly: None, name };
    assert!(known(1, "b") < known(2, "a"));
    assert!(known(u64::MAX, "b") < unknown("a"));
    assert!(known(0, "z") < unknown("a"));
    assert!(unknown("a") < unknown("b") && known(1, "a") < known(1, "b"));
}

#[test]
fn as_many_seats_as_there_can_be_are_divided_all_the_same() {
    let given = simple(&[1000, 999, 1], u32::MAX);
    assert_eq!(
        given.iter().copied().map(u64::from).sum::<u64>(),
        u64::from(u32::MAX)
    );
    assert_eq!(simple(&[u32::MAX, 1], u32::MAX), [u32::MAX - 1, 1]);
    assert_eq!(simple(&[], 3), [0; 0]);
}
