//! The rotation of authorities and keys of a tenant cluster: what is seen of each, and what is to be done.
//!
//! How far each reader is says its rollout, because nobody sees when a file is read again
//! ([0009](../../../../../docs/adr/0009-authorities.md)). What is turned at the same time shares its rollouts: nothing of
//! one depends on the other.
//! Invariant: whatever is believed is in the Secrets before a pod is made that is to believe it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use api::Reason;
use api::tenant_cluster::{EncryptionStatus, RotationPhase, RotationStatus};
use jiff::Timestamp;
use kit::events::Notice;
use kit_objects::object::Object;
use pki::Want;
use tenant_cp::Validated;
use tenant_cp::certificates;
use tenant_cp::generations::authority_name;
use tenant_cp::names;
use tenant_cp::rollout::order::Allowed;

use super::types::{Part, Plan};
use crate::controllers::tenant_cluster::observed::{self, Observed};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::rotation::plan::{Decision, Step, Wait, decide};
use crate::rotation::told::{self, Subject};
use crate::status::Waiting;

mod aggregated;
mod at_rest;
pub(super) mod clients;
mod cluster;
mod encrypted;
mod front_proxy;
mod kms;
pub(super) mod kubeconfig;
pub(super) mod seen;
mod tokens;
mod users;

use encrypted::Encrypted;
use seen::{HowFar, Seen};

/// What is turned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Cluster,
    Users,
    Clients,
    FrontProxy,
    Tokens,
    AtRest,
}

const ALL: [Kind; 6] = [
    Kind::Cluster,
    Kind::Users,
    Kind::Clients,
    Kind::FrontProxy,
    Kind::Tokens,
    Kind::AtRest,
];

impl Kind {
    fn subject(self) -> Subject {
        match self {
            Self::Cluster => cluster::SUBJECT,
            Self::Users => users::SUBJECT,
            Self::Clients => clients::SUBJECT,
            Self::FrontProxy => front_proxy::SUBJECT,
            Self::Tokens => tokens::SUBJECT,
            Self::AtRest => at_rest::SUBJECT,
        }
    }

    /// What the Secret of a generation is called.
    fn secret(self, observed: &Observed, generation: u32) -> String {
        match self {
            Self::Cluster => authority_name(names::CA, generation),
            Self::Users => authority_name(names::USERS_CA, generation),
            Self::Clients => authority_name(names::CLIENT_CA, generation),
            Self::FrontProxy => authority_name(names::FRONT_PROXY_CA, generation),
            Self::Tokens => authority_name(names::SERVICE_ACCOUNT, generation),
            Self::AtRest => at_rest::secret_of(observed, generation),
        }
    }

    fn signs(self, observed: &Observed) -> Option<u32> {
        match self {
            Self::Cluster => cluster::signs(observed),
            Self::Users => users::signs(observed),
            Self::Clients => clients::signs(observed),
            Self::FrontProxy => front_proxy::signs(observed),
            Self::Tokens => tokens::signs(observed),
            Self::AtRest => at_rest::signs(observed),
        }
    }

    /// The observation with another generation that signs.
    fn signing(self, observed: Cow<'_, Observed>, generation: Option<u32>) -> Cow<'_, Observed> {
        match self {
            Self::Cluster => seen::signing(observed, names::CA, generation),
            Self::Users => seen::signing(observed, names::USERS_CA, generation),
            Self::Clients => seen::signing(observed, names::CLIENT_CA, generation),
            Self::FrontProxy => seen::signing(observed, names::FRONT_PROXY_CA, generation),
            Self::Tokens => tokens::signing(observed, generation),
            Self::AtRest => at_rest::signing(observed, generation),
        }
    }
}

/// How far one is, and what comes next.
struct Rotation {
    kind: Kind,
    seen: Seen,
    decision: Decision,
}

/// Generations that are to be made.
#[derive(Default)]
pub(super) struct ToMake {
    /// Of authorities, as certificates that are wanted.
    pub(super) authorities: Vec<Want>,
    /// Of the keys of service account tokens.
    pub(super) service_account: Option<u32>,
    /// Of the keys of encryption at rest.
    pub(super) encryption: Option<u32>,
}

/// How far all are.
pub(super) struct Rotations(Vec<Rotation>, Option<Encrypted>);

/// The tenant cluster with the KMSs whose plugins run beside its kube-apiservers, although it does not ask for them any more, or
/// not yet; none where there is none of them. `observed` is [`as_it_is`].
pub(super) fn with_kms(valid: &Validated, observed: &Observed) -> Option<Validated> {
    let used = observed.material.encrypted.kms.names();
    (!used.is_subset(&valid.kms)).then(|| {
        let mut valid = valid.clone();
        valid.kms.extend(used);
        valid
    })
}

/// The observation with what is believed and signs now, as objects say: what was dropped is no key any more.
pub(super) fn as_it_is(observed: &Observed) -> Cow<'_, Observed> {
    let is_left = |name: &&String| observed.material.has(name);
    let dropped = observed::dropped(&observed.objects).filter(is_left);
    let dropped: Vec<_> = dropped.cloned().collect();
    let mut as_it_is = Cow::Borrowed(observed);
    for name in dropped {
        as_it_is.to_mut().material.forget(&name);
    }
    let named = tokens::dropped_and_named(observed);
    if observed.material.service_account_dropped != named {
        as_it_is.to_mut().material.service_account_dropped = named;
    }
    as_it_is = at_rest::without_dropped(as_it_is);
    as_it_is = encrypted::as_it_is(as_it_is);
    for kind in ALL {
        let signs = kind.signs(&as_it_is);
        as_it_is = kind.signing(as_it_is, signs);
    }
    as_it_is
}

impl Rotations {
    /// Nothing of what is not known, or of which there is none. `observed` is [`as_it_is`]; how far its workloads are is by
    /// what is believed and signs there.
    pub(super) fn new(observed: &Observed, how_far: HowFar<'_>) -> Self {
        if !observed.readable {
            return Self(Vec::new(), None);
        }
        let one = |kind: Kind| {
            if kind == Kind::AtRest && at_rest::is_untouched(observed) {
                return None;
            }
            let signs = kind.signs(observed)?;
            let seen = match kind {
                Kind::Cluster => cluster::see(observed, signs, how_far),
                Kind::Users => users::see(observed, signs, how_far),
                Kind::Clients => clients::see(observed, signs, how_far),
                Kind::FrontProxy => front_proxy::see(observed, signs, how_far),
                Kind::Tokens => tokens::see(observed, signs, how_far),
                Kind::AtRest => at_rest::see(observed, signs, how_far),
            };
            let decision = decide(&seen.facts);
            Some(Rotation {
                kind,
                seen,
                decision,
            })
        };
        let all: Vec<Rotation> = ALL.into_iter().filter_map(one).collect();
        let is_turned =
            |one: &Rotation| one.kind == Kind::AtRest && one.decision.phase != RotationPhase::Idle;
        let encrypted = encrypted::see(observed, all.iter().any(is_turned), how_far);
        Self(all, encrypted)
    }

    /// What was observed, with the generations that sign from now on; none where those are the ones that sign.
    pub(super) fn as_it_is_now(&self, observed: &Observed) -> Option<Observed> {
        let mut now = Cow::Borrowed(observed);
        for one in &self.0 {
            if let Some(Step::Sign(generation)) = one.decision.step {
                now = one.kind.signing(now, Some(generation));
            }
        }
        if let Some(next) = self.1.as_ref().and_then(|encrypted| encrypted.next.clone()) {
            now.to_mut().material.encrypted = next;
        }
        match now {
            Cow::Borrowed(_) => None,
            Cow::Owned(now) => Some(now),
        }
    }

    /// What is to be made.
    pub(super) fn to_make(&self, wants: &[Want]) -> ToMake {
        let mut all = ToMake::default();
        for one in &self.0 {
            let Some(Step::Make(generation)) = one.decision.step else {
                continue;
            };
            match one.kind {
                Kind::Cluster => {
                    let next = certificates::next(wants, names::CA, generation);
                    all.authorities.extend(next);
                }
                Kind::Users => {
                    let next = certificates::next(wants, names::USERS_CA, generation);
                    all.authorities.extend(next);
                }
                Kind::Clients => {
                    let next = certificates::next(wants, names::CLIENT_CA, generation);
                    all.authorities.extend(next);
                }
                Kind::FrontProxy => {
                    let next = certificates::next(wants, names::FRONT_PROXY_CA, generation);
                    all.authorities.extend(next);
                }
                Kind::Tokens => all.service_account = Some(generation),
                Kind::AtRest => all.encryption = Some(generation),
            }
        }
        all
    }

    /// No pod is made before its Secret has what it is to read; until one was turned that changes nothing.
    pub(super) fn allow(&self, allowed: &mut Allowed) {
        for one in &self.0 {
            let is_turned = one.seen.facts.believed.iter().ne([&1]);
            let (for_servers, for_controllers) = one.seen.published;
            // What they are to sign, write or be known with stands in their Secrets, and that is not the wanted one yet.
            let signs_anew = matches!(one.decision.step, Some(Step::Sign(_)));
            let in_secrets = match one.kind {
                Kind::Cluster | Kind::Clients | Kind::FrontProxy | Kind::AtRest => true,
                Kind::Users | Kind::Tokens => false,
            };
            let is_told = in_secrets && signs_anew;
            allowed.control_plane &= !is_turned || (for_servers && !is_told);
            let is_clients = one.kind == Kind::Clients;
            let for_controllers = for_controllers && !(is_clients && is_told);
            allowed.controllers &= !is_turned || for_controllers;
            let of_addons = is_clients || one.kind == Kind::Cluster;
            allowed.rest &= !is_turned || !of_addons || for_controllers;
        }
        if let Some(encrypted) = &self.1 {
            allowed.control_plane &= encrypted.is_published && encrypted.next.is_none();
            allowed.control_plane &= !encrypted.lacks;
        }
    }

    /// Marks what is dropped, and says what it waits for.
    pub(super) fn part(&self, observed: &Observed, now: Timestamp) -> Part {
        let mut part = Part::new(PartName::Rotation);
        let mut changed = Vec::new();
        for Rotation {
            kind,
            seen,
            decision,
        } in &self.0
        {
            let secret = |generation| kind.secret(observed, generation);
            let mut dropped = BTreeSet::new();
            if let Some(Step::Drop(others)) = &decision.step {
                dropped.clone_from(others);
                let mark = |generation: &u32| {
                    let name = secret(*generation);
                    annotated(observed, &name, (names::DROPPED, &now.to_string()))
                };
                changed.extend(others.iter().filter_map(mark));
            }
            let notes = seen.notes.iter();
            let notes = notes.filter(|(generation, ..)| !dropped.contains(generation));
            changed.extend(notes.filter_map(|(generation, name, text)| {
                annotated(observed, &secret(*generation), (name, text))
            }));
            part.actions.extend(seen.ask.clone());
            if decision.is_refused && part.problem.is_none() {
                part.problem = Some(Waiting {
                    reason: Reason::RotationRefused,
                    message: told::refusal(kind.subject(), &seen.facts),
                });
            }
            if part.waiting.is_none() {
                let progress = told::progress(kind.subject(), &seen.facts, decision);
                part.waiting = progress.map(|message| Waiting {
                    reason: Reason::Rotating,
                    message,
                });
            }
        }
        if let Some(encrypted) = &self.1 {
            part.actions.extend(encrypted.ask.clone());
            if part.waiting.is_none() {
                let goes_on = encrypted.goes_on().map(|message| Waiting {
                    reason: Reason::Rotating,
                    message,
                });
                part.waiting = goes_on;
            }
        }
        part.apply("generations", observed, changed);
        part
    }

    /// What the status and Events say of it.
    pub(super) fn report(&self, plan: &mut Plan, observed: &Observed, now: Timestamp) {
        let before = observed.cluster.status.as_ref().map(|s| &s.rotation);
        let mut told = Vec::new();
        for one in &self.0 {
            let name = one.kind.subject().name;
            let mut before = before.into_iter().flatten();
            let before = before.find(|told| told.name == name);
            told.extend(one.report(plan, before, now));
            let again = plan.requeue_after.into_iter().chain(one.seen.again);
            plan.requeue_after = again.min();
        }
        let mut known = before.into_iter().flatten();
        let known = known.find(|told| told.name == kubeconfig::NAME);
        told.extend(kubeconfig::told(observed, known, now));
        plan.status.rotation = told;
        let encrypted = self.1.as_ref();
        if let Some(encrypted) = encrypted {
            tell_taken_back(plan, encrypted, observed);
        }
        if observed.readable {
            plan.status.encryption = encrypted.map(|encrypted| encrypted.status.clone());
        }
        let again = encrypted.and_then(|encrypted| encrypted.again);
        plan.requeue_after = plan.requeue_after.into_iter().chain(again).min();
    }
}

impl Rotation {
    fn report(
        &self,
        plan: &mut Plan,
        before: Option<&RotationStatus>,
        now: Timestamp,
    ) -> Option<RotationStatus> {
        let subject = self.kind.subject();
        let name = subject.name;
        let after = told::status(subject, &self.seen.facts, &self.decision, before, now)?;
        let after = RotationStatus {
            signed_until: self.seen.signed_until.clone(),
            believed_since: self.seen.believed_since.clone(),
            told_since: self.seen.told_since.clone(),
            ..after
        };
        let goes_on = |phase| phase != RotationPhase::Idle;
        let went_on = before.is_some_and(|before| goes_on(before.phase));
        let (generation, signs) = (after.generation, after.signs);
        if goes_on(after.phase) && !went_on {
            let message = format!(
                "{name} is turned to generation {generation}: status.rotation says how far it is"
            );
            plan.events.push(Notice::normal(Reason::Rotating, message));
        }
        let waited = before.is_some_and(|before| before.phase == RotationPhase::Draining);
        if self.decision.wait == Some(Wait::Outstanding) && !waited {
            let what = after.waiting_for.as_deref().unwrap_or_default();
            let message = format!("before anything of {name} is dropped it waits for {what}");
            let reason = match self.kind {
                Kind::Tokens => Reason::WaitingForTokens,
                Kind::Cluster | Kind::Users | Kind::Clients | Kind::FrontProxy | Kind::AtRest => {
                    Reason::Rotating
                }
            };
            plan.events.push(Notice::normal(reason, message));
        }
        let was_told = before.is_some_and(|before| before.told_since.is_some());
        if self.decision.wait == Some(Wait::Untold) && !was_told {
            let what = after.waiting_for.as_deref().unwrap_or_default();
            let message = format!("the rotation of {name} waits for {what}");
            plan.events.push(Notice::normal(Reason::Rotating, message));
        }
        if went_on && !goes_on(after.phase) {
            let message = format!("of {name} nothing but generation {signs} is believed");
            plan.events.push(Notice::normal(Reason::Rotated, message));
        }
        Some(after)
    }
}

/// That nobody became ready with a KMS, once.
fn tell_taken_back(plan: &mut Plan, encrypted: &Encrypted, observed: &Observed) {
    let returned = |status: &EncryptionStatus| status.kms.as_ref()?.returned.clone();
    let status = observed.cluster.status.as_ref();
    let before = status.and_then(|status| returned(status.encryption.as_ref()?));
    let Some(after) = returned(&encrypted.status).filter(|after| before.as_ref() != Some(after))
    else {
        return;
    };
    let message = format!(
        "no kube-apiserver became ready with the KMS {after}, so what was before stays; see whether its plugin reaches it, and \
         set spec.encryption.kms.generation to another number"
    );
    plan.events
        .push(Notice::warning(Reason::KmsTakenBack, message));
}

/// A Secret as it is, with an annotation.
fn annotated(observed: &Observed, name: &str, (annotation, text): (&str, &str)) -> Option<Object> {
    let ns = observed.tenant_namespace();
    let live = observed.find("Secret", &ns, name).there()?;
    let mut wanted = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "type": live["type"], "data": live["data"],
        "metadata": {
            "name": name, "namespace": ns, "labels": live["metadata"]["labels"],
            "annotations": { annotation: text },
        },
    });
    // What else was written there stays.
    for other in [
        names::DROPPED,
        names::SIGNED_UNTIL,
        names::BELIEVED_SINCE,
        names::BELIEVED_ALONE_SINCE,
    ] {
        let text = &live["metadata"]["annotations"][other];
        if other != annotation && text.is_string() {
            wanted["metadata"]["annotations"][other] = text.clone();
        }
    }
    let owners = &live["metadata"]["ownerReferences"];
    if owners.is_array() {
        wanted["metadata"]["ownerReferences"] = owners.clone();
    }
    Some(Object::from_value(wanted))
}
