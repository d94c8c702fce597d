//! A machine that nobody has: what follows from a look at it.
//!
//! Invariant: it is Available only where everything is proven, and Adoptable only where it is a node that nobody who is
//! alive has.

use std::time::Duration;

use api::host::HostPhase;
use api::{ConditionType, Host, Reason};

use super::observed::{Finding, Observed, Outcome, Twin};
use super::status::{Draft, architecture, kept};
use super::{adoption, identity};
use crate::plan::claim::{Claim, Owner};
use crate::plan::cleanliness::Cleanliness;
use crate::plan::facts::Facts;
use crate::plan::preflight::{self, Problem};

/// How often one is looked at whose node is to be taken over and has an owner that may be gone soon.
const OWNED: Duration = Duration::from_mins(2);

/// Nobody has it: it is Available as long as everything is proven. Gives after how long it is looked at again; none:
/// as one at rest.
pub(super) fn free(
    observed: &Observed,
    look: Option<&Finding>,
    draft: &mut Draft,
) -> Option<Duration> {
    let Some(look) = look else {
        // As it was; a claim is refused while the status speaks of another generation.
        return None;
    };
    draft.observed();
    match &look.outcome {
        Outcome::Seen {
            facts,
            host_key,
            clean,
        } => return seen(observed, (facts, host_key, clean), draft),
        Outcome::AnotherMachine { machine_id } => {
            draft.yes(ConditionType::Reachable, Reason::AsExpected);
            draft.unknown(ConditionType::Clean, Reason::NotLookedAt);
            let message = identity::changed(&observed.host, machine_id);
            draft.no(ConditionType::Verified, Reason::MachineChanged, &message);
            draft.becomes(HostPhase::Unverified);
        }
        Outcome::Failed(_) => {
            unreachable(look, draft);
            draft.not_known(Reason::NotLookedAt);
            draft.becomes(HostPhase::Unverified);
        }
        // Of a Machine; a look for nobody has none of them.
        Outcome::Claim(_) | Outcome::Join(_) | Outcome::Reset { .. } => {}
    }
    None
}

/// A machine that nobody has, and what it said.
fn seen(
    observed: &Observed,
    (facts, host_key, clean): (&Facts, &str, &Cleanliness),
    draft: &mut Draft,
) -> Option<Duration> {
    draft.yes(ConditionType::Reachable, Reason::AsExpected);
    draft.status.facts = Some(kept(facts, host_key));
    draft.status.node = None;
    if adoption::is_node(&observed.host, facts) {
        return node(observed, facts, draft);
    }
    let is_clean = said_clean(clean, draft);
    let mut host = observed.host.clone();
    host.status = Some(draft.status.clone());
    let this = Twin::of(&host);
    let duplicate = this.and_then(|this| identity::duplicate(&this, &observed.others));
    let problems = problems(observed, facts);
    let (is_usable, phase) = if let Some(owner) = &facts.owner {
        let message = Claim::Foreign(owner.clone()).words();
        draft.no(ConditionType::Verified, Reason::OwnedByAnother, &message);
        (false, HostPhase::Quarantined)
    } else if let Some(message) = duplicate {
        draft.no(ConditionType::Verified, Reason::Duplicate, &message);
        (false, HostPhase::Unverified)
    } else if !problems.is_empty() {
        draft.no(ConditionType::Verified, Reason::NotUsable, &problems);
        (false, HostPhase::Unverified)
    } else {
        draft.yes(ConditionType::Verified, Reason::AsExpected);
        (true, HostPhase::Unverified)
    };
    match is_usable && is_clean {
        true => draft.available(),
        false => draft.becomes(phase),
    }
    None
}

/// A machine that is a node already and is to be taken over as it runs.
fn node(observed: &Observed, facts: &Facts, draft: &mut Draft) -> Option<Duration> {
    let mut host = observed.host.clone();
    host.status = Some(draft.status.clone());
    let this = Twin::of(&host);
    let duplicate = this.and_then(|this| identity::duplicate(&this, &observed.others));
    let needs = needs(observed, facts);
    let problems = in_words(&observed.host, &preflight::problems_of_node(facts, &needs));
    let found = adoption::node(facts);
    let called = found.as_ref().map_or("", |node| &node.name);
    let message = format!("it is the node {called} already, which is to be taken over as it runs");
    draft.no(ConditionType::Clean, Reason::InUse, &message);
    if let Some(message) = duplicate {
        draft.no(ConditionType::Verified, Reason::Duplicate, &message);
        draft.becomes(HostPhase::Unverified);
    } else if !problems.is_empty() {
        draft.no(ConditionType::Verified, Reason::NotUsable, &problems);
        draft.becomes(HostPhase::Unverified);
    } else if let Some(message) = adoption::held(observed, facts) {
        draft.no(ConditionType::Verified, Reason::OwnedByAnother, &message);
        draft.becomes(HostPhase::Quarantined);
        return Some(OWNED);
    } else {
        draft.yes(ConditionType::Verified, Reason::AsExpected);
        draft.becomes(HostPhase::Adoptable);
        draft.status.node = found;
    }
    None
}

/// Whether it said that nothing is left; the condition says what it said.
pub(super) fn said_clean(clean: &Cleanliness, draft: &mut Draft) -> bool {
    match clean {
        Cleanliness::Clean => draft.yes(ConditionType::Clean, Reason::AsExpected),
        Cleanliness::Traces(traces) => {
            let message = format!("of a node there is {}", traces.join(", "));
            draft.no(ConditionType::Clean, Reason::TracesLeft, &message);
        }
        Cleanliness::Unknown => draft.unknown(ConditionType::Clean, Reason::NotLookedAt),
    }
    *clean == Cleanliness::Clean
}

/// What is asked of a machine that nobody has.
fn needs(observed: &Observed, facts: &Facts) -> preflight::Needs {
    preflight::Needs {
        us: facts.owner.clone().unwrap_or(Owner {
            machine: "nobody".to_owned(),
            ..Owner::default()
        }),
        cgroup1: observed.allows_cgroup1,
        sends_programs: observed.programs.are_for(architecture(&facts.arch)),
        node_address: observed.host.spec.node_address(),
        ..preflight::Needs::default()
    }
}

/// Everything that keeps a machine from becoming a node, in one text; empty: nothing. Whose it is has been asked.
fn problems(observed: &Observed, facts: &Facts) -> String {
    let needs = needs(observed, facts);
    in_words(&observed.host, &preflight::problems(facts, &needs))
}

fn in_words(host: &Host, found: &[Problem]) -> String {
    let found = found
        .iter()
        .filter(|found| !matches!(found, Problem::Owned(_)));
    let nameless = host.spec.node_address().is_none().then(|| {
        format!(
            "its address {} is a name, and nodes are known by IP addresses: set spec.nodeAddress to one that it has",
            host.spec.address
        )
    });
    let found: Vec<_> = nameless
        .into_iter()
        .chain(found.map(ToString::to_string))
        .collect();
    found.join("; ")
}

/// The session failed, or what it ran.
pub(super) fn unreachable(look: &Finding, draft: &mut Draft) {
    let Outcome::Failed(failure) = &look.outcome else {
        return;
    };
    draft.no(failure.about, failure.reason, &failure.message);
}
