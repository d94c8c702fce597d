//! What people are told of a rotation.
//!
//! Invariant: it says what is waited for, and, where that is a person, what to set.

use std::collections::BTreeSet;

use api::tenant_cluster::{RotationPhase, RotationStatus};
use jiff::Timestamp;
use tenant_cp::validate::rotation::refusal as refusal_of;

use super::facts::Facts;
use super::plan::{Decision, MOST, Step, Wait};

/// The entry of the status; none where there is nothing to tell.
#[must_use]
pub fn status(
    name: &str,
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
        name: name.to_owned(),
        generation: facts.wanted.unwrap_or(facts.signs),
        signs: facts.signs,
        believed: facts.believed.iter().copied().collect(),
        phase: decision.phase,
        since: since.map_or_else(|| now.to_string(), |before| before.since.clone()),
        waiting_for: waiting_for(name, facts, decision),
    })
}

fn waiting_for(name: &str, facts: &Facts, decision: &Decision) -> Option<String> {
    if decision.is_refused {
        return Some(refusal(name, facts));
    }
    let all = listed(&facts.believed);
    Some(match decision.wait? {
        Wait::Verifiers if decision.phase == RotationPhase::Dropping => {
            format!("kube-apiservers that believe nothing but {all}")
        }
        Wait::Verifiers => format!("kube-apiservers that all believe {all}"),
        Wait::Holders => format!(
            "the kubeconfig and the kube-controller-managers, to have what generation {} signs",
            facts.signs
        ),
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
pub fn refusal(name: &str, facts: &Facts) -> String {
    let newest = facts.believed.iter().chain(&facts.dropped).max();
    let asked = facts.wanted.unwrap_or_default();
    let why = refusal_of(asked, facts.signs, newest.copied().unwrap_or_default());
    format!("spec.rotation.{name}.generation: {why}")
}

/// What goes on, for the condition `Progressing`; none where it stands because its user has it stand, or at rest.
#[must_use]
pub fn progress(name: &str, facts: &Facts, decision: &Decision) -> Option<String> {
    if decision.is_refused || decision.phase == RotationPhase::Idle {
        return None;
    }
    let what = match (&decision.step, decision.wait) {
        (Some(Step::Make(generation)), _) => format!("generation {generation} is made"),
        (Some(Step::Sign(generation)), _) => format!("generation {generation} signs from now on"),
        (Some(Step::Drop(others)), _) => format!("no longer believed: {}", listed(others)),
        (None, Some(Wait::Hold | Wait::Unasked)) | (None, None) => return None,
        (None, Some(_)) => format!("it waits for {}", waiting_for(name, facts, decision)?),
    };
    Some(format!("{name} is turned ({:?}): {what}", decision.phase))
}

fn listed(generations: &BTreeSet<u32>) -> String {
    let all: Vec<_> = generations.iter().map(u32::to_string).collect();
    match all.len() {
        1 => format!("generation {}", all.concat()),
        _ => format!("generations {}", all.join(" and ")),
    }
}
