//! What follows for a Host: its status, what is to be done on the machine next, and when.
//!
//! Invariant: total, and the same for the same input; planned again on its own status it changes nothing but by a
//! newer look. Nothing is undone while a Machine wants it or nobody knows whether one does.

use std::time::Duration;

use api::host::{HostPhase, HostStatus};
use api::{ConditionType, Host, Reason, names};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::free::{free, said_clean, unreachable};
use super::identity;
use super::observed::{Errand, Finding, MachineState, Observed, Outcome};
use super::status::{Draft, cut, kept};
use crate::plan::claim::Claim;
use crate::plan::cleanliness::Cleanliness;
use crate::plan::facts::Facts;
use crate::plan::progress::Progress;
use crate::session::retry;

/// How often a machine is looked at where nothing is to be done.
pub const AT_REST: Duration = Duration::from_mins(10);
/// How often one that works is asked at first.
const FIRST_POLL: Duration = Duration::from_secs(2);
/// So many times: most are done by then. After that it is doubled each time.
const SOON: u32 = 4;
/// How often at last.
const LAST_POLL: Duration = Duration::from_secs(15);
/// How long a machine may be silent while it is to be reset, before its Machine goes without it.
pub const SILENCE: SignedDuration = SignedDuration::from_mins(2);

/// What is written beside the status.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// Before anybody may take it.
    AddFinalizer,
    /// Nobody has it any more, or a person said that it may go.
    RemoveFinalizer,
}

/// What people are told, once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Told {
    /// Why.
    pub reason: Reason,
    /// A sentence.
    pub message: String,
}

/// What follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What is written beside the status.
    pub action: Option<Action>,
    /// The status as it should be.
    pub status: HostStatus,
    /// What is to be done on the machine next, and not before when; none: nothing.
    pub errand: Option<(Errand, Timestamp)>,
    /// Events.
    pub told: Vec<Told>,
}

/// Decides.
#[must_use]
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let host = &observed.host;
    let mut draft = Draft::new(host, now);
    let mut told = Vec::new();
    let is_going = host.metadata.deletion_timestamp.is_some();
    let has_finalizer = host
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == names::FINALIZER_HOST);
    if is_going && (draft.status.claim.is_none() || is_abandoned(host)) {
        if let Some(claim) = &draft.status.claim {
            let machine = &claim.machine_name;
            told.push(Told {
                reason: Reason::HostAbandoned,
                message: format!(
                    "it goes although Machine {machine} has it: what is on {} stays there, and a kubelet may still run",
                    host.spec.address
                ),
            });
        }
        return Plan {
            action: has_finalizer.then_some(Action::RemoveFinalizer),
            status: host.status.clone().unwrap_or_default(),
            errand: None,
            told,
        };
    }
    // One that was made before the claim, or for another spec, says nothing of what is there now.
    let look = observed.look.as_ref().filter(|look| look.is_of(host));
    let mut rest = AT_REST;
    let errand = match draft.status.claim.is_some() {
        false => {
            rest = free(observed, look, &mut draft).unwrap_or(AT_REST);
            Some(Errand::Inspect)
        }
        true => held(observed, look, &mut draft),
    };
    // A claim that was just given up, or a step that was just made, is looked at anew.
    let is_same =
        draft.status.claim == host.status.as_ref().and_then(|status| status.claim.clone());
    let look = look.filter(|_| is_same);
    let due = |errand| (errand, due(host, errand, (look, rest), now));
    Plan {
        action: (!has_finalizer && !is_going).then_some(Action::AddFinalizer),
        errand: errand.map(due),
        status: draft.status,
        told,
    }
}

fn is_abandoned(host: &Host) -> bool {
    let said = host.annotations().get(names::ANNOTATION_ABANDON);
    said.is_some() && said.cloned() == host.uid()
}

/// When an errand is run: at once where the last look was another one, and after `rest` where nothing is to be done.
fn due(
    host: &Host,
    errand: Errand,
    (look, rest): (Option<&Finding>, Duration),
    now: Timestamp,
) -> Timestamp {
    let Some(look) = look.filter(|look| look.errand == errand) else {
        return now;
    };
    let wait = match (look.failures, look.polls) {
        (0, 0) => rest + rest.mul_f64(0.2 * chance(host, 0)),
        (failures, 0) => retry::after(failures, chance(host, failures)),
        (_, polls) => FIRST_POLL
            .saturating_mul(1 << polls.saturating_sub(SOON).min(8))
            .min(LAST_POLL),
    };
    look.at
        .saturating_add(SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX))
        .unwrap_or(Timestamp::MAX)
}

/// Uniform in `[0, 1)`, and the same for the same Host and try: hosts that failed together do not come again
/// together.
fn chance(host: &Host, tries: u32) -> f64 {
    let uid = host.uid().unwrap_or_default();
    let seed = uid.bytes().fold(tries ^ 0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    f64::from(seed) / (f64::from(u32::MAX) + 1.0)
}

/// A Machine has it: gives what is to be done next.
fn held(observed: &Observed, look: Option<&Finding>, draft: &mut Draft) -> Option<Errand> {
    let host = &observed.host;
    if is_said_clean(observed, draft) {
        draft.status.claim = None;
        draft.becomes(HostPhase::Unverified);
        draft.not_known(Reason::NotLookedAt);
        return Some(Errand::Inspect);
    }
    let is_reset = matches!(draft.phase(), HostPhase::Resetting | HostPhase::Quarantined);
    if observed.machine == MachineState::Gone && !is_reset {
        draft.becomes(HostPhase::Resetting);
    }
    in_use(host, draft);
    if let Some(look) = look {
        draft.observed();
        match &look.outcome {
            Outcome::Failed(_) => unreachable(look, draft),
            _ => {
                draft.yes(ConditionType::Reachable, Reason::AsExpected);
                if draft.says(ConditionType::Verified, Reason::TransientFailure) {
                    draft.yes(ConditionType::Verified, Reason::AsExpected);
                }
            }
        }
        if let Outcome::AnotherMachine { machine_id } = &look.outcome {
            let message = identity::changed(host, machine_id);
            draft.no(ConditionType::Verified, Reason::MachineChanged, &message);
        }
        follow(observed, look, draft);
    }
    is_silent(draft);
    match (draft.status.claim.is_some(), draft.phase()) {
        (false, _) => Some(Errand::Inspect),
        (true, HostPhase::Claimed) => Some(Errand::Claim),
        (true, HostPhase::Joining) => Some(Errand::Join),
        (true, HostPhase::Resetting) => Some(Errand::Reset),
        // Not while a Machine wants it, nor while that is not known: it may run pods.
        (true, HostPhase::Quarantined) => match observed.machine {
            MachineState::Going | MachineState::Gone => Some(Errand::Reset),
            MachineState::Wanted | MachineState::Unknown => Some(Errand::Inspect),
        },
        // The first three are not of a Host that a Machine has.
        (
            true,
            HostPhase::Unverified | HostPhase::Available | HostPhase::Adoptable | HostPhase::Joined,
        ) => Some(Errand::Inspect),
    }
}

/// A person said that what this claim's Machine left is removed; not heard while the Machine may be there.
fn is_said_clean(observed: &Observed, draft: &Draft) -> bool {
    let annotations = observed.host.annotations();
    let said = annotations.get(names::ANNOTATION_HOST_IS_CLEAN);
    let claim = draft.status.claim.as_ref();
    said.is_some()
        && said == claim.map(|claim| &claim.machine_uid)
        && draft.phase() == HostPhase::Quarantined
        && matches!(observed.machine, MachineState::Going | MachineState::Gone)
}

/// What the condition `Clean` says while a Machine has it, unless there is worse to say.
fn in_use(host: &Host, draft: &mut Draft) {
    let Some(claim) = draft.status.claim.clone() else {
        return;
    };
    let mut message = format!("Machine {} has it", claim.machine_name);
    if host.metadata.deletion_timestamp.is_some() {
        let uid = host.uid().unwrap_or_default();
        message.push_str(&format!(
            ", so this Host, which is being deleted, waits for it: kubectl delete machine {}; or, to let it go with all \
             that is on it, kubectl annotate host {} {}={uid}",
            claim.machine_name,
            host.name_any(),
            names::ANNOTATION_ABANDON,
        ));
    }
    match draft.phase() {
        HostPhase::Resetting => {
            let message = "what was done for its Machine is being undone";
            draft.no(ConditionType::Clean, Reason::InUse, message);
        }
        HostPhase::Quarantined => {}
        _ => draft.no(ConditionType::Clean, Reason::InUse, &message),
    }
}

/// The step after a look.
fn follow(observed: &Observed, look: &Finding, draft: &mut Draft) {
    match (draft.phase(), &look.outcome) {
        (HostPhase::Claimed, Outcome::Claim(claim)) => claimed(claim, draft),
        (HostPhase::Joining, Outcome::Join(progress)) => joining(progress, draft),
        (
            HostPhase::Resetting | HostPhase::Quarantined,
            Outcome::Reset {
                progress,
                clean,
                kubelet,
            },
        ) if draft.phase() == HostPhase::Resetting
            || matches!(observed.machine, MachineState::Going | MachineState::Gone) =>
        {
            resetting(progress, clean, draft);
            if let (Progress::Undone, Some(facts)) = (progress, draft.status.facts.as_mut()) {
                facts.kubelet = kubelet.as_deref().map(|version| cut(version, 64));
            }
        }
        // It was installed anew or replaced, and a person said so.
        (
            _,
            Outcome::Seen {
                facts, host_key, ..
            },
        ) => {
            draft.status.facts = Some(kept(facts, host_key));
            if draft.says(ConditionType::Verified, Reason::MachineChanged) {
                draft.yes(ConditionType::Verified, Reason::AsExpected);
            }
            is_taken_over(facts, draft);
        }
        _ => {}
    }
}

/// Another installation has taken the node over: what is on the machine is its own now, and nothing of it is touched.
fn is_taken_over(facts: &Facts, draft: &mut Draft) {
    let ours = draft.status.claim.clone().unwrap_or_default().machine_uid;
    if let Some(owner) = facts.owner.as_ref().filter(|owner| owner.machine != ours)
        && draft.phase() == HostPhase::Joined
    {
        draft.becomes(HostPhase::Quarantined);
        let words = Claim::Foreign(owner.clone()).words();
        draft.no(ConditionType::Verified, Reason::OwnedByAnother, &words);
    }
}

fn claimed(claim: &Claim, draft: &mut Draft) {
    let (phase, reason) = match claim {
        Claim::Ours => {
            draft.becomes(HostPhase::Joining);
            return;
        }
        // Nothing was done on it for this Machine, which takes another one.
        Claim::Foreign(_) => (HostPhase::Quarantined, Reason::OwnedByAnother),
        Claim::Unwritable | Claim::Changed(_) => (HostPhase::Unverified, Reason::NotUsable),
    };
    draft.status.claim = None;
    draft.becomes(phase);
    draft.no(ConditionType::Verified, reason, &claim.words());
    draft.unknown(ConditionType::Clean, Reason::NotLookedAt);
}

fn joining(progress: &Progress, draft: &mut Draft) {
    match progress {
        Progress::Joined(_) => {
            draft.becomes(HostPhase::Joined);
            draft.yes(ConditionType::Verified, Reason::AsExpected);
        }
        Progress::Foreign(words) => {
            draft.becomes(HostPhase::Quarantined);
            draft.no(ConditionType::Verified, Reason::OwnedByAnother, words);
        }
        Progress::Failed(words) => draft.no(ConditionType::Verified, Reason::HostFailing, words),
        Progress::Working(_) | Progress::Start | Progress::Undone => {}
    }
}

fn resetting(progress: &Progress, clean: &Cleanliness, draft: &mut Draft) {
    match progress {
        Progress::Undone => match said_clean(clean, draft) {
            true => {
                draft.status.claim = None;
                let mut known = draft.status.conditions.iter();
                let is_verified = known.any(|known| {
                    known.type_ == ConditionType::Verified.as_str() && known.status == "True"
                });
                match is_verified {
                    true => draft.available(),
                    false => draft.becomes(HostPhase::Unverified),
                }
            }
            false => draft.becomes(HostPhase::Quarantined),
        },
        // Whose it is now has taken it over; nothing of ours is left to undo.
        Progress::Foreign(words) => {
            draft.status.claim = None;
            draft.becomes(HostPhase::Quarantined);
            draft.no(ConditionType::Verified, Reason::OwnedByAnother, words);
            draft.unknown(ConditionType::Clean, Reason::NotLookedAt);
        }
        Progress::Failed(words) => {
            draft.becomes(HostPhase::Quarantined);
            draft.no(ConditionType::Clean, Reason::TracesLeft, words);
        }
        Progress::Working(_) | Progress::Start | Progress::Joined(_) => {}
    }
}

/// A machine that does not answer while it is to be reset, or another one in its place, holds its Machine no longer;
/// nobody gets it.
fn is_silent(draft: &mut Draft) {
    let is_changed = draft.says(ConditionType::Verified, Reason::MachineChanged);
    let silent = match is_changed {
        true => draft.is_false_for(ConditionType::Verified),
        false => draft.is_false_for(ConditionType::Reachable),
    };
    if draft.phase() != HostPhase::Resetting || silent < SILENCE {
        return;
    }
    draft.becomes(HostPhase::Quarantined);
    let claim = draft.status.claim.clone().unwrap_or_default();
    let why = match is_changed {
        true => "another machine was in its place",
        false => "it did not answer",
    };
    let message = format!(
        "{why} when Machine {} went, so its kubelet may still run: bring it back, and it is reset by itself; or clean it \
         by hand and set the annotation {}={}",
        claim.machine_name,
        names::ANNOTATION_HOST_IS_CLEAN,
        claim.machine_uid
    );
    let unknown = api::ConditionStatus::Unknown;
    draft.set(
        ConditionType::Clean,
        unknown,
        Reason::ResetPending,
        &message,
    );
}

/// Whether a Machine that goes need not wait for the Host any more: it has no claim of it, or the Host is kept from
/// everybody until it is proven clean.
#[must_use]
pub fn lets_go(host: &Host, machine_uid: &str) -> bool {
    let phase = host.status.as_ref().and_then(|status| status.phase);
    !super::choose::is_of(host, machine_uid) || phase == Some(HostPhase::Quarantined)
}
