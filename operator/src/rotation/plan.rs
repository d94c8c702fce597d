//! The next step of a rotation: make, bring to all who verify, sign, replace what was signed before, drop.
//!
//! Invariant: adding to what is believed is always allowed; the signer changes only to what every verifier believes, and
//! a generation is dropped only when nothing is in use that it signed.

use std::collections::BTreeSet;

use api::tenant_cluster::RotationPhase;
use kit_objects::known::Known;

use super::facts::Facts;

/// Most generations that are believed at once: a user who raises the number again and again fills no Secret.
pub const MOST: usize = 4;

/// What is to be done now. Done twice it is the same.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Make this generation, and have all verifiers believe it.
    Make(u32),
    /// Sign with this one from now on.
    Sign(u32),
    /// Have no verifier believe these any more.
    Drop(BTreeSet<u32>),
}

/// What is waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wait {
    /// Every verifier believes what it is to believe.
    Verifiers,
    /// Everything that holders have is of the one that signs.
    Holders,
    /// What others signed, and nobody but its holders can replace, is in use no more.
    Outstanding,
    /// Nodes that nothing but themselves would tell are told.
    Untold,
    /// Something is not known.
    Unknown(&'static str),
    /// Something else changes the tenant cluster.
    Busy(&'static str),
    /// The user has it stay.
    Hold,
    /// Nobody says which generation is to sign.
    Unasked,
    /// As many generations are believed as may be; some have to be dropped first.
    TooMany,
}

/// What follows from [`Facts`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Decision {
    /// How far it is.
    pub phase: RotationPhase,
    /// What is to be done now.
    pub step: Option<Step>,
    /// What is waited for, where nothing is to be done.
    pub wait: Option<Wait>,
    /// What is asked for cannot be had: this generation was dropped, or is older than one that was.
    pub is_refused: bool,
}

/// How far a rotation is, and what comes next.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    let target = facts.wanted.unwrap_or(facts.signs);
    let (phase, next) = match (facts.believed.contains(&target), target == facts.signs) {
        (false, _) => match is_new(facts, target) {
            true => (RotationPhase::Preparing, make(facts, target)),
            false => return refused(facts),
        },
        (true, false) => (RotationPhase::Preparing, sign(facts, target)),
        (true, true) => at_target(facts),
    };
    let decision = |step, wait| Decision {
        phase,
        step,
        wait,
        is_refused: false,
    };
    match next {
        _ if phase == RotationPhase::Idle => decision(None, None),
        // What was begun is believed, or signs, already: it stays so, and nothing new is begun.
        _ if facts.hold => decision(None, Some(Wait::Hold)),
        _ if facts.wanted.is_none() && facts.believed.len() > 1 => {
            decision(None, Some(Wait::Unasked))
        }
        Err(wait) => decision(None, Some(wait)),
        Ok(_) if facts.busy.is_some() => decision(None, facts.busy.map(Wait::Busy)),
        Ok(step) => decision(Some(step), None),
    }
}

/// A number is used once.
fn is_new(facts: &Facts, target: u32) -> bool {
    let mut all = facts.believed.iter().chain(&facts.dropped);
    all.all(|generation| target > *generation)
}

fn make(facts: &Facts, target: u32) -> Result<Step, Wait> {
    match facts.believed.len() < MOST {
        true => Ok(Step::Make(target)),
        false => Err(Wait::TooMany),
    }
}

fn sign(facts: &Facts, target: u32) -> Result<Step, Wait> {
    holds(facts.verifiers, Wait::Verifiers)?;
    is_nobody(&facts.untold, Wait::Untold)?;
    Ok(Step::Sign(target))
}

/// The wanted one signs: what it signed is brought to all, and then the others go.
fn at_target(facts: &Facts) -> (RotationPhase, Result<Step, Wait>) {
    let mut others = facts.believed.clone();
    others.remove(&facts.signs);
    if others.is_empty() {
        let untold = is_nobody(&facts.untold, Wait::Untold);
        return match (facts.dropped.is_empty(), facts.is_spreading, untold) {
            (false, true, _) => (RotationPhase::Dropping, Err(Wait::Verifiers)),
            (false, false, Err(wait)) => (RotationPhase::Dropping, Err(wait)),
            (true, ..) | (false, false, Ok(())) => (RotationPhase::Idle, Err(Wait::Verifiers)),
        };
    }
    if let Err(wait) = holds(facts.holders, Wait::Holders) {
        return (RotationPhase::Switching, Err(wait));
    }
    // Another rollout may be under way: one that is to believe less is not put on top of it.
    let next = holds(facts.verifiers, Wait::Verifiers)
        .and_then(|()| is_nobody(&facts.outstanding, Wait::Outstanding))
        .map(|()| Step::Drop(others));
    (RotationPhase::Draining, next)
}

fn holds(known: Known<bool>, wait: Wait) -> Result<(), Wait> {
    match known {
        Known::Known(true) => Ok(()),
        Known::Known(false) | Known::Absent => Err(wait),
        Known::Unknown { why } => Err(Wait::Unknown(why)),
    }
}

fn is_nobody(left: &Known<String>, wait: Wait) -> Result<(), Wait> {
    match left {
        Known::Absent => Ok(()),
        Known::Known(_) => Err(wait),
        Known::Unknown { why } => Err(Wait::Unknown(why)),
    }
}

/// Everything stays as it is.
fn refused(facts: &Facts) -> Decision {
    Decision {
        phase: at_target(facts).0,
        step: None,
        wait: None,
        is_refused: true,
    }
}
