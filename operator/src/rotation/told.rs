//! What people are told of a rotation.
//!
//! Invariant: it says what is waited for, and, where that is a person, what to set.

use std::collections::BTreeSet;

use api::tenant_cluster::{RotationPhase, RotationStatus};
use jiff::Timestamp;
use tenant_cp::validate::rotation::refusal as refusal_of;

use super::facts::Facts;
use super::kubelets::is_for_nodes;
use super::plan::{Decision, MOST, Step, Wait};

/// Most characters of what it waits for, as the schema has it.
const LONGEST: usize = 512;

/// Most generations that are told, as the schema has it: after a Restore there may be more for a while.
const MOST_TOLD: usize = 8;

/// Whom it is brought to, where that is nobody else.
pub const SERVERS: &str = "kube-apiservers";

/// What is turned, in words.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// What `spec.rotation` and the status call it.
    pub name: &'static str,
    /// Who is to believe it, or to verify by it.
    pub verifiers: &'static str,
    /// Who holds what it signs and what that has to be; the number of the generation follows.
    pub holders: &'static str,
}

/// Whether a rotation is under way. One that waits for nodes may do so for a year, and is at rest: what else there is to do
/// does not wait for it.
#[must_use]
pub fn goes_on(told: &RotationStatus) -> bool {
    told.phase != RotationPhase::Idle && !is_for_nodes(told)
}

/// The entry of the status; none where there is nothing to tell.
#[must_use]
pub fn status(
    subject: Subject,
    facts: &Facts,
    decision: &Decision,
    before: Option<&RotationStatus>,
    now: Timestamp,
) -> Option<RotationStatus> {
    let is_first = facts.believed.iter().eq([&1]);
    if facts.wanted.is_none() && is_first {
        return None;
    }
    let since = before.filter(|before| before.phase == decision.phase);
    Some(RotationStatus {
        name: subject.name.to_owned(),
        generation: facts.wanted.unwrap_or(facts.signs),
        signs: facts.signs,
        believed: newest(&facts.believed),
        phase: decision.phase,
        since: since.map_or_else(|| now.to_string(), |before| before.since.clone()),
        waiting_for: waiting_for(subject, facts, decision)
            .map(|what| what.chars().take(LONGEST).collect()),
        previous_until: None,
        signed_until: None,
        believed_since: None,
        told_since: None,
    })
}

fn newest(believed: &BTreeSet<u32>) -> Vec<u32> {
    let before = believed.len().saturating_sub(MOST_TOLD);
    believed.iter().skip(before).copied().collect()
}

fn waiting_for(subject: Subject, facts: &Facts, decision: &Decision) -> Option<String> {
    let (name, verifiers) = (subject.name, subject.verifiers);
    if decision.is_refused {
        return Some(refusal(subject, facts));
    }
    let all = listed(&facts.believed);
    Some(match decision.wait? {
        Wait::Verifiers if decision.phase == RotationPhase::Dropping => {
            format!("{verifiers} that believe nothing but {all}")
        }
        Wait::Verifiers => format!("{verifiers} that all believe {all}"),
        Wait::Holders => format!("{} generation {}", subject.holders, facts.signs),
        Wait::Outstanding => facts.outstanding.clone().there()?,
        Wait::Untold => facts.untold.clone().there()?,
        Wait::Unknown(why) => format!("what cannot be seen now: {why}"),
        Wait::Busy(what) => what.to_owned(),
        Wait::Hold => format!("spec.rotation.{name}.hold to be false"),
        Wait::Unasked => format!(
            "spec.rotation.{name}.generation: {all} are believed, and nothing says which is to sign"
        ),
        Wait::TooMany => format!(
            "one of {all} to be dropped: at most {MOST} are believed at once; set spec.rotation.{name}.generation to one \
             of them until the others are gone"
        ),
    })
}

/// Why what is asked for cannot be had, and how to mend it.
#[must_use]
pub fn refusal(subject: Subject, facts: &Facts) -> String {
    let name = subject.name;
    let newest = facts.believed.iter().chain(&facts.dropped).max();
    let asked = facts.wanted.unwrap_or_default();
    let why = refusal_of(asked, facts.signs, newest.copied().unwrap_or_default());
    format!("spec.rotation.{name}.generation: {why}")
}

/// What goes on, for the condition `Progressing`; none where it stands because its user
/// has it stand, or for as long as what was signed lasts, or at rest.
#[must_use]
pub fn progress(subject: Subject, facts: &Facts, decision: &Decision) -> Option<String> {
    if decision.is_refused || decision.phase == RotationPhase::Idle {
        return None;
    }
    let what = match (&decision.step, decision.wait) {
        (Some(Step::Make(generation)), _) => format!("generation {generation} is made"),
        (Some(Step::Sign(generation)), _) => format!("generation {generation} signs from now on"),
        (Some(Step::Drop(others)), _) => format!("no longer believed: {}", listed(others)),
        (None, Some(Wait::Hold | Wait::Unasked | Wait::Outstanding | Wait::Untold))
        | (None, None) => return None,
        (None, Some(_)) => format!("it waits for {}", waiting_for(subject, facts, decision)?),
    };
    let name = subject.name;
    Some(format!("{name} is turned ({:?}): {what}", decision.phase))
}

fn listed(generations: &BTreeSet<u32>) -> String {
    let all: Vec<_> = generations.iter().map(u32::to_string).collect();
    match all.len() {
        1 => format!("generation {}", all.concat()),
        _ => format!("generations {}", all.join(" and ")),
    }
}
