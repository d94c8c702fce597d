//! Which kinds of objects are encrypted at rest: how far those are that came, or go.
//!
//! A kind that comes is first read encrypted by every kube-apiserver, then written so, and then all its objects are written
//! anew. One that goes is read either way until etcd has none of it encrypted; only then it is left out of the file. One
//! thing at a time: while keys are turned nothing goes on here. What encrypts all of it may be a KMS ([`kms`]).
//! Invariant: whatever a kube-apiserver that runs writes, every other one reads; what is known of objects stands in the same
//! Secret as the file, so that it is forgotten with what it was seen for.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use api::tenant_cluster::{EncryptionStatus, RotationPhase};
use jiff::Timestamp;
use kit_objects::known::Known;
use tenant_cp::backup::source;
use tenant_cp::encrypted_kinds::{self, EncryptedKinds, SECRETS};
use tenant_cp::kms::{Kms, Provider};
use tenant_cp::names;

use super::at_rest::{self, PAUSE, TRY_AGAIN};
use super::kms;
use super::seen::{HowFar, in_secret};
use crate::controllers::tenant_cluster::observed::{Observed, Rewritten};
use crate::controllers::tenant_cluster::plan::types::Action;

/// Most characters of what it waits for, as the schema has it.
const LONGEST: usize = 512;

/// How far it is.
pub(super) struct Encrypted {
    /// What is to be in the file next; none where it stays.
    pub(super) next: Option<EncryptedKinds>,
    /// Whether the Secret has what kube-apiservers are to read that start now.
    pub(super) is_published: bool,
    /// What has to be asked.
    pub(super) ask: Option<Action>,
    /// After which time it may go on although nothing happens.
    pub(super) again: Option<Duration>,
    pub(super) status: EncryptionStatus,
    /// Whether a KMS is used that the operator's configuration does not have: no pod can be made with its plugin.
    pub(super) lacks: bool,
    /// Whether it stands until somebody else has done something.
    is_quiet: bool,
}

impl Encrypted {
    /// What goes on, for the condition `Progressing`.
    pub(super) fn goes_on(&self) -> Option<String> {
        let mut changing = self.status.changing.clone();
        let kms = self.status.kms.as_ref();
        let is_kms = kms.is_some_and(|kms| kms.phase != RotationPhase::Idle);
        if changing.is_empty() && is_kms {
            changing = vec!["all that is encrypted".to_owned()];
        }
        let what = match (&self.next, &self.status.waiting_for) {
            _ if changing.is_empty() || self.is_quiet => return None,
            (Some(_), _) => "kube-apiservers are told of it".to_owned(),
            (None, Some(waits)) => format!("it waits for {waits}"),
            (None, None) => "kube-apiservers are told of it".to_owned(),
        };
        let changing = changing.join(", ");
        Some(format!(
            "encryption at rest of {changing} is switched: {what}"
        ))
    }
}

/// The observation with what is encrypted now.
pub(super) fn as_it_is(observed: Cow<'_, Observed>) -> Cow<'_, Observed> {
    let kinds = told(&observed);
    if observed.material.encrypted == kinds {
        return observed;
    }
    let mut observed = observed;
    observed.to_mut().material.encrypted = kinds;
    observed
}

/// `are_keys_turned`: whether the keys are on their way to others.
pub(super) fn see(
    observed: &Observed,
    are_keys_turned: bool,
    how_far: HowFar<'_>,
) -> Option<Encrypted> {
    let now = &observed.material.encrypted;
    let asked = kms::asked(observed);
    let wanted = Wanted {
        kinds: wanted(observed),
        kms: kms::in_force(&now.kms, asked.as_ref(), how_far.known_kms),
    };
    let is_untouched = now.is_none() && now.ever.is_empty() && now.kms == Kms::default();
    if is_untouched && wanted.kinds.is_empty() && asked.is_none() {
        return None;
    }
    let signs = at_rest::signs(observed)?;
    let [_, control_plane, _] = how_far.progress;
    let record = in_secret(observed, names::API_SERVER, names::ENCRYPTED_KINDS);
    let is_published = at_rest::is_published(observed) && record == now.record();
    let servers = how_far.is_current(control_plane, is_published) == Known::Known(true);
    let keys = are_keys_turned.then_some("the rotation of encryptionKeys to be over");
    let lacks = kms::lacking(&now.kms, how_far.known_kms);
    let (mut next, mut ask, mut again) = (None, None, None);
    let (mut waits, mut is_quiet) = (None, false);
    if let Some(busy) = how_far.busy.or(keys) {
        waits = Some(busy.to_owned());
        is_quiet = at_rest::is_restored(observed);
    } else if let Some(lacks) = &lacks {
        waits = Some(format!(
            "encryption.kms in the configuration of the operator to have {lacks} again, which objects are written with"
        ));
        is_quiet = true;
    } else if let Some(back) = kms::back(&now.kms, servers, how_far.now) {
        next = Some(EncryptedKinds {
            kms: back,
            ..now.clone()
        });
    } else if let Some(step) = step_both(now, (asked.as_ref(), &wanted), servers, how_far.now) {
        next = Some(step);
    } else if !wanted.is_whole(now) {
        let changing = changing(now, &wanted);
        let objects = format!("all objects of {changing} to be written anew");
        match at_rest::rewritten(observed).filter(|_| servers) {
            _ if !servers => {
                again = kms::left(&now.kms, how_far.now);
                waits = Some(format!(
                    "kube-apiservers that all read what is encrypted of {changing}"
                ));
            }
            None => {
                ask = at_rest::rewrite(observed, signs, how_far);
                waits = Some(objects);
            }
            Some(Ok(Rewritten::All)) => next = Some(wanted.whole(now)),
            Some(Ok(Rewritten::Some)) => {
                again = Some(PAUSE);
                waits = Some(objects);
            }
            Some(Ok(Rewritten::Refused { first })) => {
                again = Some(TRY_AGAIN);
                waits = Some(at_rest::let_in(first));
                is_quiet = true;
            }
            Some(Err(_)) => {
                again = Some(TRY_AGAIN);
                waits = Some(
                    "what cannot be seen now: which objects are encrypted, or the tenant's API does not write them"
                        .to_owned(),
                );
            }
        }
    }
    let then = next.as_ref().unwrap_or(now);
    if waits.is_none() && asked != then.kms.writes {
        let why_not = |asked| why_not(&then.kms, asked, how_far);
        waits = asked.as_ref().and_then(why_not);
    }
    let mut status = status(then, &wanted.kinds, None);
    let is_spreading = !is_published || (how_far.has_other)(names::ENCRYPTION_HASH);
    let is_told = next.is_none() && servers;
    let wish = (asked.as_ref(), wanted.kms.as_ref());
    status.kms = kms::status(&then.kms, wish, is_told, is_spreading);
    let is_had = asked == then.kms.writes && lacks.is_none();
    let is_shown = status.goes_on() || !is_had;
    status.waiting_for = waits
        .filter(|_| is_shown)
        .map(|what| what.chars().take(LONGEST).collect());
    Some(Encrypted {
        next,
        is_published,
        ask,
        again,
        status,
        lacks: lacks.is_some(),
        is_quiet,
    })
}

/// Why the KMS that is asked for is not had, where that is not a matter of time.
fn why_not(kms: &Kms, asked: &Provider, how_far: HowFar<'_>) -> Option<String> {
    if !how_far.known_kms.contains(&asked.name) {
        return Some(format!(
            "encryption.kms in the configuration of the operator to have {}, or spec.encryption.kms to name another one",
            asked.name
        ));
    }
    (kms.returned.as_ref() == Some(asked)).then(|| {
        format!(
            "another spec.encryption.kms.generation: no kube-apiserver became ready with {asked} within 15 minutes, so what was \
             before stays; see whether the plugin reaches its KMS"
        )
    })
}

/// What is to be encrypted, and with what.
struct Wanted {
    /// Kinds beside Secrets.
    kinds: BTreeSet<String>,
    /// None: Covey's keys.
    kms: Option<Provider>,
}

impl Wanted {
    /// Whether nothing has to be looked at in etcd.
    fn is_whole(&self, now: &EncryptedKinds) -> bool {
        is_whole(now, &self.kinds) && kms::is_whole(&now.kms, self.kms.as_ref())
    }

    /// What the file is to say once etcd has every object as it says now.
    fn whole(&self, now: &EncryptedKinds) -> EncryptedKinds {
        EncryptedKinds {
            kms: kms::whole(&now.kms, self.kms.as_ref()),
            ..whole(now, &self.kinds)
        }
    }
}

/// Both go on together: who reads a kind reads it by whatever may write it.
fn step_both(
    now: &EncryptedKinds,
    (asked, wanted): (Option<&Provider>, &Wanted),
    servers: bool,
    at: Timestamp,
) -> Option<EncryptedKinds> {
    let kinds = step(now, &wanted.kinds, servers);
    let wish = (asked, wanted.kms.as_ref());
    let Some(kms) = kms::step(&now.kms, wish, servers, at) else {
        return kinds;
    };
    let kinds = kinds.unwrap_or_else(|| now.clone());
    Some(EncryptedKinds { kms, ..kinds })
}

/// Kinds beside Secrets that are to be encrypted.
fn wanted(observed: &Observed) -> BTreeSet<String> {
    let mut known = encrypted_kinds::others();
    let asked = &observed.cluster.spec.encryption.resources;
    known.retain(|kind| asked.contains(kind));
    known
}

/// What the file says, and while a Restore is under way, or what it brought was not looked through yet, that whatever ever
/// was encrypted may be.
fn told(observed: &Observed) -> EncryptedKinds {
    let mut kinds = match at_rest::file(observed) {
        Some(file) => {
            let record = in_secret(observed, names::API_SERVER, names::ENCRYPTED_KINDS);
            EncryptedKinds::read_back(&file, &record.unwrap_or_default())
        }
        // Whatever is started has it.
        None if !observed.was_running() => {
            let written = wanted(observed);
            let kms = kms::asked(observed);
            EncryptedKinds {
                ever: written.clone(),
                written,
                kms: Kms {
                    ever: kms.iter().cloned().collect(),
                    writes: kms,
                    ..Kms::default()
                },
                ..EncryptedKinds::default()
            }
        }
        // It is lost, and kube-apiservers that run may do anything with what was told.
        None => {
            let status = observed.cluster.status.as_ref();
            let status = status.and_then(|status| status.encryption.as_ref());
            let told_of_kms = status.and_then(|status| status.kms.as_ref());
            let kms = kms::lost(told_of_kms, kms::asked(observed));
            let told = status.into_iter().flat_map(|status| {
                let all = status.resources.iter().chain(&status.changing);
                all.cloned()
            });
            let mut read = encrypted_kinds::others();
            let maybe: BTreeSet<String> = told.chain(wanted(observed)).collect();
            read.retain(|kind| maybe.contains(kind));
            EncryptedKinds {
                ever: read.clone(),
                read,
                kms,
                ..EncryptedKinds::default()
            }
        }
    };
    if let Some(restore) = restored(observed) {
        // Which kinds another one encrypted, and when, nobody here knows.
        let maybe = match restore.source_uid.is_some() && source_encrypted(observed) {
            true => encrypted_kinds::others(),
            false => kinds.ever.clone(),
        };
        let maybe = maybe.difference(&kinds.written).cloned();
        kinds.read.extend(maybe.collect::<Vec<_>>());
        kinds.ever.extend(kinds.read.iter().cloned());
        kinds.partly = kinds.written.clone();
        let others = match restore.source_uid.is_some() {
            true => source_kms(observed),
            false => BTreeSet::new(),
        };
        kinds.kms = kms::restored(&kinds.kms, others);
    }
    kinds
}

/// Those that the one that a Restore brings over may have written with.
fn source_kms(observed: &Observed) -> BTreeSet<Provider> {
    let ns = observed.tenant_namespace();
    let source = observed.find("Secret", &ns, source::SOURCE).there();
    let told = source.map(|source| &source["metadata"]["annotations"][source::ANNOTATION_KMS]);
    let told = told.and_then(|told| told.as_str()).unwrap_or_default();
    told.split(',').filter_map(Provider::read).collect()
}

/// Whether the one that a Restore brings over encrypted more than Secrets.
fn source_encrypted(observed: &Observed) -> bool {
    let ns = observed.tenant_namespace();
    let source = observed.find("Secret", &ns, source::SOURCE).there();
    source.is_some_and(|source| {
        source["metadata"]["annotations"][source::ANNOTATION_ENCRYPTED].is_string()
    })
}

fn restored(observed: &Observed) -> Option<&api::tenant_cluster::RestoreProgress> {
    let status = observed.cluster.status.as_ref();
    status.and_then(|status| status.restore.as_ref())
}

/// What the file is to say next, where nothing has to be known of objects for it. `servers`: every kube-apiserver that runs
/// or ends does as it says now.
fn step(now: &EncryptedKinds, wanted: &BTreeSet<String>, servers: bool) -> Option<EncryptedKinds> {
    let mut next = now.clone();
    // Who writes it encrypted reads it either way, and who reads it so has no need of another one that does: at any time.
    for kind in now.written.difference(wanted) {
        next.written.remove(kind);
        next.partly.remove(kind);
        next.read.insert(kind.clone());
    }
    for kind in wanted {
        if !now.written.contains(kind) && !now.read.contains(kind) {
            next.read.insert(kind.clone());
        }
    }
    // Nobody is left who does not read it.
    for kind in now.read.intersection(wanted).filter(|_| servers) {
        next.read.remove(kind);
        next.written.insert(kind.clone());
        next.partly.insert(kind.clone());
        next.ever.insert(kind.clone());
    }
    (next != *now).then_some(next)
}

/// Whether nothing has to be looked at in etcd.
fn is_whole(now: &EncryptedKinds, wanted: &BTreeSet<String>) -> bool {
    now.partly.is_empty() && now.read.is_empty() && now.written == *wanted
}

/// What the file is to say once etcd has every object as it says now.
fn whole(now: &EncryptedKinds, wanted: &BTreeSet<String>) -> EncryptedKinds {
    let mut next = now.clone();
    next.partly.clear();
    next.read.retain(|kind| wanted.contains(kind));
    next
}

/// Kinds of which some objects may be encrypted and some not.
fn on_the_way(now: &EncryptedKinds, wanted: &BTreeSet<String>) -> BTreeSet<String> {
    let mut all = now.read.clone();
    all.extend(now.partly.iter().cloned());
    all.extend(wanted.symmetric_difference(&now.written).cloned());
    all
}

fn changing(now: &EncryptedKinds, wanted: &Wanted) -> String {
    let mut all = on_the_way(now, &wanted.kinds);
    if !kms::is_whole(&now.kms, wanted.kms.as_ref()) {
        all.extend(now.written.iter().cloned());
        all.insert(SECRETS.name.to_owned());
    }
    let all: Vec<String> = all.into_iter().collect();
    all.join(", ")
}

fn status(
    now: &EncryptedKinds,
    wanted: &BTreeSet<String>,
    waiting_for: Option<String>,
) -> EncryptionStatus {
    let changing = on_the_way(now, wanted);
    let mut resources: BTreeSet<String> = now.written.difference(&changing).cloned().collect();
    resources.insert(SECRETS.name.to_owned());
    EncryptionStatus {
        resources: resources.into_iter().collect(),
        waiting_for: waiting_for
            .filter(|_| !changing.is_empty())
            .map(|what| what.chars().take(LONGEST).collect()),
        changing: changing.into_iter().collect(),
        kms: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// What the file may say of one kind.
    fn all() -> Vec<EncryptedKinds> {
        let one = || set(&["pods"]);
        vec![
            EncryptedKinds::default(),
            EncryptedKinds {
                read: one(),
                ..EncryptedKinds::default()
            },
            EncryptedKinds {
                written: one(),
                partly: one(),
                ever: one(),
                ..EncryptedKinds::default()
            },
            EncryptedKinds {
                written: one(),
                ever: one(),
                ..EncryptedKinds::default()
            },
        ]
    }

    #[test]
    fn no_step_is_written_that_one_of_before_does_not_read() {
        for now in all() {
            for wanted in [set(&[]), set(&["pods"])] {
                for servers in [true, false] {
                    let Some(next) = step(&now, &wanted, servers) else {
                        continue;
                    };
                    let reads = |kinds: &EncryptedKinds| kinds.written.union(&kinds.read).count();
                    assert!(next.written.is_empty() || reads(&now) == 1, "{now:?}");
                    assert!(now.written.is_empty() || reads(&next) == 1, "{now:?}");
                    // Of what is not known yet nothing is believed.
                    assert!(next.written == next.partly, "{now:?} {next:?}");
                    assert!(servers || next.written.len() <= now.written.len());
                }
            }
        }
    }

    #[test]
    fn it_is_left_out_only_once_nothing_is_encrypted_and_that_ends() {
        for mut now in all() {
            for wanted in [set(&[]), set(&["pods"])] {
                for _ in 0..6 {
                    if let Some(next) = step(&now, &wanted, true) {
                        assert!(next.read.len() + next.written.len() == 1);
                        now = next;
                    } else if !is_whole(&now, &wanted) {
                        now = whole(&now, &wanted);
                    }
                }
                assert!(is_whole(&now, &wanted), "{now:?}");
                assert_eq!(now.written, wanted);
                let told = status(&now, &wanted, Some("nothing".to_owned()));
                assert_eq!((told.changing, told.waiting_for), (Vec::new(), None));
            }
        }
    }
}
