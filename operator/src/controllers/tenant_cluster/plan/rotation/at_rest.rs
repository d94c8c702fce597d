//! The keys that Secrets are encrypted with in etcd.
//!
//! kube-apiservers read by all of them and write by the one that stands first in their file. What an older one wrote is
//! written again, through the tenant's API, and etcd itself says when nothing of it is left. A key that was dropped stays in
//! its Secret, and in the identity that backups have: a backup of before was made with it.
//! Invariant: a key is in the backup, and in the file of every kube-apiserver, before it writes, and until nothing in etcd needs it; while a
//! Restore is under way every key that there ever was is.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use api::tenant_cluster::Turn;
use kit_objects::known::Known;
use kit_objects::object::Key;
use serde_json::Value;
use tenant_cp::certificates::{encryption_configuration, encryption_generation, encryption_keys};
use tenant_cp::generations::{encryption_secret, is_encryption, of_encryption};
use tenant_cp::names;

use super::seen::{HowFar, Seen, in_secret, signs_by};
use crate::controllers::tenant_cluster::observed::{Observed, Rewritten};
use crate::controllers::tenant_cluster::plan::types::Action;
use crate::rotation::facts::Facts;
use crate::rotation::told::{self, Subject};

pub(super) const SUBJECT: Subject = Subject {
    name: "encryptionKeys",
    verifiers: told::SERVERS,
    holders: "kube-apiservers to write by, and all Secrets to be written with,",
};

/// Pause between two lots of objects that are written again: the tenant's API has others to serve.
pub(super) const PAUSE: Duration = Duration::from_secs(2);
/// How soon it is tried again where that failed.
pub(super) const TRY_AGAIN: Duration = Duration::from_secs(60);

const NOT_SAVED: &str = "whether the new key is in the backup, before which nothing is written with it (condition BackupReady)";

/// `signs`: [`signs`].
pub(super) fn see(observed: &Observed, signs: u32, how_far: HowFar<'_>) -> Seen {
    let [_, control_plane, _] = how_far.progress;
    let asked = asked(observed);
    let believed = believed(observed);
    let brought_back = brought_back(observed);
    let published = is_published(observed) && brought_back.is_empty();
    let servers = how_far.is_current(control_plane, published);
    let (mut holders, mut outstanding) = (servers, Known::Absent);
    let (mut ask, mut again) = (None, None);
    let is_at_target = asked.is_some_and(|turn| turn.generation == signs && !turn.hold);
    let is_calm = how_far.busy.is_none() && servers == Known::Known(true);
    let verifiers = match servers == Known::Known(true) && lacks_backup(observed, signs) {
        true => Known::Unknown { why: NOT_SAVED },
        false => servers,
    };
    if is_restored(observed) {
        let what = "the Restore to be over, until which what comes back may need any key";
        outstanding = Known::Known(what.to_owned());
    } else if believed.len() > 1 && is_at_target && is_calm {
        let not_asked = Known::Unknown {
            why: "with which keys objects are encrypted has not been asked",
        };
        (holders, again) = match rewritten(observed) {
            None => {
                ask = rewrite(observed, signs, how_far);
                (not_asked, None)
            }
            Some(Ok(Rewritten::All)) => (Known::Known(true), None),
            Some(Ok(Rewritten::Some)) => (Known::Known(false), Some(PAUSE)),
            Some(Ok(Rewritten::Refused { first })) => {
                outstanding = Known::Known(let_in(first));
                (Known::Known(true), Some(TRY_AGAIN))
            }
            Some(Err(_)) => {
                let why = "with which keys objects are encrypted, or the tenant's API does not write them";
                (Known::Unknown { why }, Some(TRY_AGAIN))
            }
        };
    }
    let facts = Facts {
        wanted: asked.map(|turn| turn.generation),
        hold: asked.is_some_and(|turn| turn.hold),
        believed,
        dropped: dropped(observed),
        signs,
        verifiers,
        holders,
        outstanding,
        untold: Known::Absent,
        is_spreading: !published || (how_far.has_other)(names::ENCRYPTION_HASH),
        busy: how_far.busy,
    };
    let notes = brought_back
        .into_iter()
        .map(|generation| (generation, names::DROPPED, String::new()));
    Seen {
        facts,
        published: (published, true),
        notes: notes.collect(),
        ask,
        again,
        signed_until: None,
        believed_since: None,
        told_since: None,
    }
}

/// Whether kube-apiservers that start now read what they are to.
pub(super) fn is_published(observed: &Observed) -> bool {
    let material = &observed.material;
    let wanted = encryption_configuration(&material.encryption, &material.encrypted);
    let wanted = wanted.as_ref().map(pki::Key::reveal);
    wanted.is_some() && file(observed).as_deref() == wanted
}

/// Has objects written again that are not as kube-apiservers write them now.
pub(super) fn rewrite(observed: &Observed, signs: u32, how_far: HowFar<'_>) -> Option<Action> {
    how_far.api.map(|address| Action::Rewrite {
        address,
        members: how_far.members.to_vec(),
        generation: signs,
        kinds: observed.material.encrypted.clone(),
    })
}

/// What came of that, as far as it was for what is encrypted now.
pub(super) fn rewritten(observed: &Observed) -> Option<&Result<Rewritten, String>> {
    let rewritten = observed.rewritten.as_ref();
    let now = rewritten.filter(|(kinds, _)| *kinds == observed.material.encrypted);
    now.map(|(_, rewritten)| rewritten)
}

/// What an object needs that cannot be written again, for people.
pub(super) fn let_in(first: &str) -> String {
    format!(
        "the tenant's API to let {first} be updated, which it refuses: see which webhook or policy inside does not; nothing \
         of it is changed but how it is encrypted"
    )
}

pub(super) fn signing(observed: Cow<'_, Observed>, generation: Option<u32>) -> Cow<'_, Observed> {
    let active = observed.material.encryption.active();
    let active = active.map(|(number, _)| number);
    let Some(generation) = generation.filter(|_| active != generation) else {
        return observed;
    };
    let mut observed = observed;
    observed.to_mut().material.encryption.hold(generation);
    observed
}

/// Whether a key is to write that was made since, and that the backup may not have yet: what it has of etcd from then on
/// could not be read by whoever brings it back. An older one wrote before, so that it is there.
fn lacks_backup(observed: &Observed, signs: u32) -> bool {
    let wanted = asked(observed).map(|turn| turn.generation);
    let saved = observed.saved_keys.as_ref();
    let lacks = |wanted: u32| wanted > signs && saved.is_none_or(|saved| !saved.contains(&wanted));
    observed.cluster.spec.backup.is_some() && wanted.is_some_and(lacks)
}

/// Whether nobody ever asked for another one, and there is none: a copy has those of then to read, and that is no rotation.
pub(super) fn is_untouched(observed: &Observed) -> bool {
    asked(observed).is_none() && believed(observed).len() <= 1 && dropped(observed).is_empty()
}

fn asked(observed: &Observed) -> Option<&Turn> {
    observed.cluster.spec.rotation.encryption_keys.as_ref()
}

/// Those that a rotation made, and of those that stand together the newest: the others of them are read and never write.
fn believed(observed: &Observed) -> BTreeSet<u32> {
    let material = &observed.material;
    let is_apart = |number: &u32| material.encryption_apart.contains(number);
    let numbers = || material.encryption.numbers();
    let together = numbers().filter(|number| !is_apart(number)).max();
    let apart = numbers().filter(is_apart);
    apart.chain(together).collect()
}

/// The one that writes now, as kube-apiservers were told by their file. Where nothing runs it is the newest: whatever is
/// started has all.
pub(super) fn signs(observed: &Observed) -> Option<u32> {
    let wanted = asked(observed).map(|turn| turn.generation);
    let believed = believed(observed);
    signs_by(&believed, wanted, || {
        let newest = believed.last().copied();
        [told(observed), newest.filter(|_| !observed.was_running())]
    })
}

/// The key that stands first in the file.
fn told(observed: &Observed) -> Option<u32> {
    let file = file(observed)?;
    let keys = encryption_keys(&file);
    let mut lines = file
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- name: "));
    let first = encryption_generation(lines.next()?)?;
    keys.get(first).map(|_| first)
}

pub(super) fn file(observed: &Observed) -> Option<String> {
    in_secret(observed, names::API_SERVER, "encryption.yaml")
}

/// What the Secret of a generation is called.
pub(super) fn secret_of(observed: &Observed, generation: u32) -> String {
    match observed.material.encryption_apart.contains(&generation) {
        true => encryption_secret(generation),
        false => names::ENCRYPTION.to_owned(),
    }
}

/// Secrets of keys that were marked as dropped, and the keys in them.
fn marked(observed: &Observed) -> impl Iterator<Item = (u32, BTreeSet<u32>)> {
    let marked = secrets(observed).filter(|(_, secret)| is_marked(secret));
    marked.filter_map(|(key, secret)| {
        let keys = keys_of(secret);
        let generation = of_encryption(&key.name).or(keys.last().copied())?;
        Some((generation, keys))
    })
}

fn secrets(observed: &Observed) -> impl Iterator<Item = (&Key, &Value)> {
    let all = observed.objects.iter();
    all.filter(|(key, _)| key.kind == "Secret" && is_encryption(&key.name))
}

fn is_marked(secret: &Value) -> bool {
    let mark = secret["metadata"]["annotations"][names::DROPPED].as_str();
    mark.is_some_and(|mark| !mark.is_empty())
}

fn keys_of(secret: &Value) -> BTreeSet<u32> {
    let fields = secret["data"].as_object().into_iter().flatten();
    fields
        .filter_map(|(name, _)| encryption_generation(name))
        .collect()
}

/// Whether what etcd has becomes what it was, and may have been written with any key.
pub(super) fn is_restored(observed: &Observed) -> bool {
    let status = observed.cluster.status.as_ref();
    status.is_some_and(|status| status.restore.is_some())
}

/// Generations that nobody has to read.
fn dropped(observed: &Observed) -> BTreeSet<u32> {
    match is_restored(observed) {
        true => BTreeSet::new(),
        false => marked(observed).map(|(generation, _)| generation).collect(),
    }
}

/// Generations that a Restore brings back, and whose Secrets say that they were dropped.
fn brought_back(observed: &Observed) -> BTreeSet<u32> {
    match is_restored(observed) {
        true => marked(observed).map(|(generation, _)| generation).collect(),
        false => BTreeSet::new(),
    }
}

/// The observation without keys that nobody has to read.
pub(super) fn without_dropped(observed: Cow<'_, Observed>) -> Cow<'_, Observed> {
    if is_restored(&observed) {
        return observed;
    }
    let gone: BTreeSet<u32> = marked(&observed).flat_map(|(_, keys)| keys).collect();
    // Another Secret may have one of them yet.
    let unmarked = secrets(&observed).filter(|(_, secret)| !is_marked(secret));
    let kept: BTreeSet<u32> = unmarked.flat_map(|(_, secret)| keys_of(secret)).collect();
    let there = |number: &&u32| observed.material.encryption.get(**number).is_some();
    let gone: Vec<u32> = gone.difference(&kept).filter(there).copied().collect();
    if gone.is_empty() {
        return observed;
    }
    let mut observed = observed;
    let material = &mut observed.to_mut().material;
    for number in gone {
        material.encryption.remove(number);
        material.encryption_apart.remove(&number);
    }
    observed
}
