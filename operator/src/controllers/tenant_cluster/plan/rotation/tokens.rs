//! The keys of service account tokens.
//!
//! The kube-apiservers verify by all of them, and sign by one; kube-controller-managers sign by that one what Secrets
//! hold. None reads its key again, so everything is a rollout, and flags say who has which key. What was signed lasts: a
//! token for a day at most, one in a Secret for ever.
//! Invariant: when a key signed for the last time is written into its Secret before anything depends on it, and what is
//! written there of a key that signs again counts for nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use api::names::LABEL_COMPONENT;
use api::tenant_cluster::KeyTurn;
use jiff::{SignedDuration, Timestamp};
use kit_objects::known::Known;
use serde_json::Value;
use tenant_cp::certificates::{Generations, service_account_file, service_account_generation};
use tenant_cp::flags::apiserver::{LONGEST_TOKEN_HOURS, TOKENS_SIGNED_BY, TOKENS_VERIFIED_BY};
use tenant_cp::flags::controller_manager;
use tenant_cp::generations::service_account_secret;
use tenant_cp::names;

use super::seen::{HowFar, Seen, dropped, files_of, in_secret, signs_by};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::types::Action;
use crate::rotation::facts::Facts;
use crate::rotation::told::{self, Subject};
use crate::tenant_session::held_tokens::key_id;

pub(super) const SUBJECT: Subject = Subject {
    name: "serviceAccountKeys",
    verifiers: told::SERVERS,
    holders: "kube-apiservers and kube-controller-managers, to sign by",
};

/// How often Secrets are looked at again that hold tokens of before.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(10);

/// How much clocks of nodes may differ, and how long after its end a token is let in (a minute: go-jose).
const SPARE: SignedDuration = SignedDuration::from_mins(10);

/// `signs`: [`signs`].
pub(super) fn see(observed: &Observed, signs: u32, how_far: HowFar<'_>) -> Seen {
    let [_, control_plane, controllers] = how_far.progress;
    let asked = asked(observed);
    let wanted = asked.map(|turn| turn.generation);
    let believed = believed(observed);
    let published = (
        has_all(observed, names::API_SERVER, true),
        has_all(observed, names::CONTROLLER_MANAGER, false),
    );
    let mut notes = Vec::new();
    let (mut until, mut again, mut ask) = (None, None, None);
    let mut outstanding = Known::Absent;
    let signs_again = believed.len() > 1 && signed_until(observed, signs).is_some();
    let verify = how_far.is_current(control_plane, published.0 && !signs_again);
    let sign = how_far.is_current(controllers, published.1);
    let holders = Known::Known(verify == Known::Known(true) && sign == Known::Known(true));
    if signs_again {
        notes.push((signs, names::SIGNED_UNTIL, String::new()));
    }
    let is_at_target = wanted.is_none_or(|wanted| wanted == signs);
    if is_at_target && holders == Known::Known(true) && believed.len() > 1 {
        let others = believed.iter().filter(|other| **other != signs);
        for other in others.copied() {
            let end = signed_until(observed, other).unwrap_or_else(|| {
                notes.push((other, names::SIGNED_UNTIL, how_far.now.to_string()));
                how_far.now
            });
            until = until.max(Some(end));
        }
        let is_complete = asked.is_some_and(|turn| turn.complete >= Some(turn.generation));
        if !is_complete {
            let last = until.map(|until| end_of_tokens(until, how_far.now));
            let last = last.filter(|last| *last > how_far.now);
            let held = held(observed, signs);
            ask = match held {
                Known::Unknown { .. } if observed.held_tokens.is_none() => how_far.api,
                _ => None,
            };
            again = last.map(|last| last.duration_since(how_far.now));
            again = again.or((held != Known::Absent).then_some(LOOK_AGAIN));
            outstanding = waits(last, held, signs);
        }
    }
    let facts = Facts {
        wanted,
        hold: asked.is_some_and(|turn| turn.hold),
        untold: Known::Absent,
        is_spreading: !published.0 || are_others_named(observed, &believed),
        believed,
        dropped: dropped(observed, names::SERVICE_ACCOUNT),
        signs,
        verifiers: verify,
        holders,
        outstanding,
        busy: how_far.busy,
    };
    Seen {
        facts,
        published,
        notes,
        ask: ask.map(|address| Action::AskHeldTokens { address }),
        again: again.and_then(|again| Duration::try_from(again).ok()),
        signed_until: None,
        believed_since: None,
        told_since: None,
    }
}

/// When the last token ends that was signed until then.
fn end_of_tokens(until: Timestamp, now: Timestamp) -> Timestamp {
    let longest = SignedDuration::from_hours(LONGEST_TOKEN_HOURS) + SPARE;
    // One of a clock that went wrong lets nobody wait longer than it takes from now on.
    until
        .min(now)
        .checked_add(longest)
        .unwrap_or(Timestamp::MAX)
}

/// What of before is let in yet, until `last`, and in Secrets.
fn waits(last: Option<Timestamp>, held: Known<String>, signs: u32) -> Known<String> {
    let last = last.map(|last| format!("the last token of before to end, by {last}"));
    let held = match held {
        Known::Unknown { why } if last.is_none() => return Known::Unknown { why },
        held => held.there(),
    };
    let waits: Vec<_> = last.into_iter().chain(held).collect();
    if waits.is_empty() {
        return Known::Absent;
    }
    Known::Known(format!(
        "{}; or spec.rotation.serviceAccountKeys.complete to be {signs}, and who has one is refused then",
        waits.join("; and for ")
    ))
}

/// Secrets whose tokens another key signed; absent where there are none.
fn held(observed: &Observed, signs: u32) -> Known<String> {
    let tokens = match &observed.held_tokens {
        Some(Ok(tokens)) => tokens,
        Some(Err(_)) => {
            return Known::Unknown {
                why: "the API does not say which tokens its Secrets hold",
            };
        }
        None => {
            return Known::Unknown {
                why: "which tokens Secrets hold has not been asked",
            };
        }
    };
    let keys = observed.material.service_account.get(signs);
    let id = keys.and_then(|keys| key_id(&keys.public));
    let old = tokens
        .iter()
        .filter(|token| Some(&token.key) != id.as_ref());
    let old: Vec<_> = old.map(|token| token.place.as_str()).collect();
    let Some(first) = old.first() else {
        return Known::Absent;
    };
    let more = match old.len() {
        1 => String::new(),
        all => format!(" and {} more", all - 1),
    };
    Known::Known(format!(
        "Secrets whose tokens never end ({first}{more}): delete their data.token, and they get another one"
    ))
}

pub(super) fn signing(observed: Cow<'_, Observed>, generation: Option<u32>) -> Cow<'_, Observed> {
    let active = observed.material.service_account.active();
    let active = active.map(|(number, _)| number);
    let Some(generation) = generation.filter(|_| active != generation) else {
        return observed;
    };
    let mut observed = observed;
    observed.to_mut().material.service_account.hold(generation);
    observed
}

fn asked(observed: &Observed) -> Option<&KeyTurn> {
    observed.cluster.spec.rotation.service_account_keys.as_ref()
}

fn believed(observed: &Observed) -> BTreeSet<u32> {
    observed.material.service_account.numbers().collect()
}

/// The one that signs now, as the kube-apiservers and the kube-controller-managers were told by flags.
pub(super) fn signs(observed: &Observed) -> Option<u32> {
    let wanted = asked(observed).map(|turn| turn.generation);
    signs_by(&believed(observed), wanted, || {
        [
            told(observed, names::CONTROL_PLANE, TOKENS_SIGNED_BY),
            told(
                observed,
                names::CONTROLLERS,
                controller_manager::TOKENS_SIGNED_BY,
            ),
        ]
    })
}

fn told(observed: &Observed, deployment: &str, flag: &str) -> Option<u32> {
    let ns = observed.tenant_namespace();
    let live = observed.find("Deployment", &ns, deployment).there()?;
    let files = files_of(&live["spec"]["template"], flag);
    service_account_generation(files.first()?.strip_suffix(".key")?)
}

/// Until when a generation signed, as its Secret says; none where it may sign.
fn signed_until(observed: &Observed, generation: u32) -> Option<Timestamp> {
    let ns = observed.tenant_namespace();
    let secret = service_account_secret(generation);
    let live = observed.find("Secret", &ns, &secret).there()?;
    let until = live["metadata"]["annotations"][names::SIGNED_UNTIL].as_str()?;
    until.parse().ok()
}

/// Whether pods that are made now would find every key in their Secret.
fn has_all(observed: &Observed, secret: &str, with_public: bool) -> bool {
    let keys = observed.material.service_account.active_first();
    let mut files = keys.flat_map(|(generation, keys)| {
        let file = service_account_file(generation);
        let private = (format!("{file}.key"), keys.private.reveal().to_owned());
        let public = (format!("{file}.pub"), keys.public.clone());
        [Some(private), with_public.then_some(public)]
    });
    files.all(|wanted| {
        wanted.is_none_or(|(file, text)| in_secret(observed, secret, &file) == Some(text))
    })
}

/// Templates and pods of kube-apiservers.
fn servers(observed: &Observed) -> impl Iterator<Item = &Value> {
    let ns = observed.tenant_namespace();
    let live = observed.find("Deployment", &ns, names::CONTROL_PLANE);
    let template = live.there().map(|live| &live["spec"]["template"]);
    let pods = observed.objects.iter().filter(|(key, pod)| {
        key.kind == "Pod" && pod["metadata"]["labels"][LABEL_COMPONENT] == names::CONTROL_PLANE
    });
    template.into_iter().chain(pods.map(|(_, pod)| pod))
}

/// The keys that a kube-apiserver verifies by.
fn verified_by(pod: &Value) -> BTreeSet<u32> {
    let files = files_of(pod, TOKENS_VERIFIED_BY).into_iter();
    let files = files.filter_map(|file| file.strip_suffix(".pub"));
    files.filter_map(service_account_generation).collect()
}

/// Whether kube-apiservers run, or would be made, that verify by others than these.
fn are_others_named(observed: &Observed, believed: &BTreeSet<u32>) -> bool {
    let mut servers = servers(observed);
    servers.any(|pod| verified_by(pod) != *believed)
}

/// Public keys that were dropped, and that kube-apiservers still name: without the file one would not start again.
pub(super) fn dropped_and_named(observed: &Observed) -> Generations<String> {
    let dropped = dropped(observed, names::SERVICE_ACCOUNT);
    if dropped.is_empty() {
        return Generations::default();
    }
    let named: BTreeSet<u32> = servers(observed).flat_map(verified_by).collect();
    let kept = dropped.intersection(&named).filter_map(|generation| {
        let file = format!("{}.pub", service_account_file(*generation));
        let public = in_secret(observed, &service_account_secret(*generation), &file);
        Some((*generation, public?))
    });
    kept.collect()
}
