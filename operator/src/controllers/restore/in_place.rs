//! What is next when a tenant cluster is brought back in place, to a moment of its backup. No I/O, no clock, no chance; not
//! carried out by anything yet (the definition refuses a Restore without `dryRun`).
//!
//! The new data is built beside the old, in a folder of its own on the same volumes, so the old stays until somebody
//! confirms. There is no remembered phase: it follows from what is seen, and from facts that cannot be seen again, which
//! are written before anything depends on them. Laws (`tests`): a crash between any two writes leads to the same end;
//! nothing is stopped before it is known that the moment can be had; nothing is built while a pod is left that could
//! write; no member starts on a folder that was not built whole; no kube-apiserver starts before the store is prepared;
//! what cannot be built is given up, and the old data serves again.

use std::collections::{BTreeMap, BTreeSet};

use crate::controllers::tenant_backup::report::Choice;

#[cfg(test)]
mod tests;

/// Above every revision that was ever told, by so much at least: watches of before must find theirs compacted.
const MARGIN: u64 = 1_000_000_000;

/// Pods that have to be gone while data is built.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Workload {
    /// kube-apiserver, controllers, and every addon beside them: whoever may write, or believes what it read.
    ControlPlane,
    /// The process that backs up.
    Backup,
    /// The members of etcd.
    Etcd,
}

/// All of them, in the order in which they stop.
pub const ALL: [Workload; 3] = [Workload::ControlPlane, Workload::Backup, Workload::Etcd];

/// How far the Job of one member is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Build {
    /// It runs.
    Runs,
    /// It failed, for people.
    Failed(String),
    /// The folder is whole.
    Done,
}

/// Facts that cannot be seen again: they stand in the status.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Recorded {
    /// The revision that is restored; none until it is known that it can be had.
    pub revision: Option<u64>,
    /// How much revisions are raised.
    pub bump: Option<u64>,
    /// Why it was given up.
    pub given_up: Option<String>,
    /// Members run on what was built.
    pub is_switched: bool,
    /// Leases of before were deleted from it; those that come afterwards are not.
    pub is_prepared: bool,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Names of the members.
    pub members: Vec<String>,
    /// The facts.
    pub recorded: Recorded,
    /// What the process found in the backup; none where it was not asked.
    pub choice: Option<Choice>,
    /// The newest revision that etcd or the backup has told.
    pub live_revision: Option<u64>,
    /// Pods that are there, terminating ones included.
    pub pods: BTreeMap<Workload, u32>,
    /// Jobs, by member.
    pub builds: BTreeMap<String, Build>,
    /// Whether etcd answers as the cluster that was built.
    pub answers: bool,
    /// Whether Leases of before are gone from it.
    pub is_prepared: bool,
    /// Whether the control plane serves.
    pub serves: bool,
}

/// How far it is, for people.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Phase {
    /// Whether it can be had is looked for.
    Choose,
    /// It cannot; nothing was touched.
    Impossible(String),
    /// What could write ends.
    Stop,
    /// Data is built.
    Build,
    /// Members start on it, and Leases of before are deleted.
    Prepare,
    /// The control plane starts.
    Start,
    /// It serves.
    Settle,
    /// It was given up, and the old data serves.
    GivenUp(String),
}

/// What is to be so, whoever sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan {
    /// How far it is.
    pub phase: Phase,
    /// Facts as they should stand. Where they do not, that is written, and nothing else is done before.
    pub record: Recorded,
    /// Workloads that have no pods.
    pub held: BTreeSet<Workload>,
    /// Members whose Job is to be there.
    pub build: BTreeSet<String>,
    /// Whether members are started on the folder that was built.
    pub on_built: bool,
    /// Whether Leases are deleted from etcd.
    pub prepare: bool,
}

/// Decides.
#[must_use]
pub fn plan(observed: &Observed) -> Plan {
    let recorded = &observed.recorded;
    let mut plan = Plan {
        phase: Phase::Choose,
        record: recorded.clone(),
        held: BTreeSet::new(),
        build: BTreeSet::new(),
        on_built: recorded.is_switched,
        prepare: false,
    };
    if let Some(why) = &recorded.given_up {
        plan.phase = Phase::GivenUp(why.clone());
        return plan;
    }
    if recorded.revision.is_none() {
        choose(observed, &mut plan);
    } else if recorded.is_switched {
        switched(observed, &mut plan);
    } else {
        stopped(observed, &mut plan);
    }
    plan
}

fn choose(observed: &Observed, plan: &mut Plan) {
    let found = match &observed.choice {
        Some(Choice::Is(found)) => found,
        Some(Choice::Reads | Choice::Unknown(_)) | None => return,
    };
    match (found.possible, found.revision, observed.live_revision) {
        (false, ..) => {
            let why = found.why.clone().unwrap_or_default();
            plan.phase = Phase::Impossible(why);
        }
        (true, Some(revision), Some(live)) => {
            plan.record.revision = Some(revision);
            let behind = live.saturating_sub(revision);
            plan.record.bump = Some(behind.saturating_add(MARGIN));
        }
        // How far watches have come is not known, so no bump is known to be enough.
        (true, ..) => {}
    }
}

/// The moment can be had, and members still have the old data.
fn stopped(observed: &Observed, plan: &mut Plan) {
    plan.phase = Phase::Stop;
    let is_gone = |workload: &Workload| observed.pods.get(workload).is_none_or(|pods| *pods == 0);
    for workload in ALL {
        plan.held.insert(workload);
        if !is_gone(&workload) {
            // One after the other: the backup takes the last changes along, and etcd serves it until then.
            return;
        }
    }
    plan.phase = Phase::Build;
    let failed = observed
        .builds
        .iter()
        .find_map(|(member, build)| match build {
            Build::Failed(why) => Some(format!("{member}: {why}")),
            Build::Runs | Build::Done => None,
        });
    if let Some(why) = failed {
        plan.record.given_up = Some(why);
        return;
    }
    plan.build.extend(observed.members.iter().cloned());
    let is_built = |member: &String| observed.builds.get(member) == Some(&Build::Done);
    if !observed.members.is_empty() && observed.members.iter().all(is_built) {
        plan.record.is_switched = true;
    }
}

/// Members are to run on what was built.
fn switched(observed: &Observed, plan: &mut Plan) {
    plan.phase = match (observed.recorded.is_prepared, observed.serves) {
        (false, _) => Phase::Prepare,
        (true, false) => Phase::Start,
        (true, true) => Phase::Settle,
    };
    // An outage later on is one, and stops nothing anew.
    if plan.phase == Phase::Prepare {
        plan.held.extend([Workload::ControlPlane, Workload::Backup]);
        plan.prepare = observed.answers && !observed.is_prepared;
        plan.record.is_prepared = observed.answers && observed.is_prepared;
    }
}
