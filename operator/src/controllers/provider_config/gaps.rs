//! Of which times it is not known what was made in them. No I/O, no clock, no chance.
//!
//! A management cluster that was brought back to an older state does not know the Machines that were made after that, while
//! their servers may have living nodes. What its state says of itself is that the Lease of its operator was renewed last
//! long before ([`kit::lease::Gap`]); where that was only a long time without an operator, nothing was made in it, and so
//! nothing is kept back by it. The same is doubted of all that is older than the moment in which the account was written
//! down, because somebody may have written it down before, and of what is so much that rather the Machines are missing.
//!
//! Invariant: a gap goes only once everything that may have been made in it was listed and nothing of it was of no Machine,
//! and what a process knows of one is in the status before it ends; only a person says that what is in one is nobody's.

use api::ProviderConfig;
use api::provider_config::Gap;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::lease;
use providers::Doubt;

use crate::clouds::Swept;

/// Most gaps that are kept apart (`status.gaps`); the oldest become one.
const MOST: usize = 8;
/// How long after its end a gap can go: what was made at its end by a cloud whose clock is ahead is found only once it is old
/// by that clock, and what was asked for may come later.
const SETTLED: SignedDuration = SignedDuration::from_mins(30);

/// What follows for the status.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Kept {
    /// The gaps.
    pub gaps: Vec<Gap>,
    /// Until when nothing is doubted any more.
    pub accounted_until: Option<Time>,
}

/// The gaps that are known: those of the status, and the one before this operator led, unless that one is done with.
#[must_use]
pub fn known(config: &ProviderConfig, led: Option<lease::Gap>) -> Vec<Gap> {
    let status = config.status.as_ref();
    let mut gaps = status.map(|s| s.gaps.clone()).unwrap_or_default();
    let accounted = status.and_then(|s| s.accounted_until.as_ref());
    let led = led.map(|led| Gap {
        from: led.from.map(seconds),
        to: seconds(led.to),
    });
    gaps.extend(led.filter(|led| accounted.is_none_or(|until| led.to > *until)));
    merged(gaps)
}

/// The same for those who look for what nobody has any more.
#[must_use]
pub fn doubts(config: &ProviderConfig, gaps: &[Gap]) -> Vec<Doubt> {
    let until = config.confirmed_until();
    let doubt = |gap: &Gap| doubt(gap, until.is_some_and(|until| gap.to <= *until));
    gaps.iter().map(doubt).collect()
}

/// What is kept of the gaps that are `known`. `swept`: what is of no Machine, by a complete look; none where nobody looked.
/// `is_new`: the account is written down now.
#[must_use]
pub fn kept(
    config: &ProviderConfig,
    known: &[Gap],
    swept: Option<&Swept>,
    is_new: bool,
    now: Timestamp,
) -> Kept {
    let status = config.status.as_ref();
    let mut accounted_until = status.and_then(|s| s.accounted_until.clone());
    let mut gaps = Vec::new();
    for gap in known {
        let covers = |made: &Timestamp| doubt(gap, false).covers(*made);
        let is_settled = now.duration_since(gap.to.0) > SETTLED;
        match is_settled && swept.is_some_and(|swept| !swept.made.iter().any(covers)) {
            true => accounted_until = accounted_until.max(Some(gap.to.clone())),
            false => gaps.push(gap.clone()),
        }
    }
    let is_covered = |made: &Timestamp| known.iter().any(|gap| doubt(gap, false).covers(*made));
    // From now on it is kept back whatever of it goes, until a person says so.
    let is_missed = |swept: &Swept| swept.held && !swept.unconfirmed.iter().all(is_covered);
    if is_new || swept.is_some_and(is_missed) {
        gaps.push(Gap {
            from: None,
            to: seconds(now),
        });
    }
    Kept {
        gaps: merged(gaps),
        accounted_until,
    }
}

/// The last of the gaps with something that a person has to look at.
#[must_use]
pub fn awaited<'a>(gaps: &'a [Gap], swept: &Swept) -> Option<&'a Gap> {
    let has = |gap: &&Gap| {
        let mut made = swept.unconfirmed.iter();
        made.any(|made| doubt(gap, false).covers(*made))
    };
    gaps.iter().rev().find(has)
}

fn doubt(gap: &Gap, is_confirmed: bool) -> Doubt {
    Doubt {
        from: gap.from.as_ref().map(|from| from.0),
        to: gap.to.0,
        is_confirmed,
    }
}

/// As it is stored.
fn seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

/// In their order, and none of them touches another.
fn merged(mut gaps: Vec<Gap>) -> Vec<Gap> {
    gaps.sort_by(|a, b| a.from.cmp(&b.from));
    let mut merged = Vec::<Gap>::new();
    for gap in gaps {
        let touched = merged.last_mut().filter(|last| {
            let from = gap.from.as_ref();
            from.is_none_or(|from| *from <= last.to)
        });
        match touched {
            Some(last) => last.to = last.to.clone().max(gap.to),
            None => merged.push(gap),
        }
    }
    while merged.len() > MOST {
        let second = merged.remove(1);
        merged[0].to = second.to;
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::names;
    use serde_json::{Value, json};

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + 60 * minutes).unwrap()
    }

    fn gap(from: Option<i64>, to: i64) -> Gap {
        Gap {
            from: from.map(|from| Time(at(from))),
            to: Time(at(to)),
        }
    }

    fn led(from: i64, to: i64) -> Option<lease::Gap> {
        Some(lease::Gap {
            from: Some(at(from)),
            to: at(to),
        })
    }

    fn config(status: &Value, said: Option<i64>) -> ProviderConfig {
        let said = said.map(|said| (names::ANNOTATION_DELETE_UNKNOWN, at(said).to_string()));
        let annotations: std::collections::BTreeMap<_, _> = said.into_iter().collect();
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "ProviderConfig",
            "metadata": { "name": "h", "namespace": "team-a", "annotations": annotations },
            "spec": { "hetzner": { "tokenSecretName": "t", "location": "fsn1", "sshKeys": ["covey"] } },
            "status": status,
        }))
        .unwrap()
    }

    fn of(gaps: &[Gap]) -> ProviderConfig {
        config(&json!({ "account": "a", "gaps": gaps }), None)
    }

    fn unknown(made: &[i64]) -> Swept {
        let made: Vec<_> = made.iter().map(|made| at(*made)).collect();
        Swept {
            count: made.len(),
            unconfirmed: made.clone(),
            made,
            ..Swept::default()
        }
    }

    /// What a status says next, with what was known before.
    fn next(kept: &Kept) -> ProviderConfig {
        let (gaps, until) = (&kept.gaps, &kept.accounted_until);
        config(
            &json!({ "account": "a", "gaps": gaps, "accountedUntil": until }),
            None,
        )
    }

    #[test]
    fn gap_before_the_operator_led_is_kept_until_a_look_finds_nothing_of_it_and_not_taken_up_again()
    {
        let before = config(&json!({ "account": "a" }), None);
        let all = known(&before, led(0, 100));
        assert_eq!(all, [gap(Some(0), 100)]);
        // Nobody looked; too early; something is there; nothing is.
        let first = kept(&before, &all, None, false, at(101));
        assert_eq!(first.gaps, all);
        // The process ends; the next one knows of no gap by itself.
        let stored = next(&first);
        let all = known(&stored, None);
        assert_eq!(
            kept(&stored, &all, Some(&unknown(&[])), false, at(120)),
            first
        );
        assert_eq!(
            kept(&stored, &all, Some(&unknown(&[50])), false, at(200)),
            first
        );
        let clear = kept(&stored, &all, Some(&unknown(&[300])), false, at(400));
        assert_eq!(clear.gaps, []);
        assert_eq!(clear.accounted_until, Some(Time(at(100))));
        assert_eq!(known(&next(&clear), led(0, 100)), []);
        assert_eq!(known(&next(&clear), led(0, 500)), [gap(Some(0), 500)]);
    }

    #[test]
    fn process_that_goes_on_knows_its_gap_without_another_write() {
        let before = config(&json!({ "account": "a" }), None);
        let first = kept(&before, &known(&before, led(0, 100)), None, false, at(101));
        let stored = next(&first);
        assert_eq!(known(&stored, led(0, 100)), first.gaps);
        let odd = lease::Gap {
            from: None,
            to: Timestamp::from_millisecond(1_700_000_000_999).unwrap(),
        };
        assert_eq!(known(&before, Some(odd)), [gap(None, 0)], "as it is stored");
    }

    #[test]
    fn all_that_is_older_than_the_account_is_doubted() {
        let before = config(&json!({}), None);
        let kept = kept(&before, &known(&before, led(0, 100)), None, true, at(200));
        assert_eq!(kept.gaps, [gap(None, 200)], "the one includes the other");
    }

    #[test]
    fn what_is_too_much_at_once_is_doubted_from_then_on_and_asked_for_once() {
        let before = of(&[]);
        let much = Swept {
            held: true,
            ..unknown(&[1, 2, 3, 4, 5, 6])
        };
        let first = kept(&before, &[], Some(&much), false, at(400));
        assert_eq!(first.gaps, [gap(None, 400)]);
        let stored = next(&first);
        let again = kept(&stored, &known(&stored, None), Some(&much), false, at(500));
        assert_eq!(again, first);
        assert_eq!(awaited(&first.gaps, &much), Some(&gap(None, 400)));
        assert_eq!(awaited(&first.gaps, &unknown(&[500])), None);
    }

    #[test]
    fn only_an_annotation_that_names_a_gap_confirms_it_and_those_before() {
        let gaps = [gap(Some(0), 100), gap(Some(200), 300), gap(Some(400), 500)];
        let status = json!({ "account": "a", "gaps": gaps });
        let confirmed = |said: Option<i64>| -> Vec<bool> {
            let config = config(&status, said);
            let doubts = doubts(&config, &known(&config, None));
            doubts.iter().map(|doubt| doubt.is_confirmed).collect()
        };
        assert_eq!(confirmed(None), [false, false, false]);
        assert_eq!(confirmed(Some(300)), [true, true, false]);
        assert_eq!(confirmed(Some(500)), [true, true, true]);
        assert_eq!(confirmed(Some(9999)), [false, false, false], "of no gap");
        // Another gap, of which nobody was asked, makes the last one longer.
        let config = config(&status, Some(500));
        let all = known(&config, led(450, 600));
        let doubts = doubts(&config, &all);
        let last = doubts.last().unwrap();
        assert!(!last.is_confirmed && doubts[1].is_confirmed);
    }

    #[test]
    fn gaps_are_few_and_apart() {
        let many: Vec<_> = (0..20).map(|n| gap(Some(100 * n), 100 * n + 50)).collect();
        let all = known(&of(&many), None);
        assert_eq!(all.len(), MOST);
        assert_eq!((&all[0].from, &all[7]), (&gap(Some(0), 0).from, &many[19]));
        assert_eq!(all[0].to, many[12].to);
    }
}
