//! Which kinds of objects are encrypted at rest: how far those are that came, or go.
//!
//! A kind that comes is first read encrypted by every kube-apiserver, then written so, and then all its objects are written
//! anew. One that goes is read either way until etcd has none of it encrypted; only then it is left out of the file. One
//! thing at a time: while keys are turned nothing goes on here.
//! Invariant: whatever a kube-apiserver that runs writes, every other one reads; what is known of objects stands in the same
//! Secret as the file, so that it is forgotten with what it was seen for.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use api::tenant_cluster::EncryptionStatus;
use kit_objects::known::Known;
use tenant_cp::backup::source;
use tenant_cp::encrypted_kinds::{self, EncryptedKinds, SECRETS};
use tenant_cp::names;

use super::at_rest::{self, PAUSE, TRY_AGAIN};
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
    /// Whether it stands until somebody else has done something.
    is_quiet: bool,
}

impl Encrypted {
    /// What goes on, for the condition `Progressing`.
    pub(super) fn goes_on(&self) -> Option<String> {
        let changing = self.status.changing.join(", ");
        let what = match (&self.next, &self.status.waiting_for) {
            _ if changing.is_empty() || self.is_quiet => return None,
            (Some(_), _) => "kube-apiservers are told of it".to_owned(),
            (None, waits) => format!("it waits for {}", waits.as_deref().unwrap_or_default()),
        };
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
    let wanted = wanted(observed);
    if now.is_none() && now.ever.is_empty() && wanted.is_empty() {
        return None;
    }
    let signs = at_rest::signs(observed)?;
    let [_, control_plane, _] = how_far.progress;
    let record = in_secret(observed, names::API_SERVER, names::ENCRYPTED_KINDS);
    let is_published = at_rest::is_published(observed) && record == now.record();
    let servers = how_far.is_current(control_plane, is_published) == Known::Known(true);
    let keys = are_keys_turned.then_some("the rotation of encryptionKeys to be over");
    let (mut next, mut ask, mut again) = (None, None, None);
    let (mut waits, mut is_quiet) = (None, false);
    if let Some(busy) = how_far.busy.or(keys) {
        waits = Some(busy.to_owned());
        is_quiet = at_rest::is_restored(observed);
    } else if let Some(step) = step(now, &wanted, servers) {
        next = Some(step);
    } else if !is_whole(now, &wanted) {
        let objects = format!(
            "all objects of {} to be written anew",
            changing(now, &wanted)
        );
        match at_rest::rewritten(observed).filter(|_| servers) {
            _ if !servers => {
                waits = Some(format!(
                    "kube-apiservers that all read what is encrypted of {}",
                    changing(now, &wanted)
                ));
            }
            None => {
                ask = at_rest::rewrite(observed, signs, how_far);
                waits = Some(objects);
            }
            Some(Ok(Rewritten::All)) => next = Some(whole(now, &wanted)),
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
    let status = status(next.as_ref().unwrap_or(now), &wanted, waits);
    Some(Encrypted {
        next,
        is_published,
        ask,
        again,
        status,
        is_quiet,
    })
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
            EncryptedKinds {
                ever: written.clone(),
                written,
                ..EncryptedKinds::default()
            }
        }
        // It is lost, and kube-apiservers that run may do anything with what was told.
        None => {
            let status = observed.cluster.status.as_ref();
            let status = status.and_then(|status| status.encryption.as_ref());
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
    }
    kinds
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

fn changing(now: &EncryptedKinds, wanted: &BTreeSet<String>) -> String {
    let all: Vec<String> = on_the_way(now, wanted).into_iter().collect();
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
