//! A KMS comes, is changed for another one, and goes: what kube-apiservers do with its provider next.
//!
//! One that comes is first read by every kube-apiserver, which shows that its plugin works beside each; then it writes; then
//! all objects are written anew, and only when etcd has none of another one that one is left out. If kube-apiservers do not
//! become ready with it in time it is taken back by itself: nothing was written with it, and those of before served meanwhile.
//! Invariant: whatever a kube-apiserver that runs writes, every other one reads; no provider is left out that some object may
//! be written with.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenant_cluster::{KmsStatus, RotationPhase};
use jiff::{SignedDuration, Timestamp};
use tenant_cp::kms::{Kms, Provider};

use crate::controllers::tenant_cluster::observed::Observed;

/// How long kube-apiservers have to become ready with a plugin.
const DEADLINE: SignedDuration = SignedDuration::from_mins(15);

/// The one that is asked for.
pub(super) fn asked(observed: &Observed) -> Option<Provider> {
    let asked = observed.cluster.spec.encryption.kms.as_ref()?;
    Some(Provider {
        name: asked.name.clone(),
        generation: asked.generation,
    })
}

/// The one that is to write: what is asked for, or where that cannot be had what writes now. `known`: KMSs of the operator's
/// configuration.
pub(super) fn in_force(
    now: &Kms,
    asked: Option<&Provider>,
    known: &BTreeSet<String>,
) -> Option<Provider> {
    let asked = asked?;
    let is_had = now.writes.as_ref() == Some(asked);
    let can_be_had = known.contains(&asked.name) && now.returned.as_ref() != Some(asked);
    match is_had || can_be_had {
        true => Some(asked.clone()),
        false => now.writes.clone(),
    }
}

/// A KMS that is used and is not in the operator's configuration: nobody can make a pod with its plugin.
pub(super) fn lacking(now: &Kms, known: &BTreeSet<String>) -> Option<String> {
    now.names().into_iter().find(|name| !known.contains(name))
}

/// What is to be done with it next where nothing has to be known of objects for it. `servers`: every kube-apiserver that runs
/// or ends does as it says now.
pub(super) fn step(
    now: &Kms,
    (asked, wanted): (Option<&Provider>, Option<&Provider>),
    servers: bool,
    at: Timestamp,
) -> Option<Kms> {
    let mut next = now.clone();
    if now.returned.as_ref() != asked {
        next.returned = None;
    }
    // Nothing was written with it.
    next.coming = next.coming.filter(|(coming, _)| Some(coming) == wanted);
    let is_read = |provider: &Provider| now.all().any(|other| other == provider);
    match wanted {
        _ if now.writes.as_ref() == wanted => {}
        // Everybody reads by Covey's keys at any time.
        None => write(&mut next, None),
        Some(wanted) if !is_read(wanted) => {
            next.coming = Some((wanted.clone(), at.to_string()));
        }
        Some(wanted) if servers => write(&mut next, Some(wanted)),
        Some(_) => {}
    }
    (next != *now).then_some(next)
}

fn write(kms: &mut Kms, provider: Option<&Provider>) {
    kms.reads.extend(kms.writes.take());
    if let Some(provider) = provider {
        kms.reads.remove(provider);
        kms.ever.insert(provider.clone());
    }
    kms.coming = None;
    kms.writes = provider.cloned();
    kms.partly = true;
}

/// Without the one that kube-apiservers did not become ready with in time; none where there is time, or no need.
pub(super) fn back(now: &Kms, servers: bool, at: Timestamp) -> Option<Kms> {
    let (coming, _) = now.coming.as_ref()?;
    let is_over = !servers && left(now, at).is_none();
    is_over.then(|| Kms {
        coming: None,
        returned: Some(coming.clone()),
        ..now.clone()
    })
}

/// How long kube-apiservers still have; none where that time is over, or nothing comes.
pub(super) fn left(now: &Kms, at: Timestamp) -> Option<Duration> {
    let (_, since) = now.coming.as_ref()?;
    let since: Timestamp = since.parse().ok()?;
    let left = DEADLINE - at.duration_since(since);
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

/// Whether nothing has to be looked at in etcd, nor brought to kube-apiservers.
pub(super) fn is_whole(now: &Kms, wanted: Option<&Provider>) -> bool {
    now.writes.as_ref() == wanted && !now.partly && now.reads.is_empty() && now.coming.is_none()
}

/// What is done with it once etcd has every object as it says now.
pub(super) fn whole(now: &Kms, wanted: Option<&Provider>) -> Kms {
    let mut next = now.clone();
    next.partly = false;
    next.reads.retain(|provider| Some(provider) == wanted);
    next
}

/// What it was where the file that said so is lost: kube-apiservers that run may write with whatever was told.
pub(super) fn lost(told: Option<&KmsStatus>, asked: Option<Provider>) -> Kms {
    let read = |texts: &[String]| -> BTreeSet<Provider> {
        texts
            .iter()
            .filter_map(|text| Provider::read(text))
            .collect()
    };
    let Some(told) = told else {
        // What was told is lost, too.
        let reads: BTreeSet<_> = asked.into_iter().collect();
        return Kms {
            partly: !reads.is_empty(),
            ever: reads.clone(),
            reads,
            ..Kms::default()
        };
    };
    let mut reads = read(&told.reads);
    reads.extend(told.writes.as_deref().and_then(Provider::read));
    let mut ever = read(&told.needed);
    ever.extend(reads.iter().cloned());
    Kms {
        partly: !reads.is_empty(),
        reads,
        ever,
        ..Kms::default()
    }
}

/// What it is while what etcd has becomes what it was, and may be written with any that ever was. `others`: those of the
/// tenant cluster that is brought over.
pub(super) fn restored(now: &Kms, others: BTreeSet<Provider>) -> Kms {
    let mut next = now.clone();
    let maybe = next.ever.iter().cloned().chain(others);
    let coming = next.coming.as_ref().map(|(coming, _)| coming);
    let maybe: BTreeSet<_> = maybe
        .filter(|provider| next.writes.as_ref() != Some(provider) && coming != Some(provider))
        .collect();
    next.partly |= !maybe.is_empty() || next.writes.is_some();
    next.ever.extend(maybe.iter().cloned());
    next.reads.extend(maybe);
    next
}

/// `servers`: as for [`step`]. `is_spreading`: kube-apiservers run that were told something else.
pub(super) fn status(
    now: &Kms,
    (asked, wanted): (Option<&Provider>, Option<&Provider>),
    servers: bool,
    is_spreading: bool,
) -> Option<KmsStatus> {
    if *now == Kms::default() && asked.is_none() {
        return None;
    }
    let phase = match (now.writes.as_ref() == wanted, is_whole(now, wanted)) {
        (false, _) => RotationPhase::Preparing,
        (true, false) if !servers => RotationPhase::Switching,
        (true, false) => RotationPhase::Draining,
        (true, true) if is_spreading => RotationPhase::Dropping,
        (true, true) => RotationPhase::Idle,
    };
    let text = |provider: &Provider| provider.to_string();
    let others = now.all().skip(usize::from(now.writes.is_some()));
    Some(KmsStatus {
        phase,
        writes: now.writes.as_ref().map(text),
        reads: others.map(text).collect(),
        returned: now.returned.as_ref().map(text),
        needed: now.needed().iter().map(text).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        "2026-11-21T12:00:00Z".parse().unwrap()
    }

    fn one(text: &str) -> Provider {
        Provider::read(text).unwrap()
    }

    /// All that can be reached from nothing by wishes, steps, proofs and lost time.
    fn all() -> Vec<Kms> {
        let wishes = [
            None,
            Some(one("a-g1")),
            Some(one("a-g2")),
            Some(one("b-g1")),
        ];
        let known: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        let mut all = vec![Kms::default()];
        let mut next = 0;
        while let Some(now) = all.get(next).cloned() {
            next += 1;
            for asked in &wishes {
                let wanted = in_force(&now, asked.as_ref(), &known);
                let wanted = wanted.as_ref();
                let steps = [true, false].map(|servers| {
                    let step = step(&now, (asked.as_ref(), wanted), servers, at());
                    step.into_iter().chain(back(&now, servers, at() + DEADLINE))
                });
                let steps = steps.into_iter().flatten().chain([whole(&now, wanted)]);
                for step in steps {
                    if !all.contains(&step) {
                        all.push(step);
                    }
                }
            }
        }
        all
    }

    fn reads(kms: &Kms, provider: Option<&Provider>) -> bool {
        provider.is_none_or(|provider| kms.all().any(|other| other == provider))
    }

    #[test]
    fn whatever_one_writes_the_next_reads_and_the_other_way_round() {
        let known: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        let all = all();
        assert!(all.len() > 20, "{}", all.len());
        for now in &all {
            for asked in [
                None,
                Some(one("a-g1")),
                Some(one("a-g2")),
                Some(one("b-g1")),
            ] {
                let wanted = in_force(now, asked.as_ref(), &known);
                for servers in [true, false] {
                    let step = step(now, (asked.as_ref(), wanted.as_ref()), servers, at());
                    for next in step.into_iter().chain(back(now, servers, at() + DEADLINE)) {
                        assert!(reads(now, next.writes.as_ref()), "{now:?} {next:?}");
                        assert!(reads(&next, now.writes.as_ref()), "{now:?} {next:?}");
                        // What some object may be written with is read on, and of a change nothing is believed.
                        let mut may = now.reads.iter().chain(&now.writes);
                        assert!(may.all(|may| reads(&next, Some(may))), "{now:?} {next:?}");
                        let is_changed = next.writes != now.writes;
                        assert!(next.partly || !is_changed, "{now:?} {next:?}");
                        // Nobody writes with what not everybody reads.
                        let is_new = is_changed && next.writes.is_some();
                        assert!(servers || !is_new, "{now:?} {next:?}");
                        assert!(next.ever.is_superset(&now.ever), "{now:?} {next:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_wish_ends_and_is_over_whatever_was_before() {
        let known: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        for mut now in all() {
            for asked in [None, Some(one("a-g1")), Some(one("b-g1"))] {
                for _ in 0..8 {
                    let wanted = in_force(&now, asked.as_ref(), &known);
                    let wanted = wanted.as_ref();
                    if let Some(step) = step(&now, (asked.as_ref(), wanted), true, at()) {
                        now = step;
                    } else if !is_whole(&now, wanted) {
                        now = whole(&now, wanted);
                    }
                }
                let wanted = in_force(&now, asked.as_ref(), &known);
                assert!(is_whole(&now, wanted.as_ref()), "{now:?}");
                if now.returned.is_none() {
                    assert_eq!(now.writes, asked, "{now:?}");
                }
            }
        }
    }

    #[test]
    fn one_that_nobody_becomes_ready_with_is_taken_back_and_tried_again_when_asked() {
        let known: BTreeSet<String> = ["a".to_owned()].into();
        let asked = one("a-g1");
        let wish = (Some(&asked), Some(&asked));
        let coming = step(&Kms::default(), wish, true, at()).unwrap();
        assert_eq!(left(&coming, at()), Some(Duration::from_secs(900)));
        assert_eq!(step(&coming, wish, false, at()), None);
        assert_eq!(back(&coming, false, at()), None);
        assert_eq!(back(&coming, true, at() + DEADLINE), None);
        let back = back(&coming, false, at() + DEADLINE).unwrap();
        assert_eq!(back.all().next(), None);
        let wanted = in_force(&back, Some(&asked), &known);
        assert_eq!(wanted, None);
        let stays = (Some(&asked), None);
        assert_eq!(step(&back, stays, true, at()), None);
        assert!(is_whole(&back, None));
        let again = one("a-g2");
        let wanted = in_force(&back, Some(&again), &known);
        let next = step(&back, (Some(&again), wanted.as_ref()), true, at()).unwrap();
        assert_eq!(next.coming.map(|(provider, _)| provider), Some(again));
        assert_eq!(next.returned, None);
    }

    #[test]
    fn one_that_the_configuration_does_not_have_changes_nothing() {
        let now = Kms {
            writes: Some(one("a-g1")),
            ever: [one("a-g1")].into(),
            ..Kms::default()
        };
        let known: BTreeSet<String> = ["a".to_owned()].into();
        let asked = one("c-g1");
        let wanted = in_force(&now, Some(&asked), &known);
        assert_eq!(wanted, now.writes);
        let wish = (Some(&asked), wanted.as_ref());
        assert_eq!(step(&now, wish, true, at()), None);
        assert_eq!(lacking(&now, &known), None);
        assert_eq!(lacking(&now, &BTreeSet::new()).as_deref(), Some("a"));
    }

    #[test]
    fn what_comes_back_is_read_by_all_that_ever_wrote() {
        let now = Kms {
            writes: Some(one("b-g1")),
            ever: [one("a-g1"), one("b-g1")].into(),
            ..Kms::default()
        };
        let restored = restored(&now, [one("c-g1")].into());
        assert_eq!(restored.reads, [one("a-g1"), one("c-g1")].into());
        assert!(restored.partly && restored.ever.contains(&one("c-g1")));
        let again = super::restored(&restored, [one("c-g1")].into());
        assert_eq!(again, restored);
        assert_eq!(
            super::restored(&Kms::default(), BTreeSet::new()),
            Kms::default()
        );
        // A file that is lost is one that all of it read, and nobody is known to write.
        let writes = now.writes.as_ref();
        let told = status(&now, (writes, writes), true, false).unwrap();
        let lost = lost(Some(&told), None);
        assert_eq!(lost.reads, [one("b-g1")].into());
        assert_eq!(
            (lost.writes, lost.partly, lost.ever),
            (None, true, now.ever)
        );
    }
}
