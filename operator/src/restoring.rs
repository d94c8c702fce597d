//! What is next when a tenant cluster is brought back in place, to a moment of its backup. No I/O, no clock, no chance.
//!
//! The new data is built beside the old, in a folder of its own on the same volumes, so the old stays until somebody
//! confirms. There is no remembered phase: it follows from what is seen, and from facts that cannot be seen again, which
//! are written before anything depends on them. Laws (`tests`): a crash between any two writes leads to the same end;
//! nothing is built while a pod is left that could write; no member starts on a folder that was not built whole, or is of
//! another revision than its peers'; no kube-apiserver starts before the store is prepared; what cannot be built is given
//! up, and the old data serves again; what was there before goes only once that is confirmed and every member serves. A
//! load balancer that the tenant cluster of then does not know goes only where it was decided that it goes; that nobody said
//! whether it is known is not that it is unknown; and what was there before stays while it is not decided what becomes of
//! volumes.

use std::collections::{BTreeMap, BTreeSet};

use api::restore::Orphans;

pub mod begin;
pub mod copy;
pub mod into;
pub mod snapshots;
#[cfg(test)]
mod tests;
pub mod volumes;

/// Above every revision that was ever told, by so much at least: watches of before must find theirs compacted. More than
/// can be written between the look at the backup and the end of the last pod that writes.
pub const MARGIN: u64 = 1_000_000_000;

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

/// What the folder of one member has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Built {
    /// UID of the claim that it is on.
    pub claim_uid: String,
    /// The revision of the backup that it stands at.
    pub revision: u64,
    /// The etcd cluster that it is of, hexadecimal.
    pub cluster_id: String,
    /// The member in it, hexadecimal.
    pub member_id: String,
}

/// How far the Job of one member is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Job<T> {
    /// It runs, or its pod waits.
    Runs,
    /// It failed, for people.
    Failed(String),
    /// It did what it was made for.
    Done(T),
}

/// What came of a member whose volume is left.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Salvage {
    /// The backup has all that it has, until this revision.
    Until(u64),
    /// It was left aside, for people.
    Aside(String),
}

/// Facts that cannot be seen again: they stand in the status.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Recorded {
    /// No pod is left that writes to etcd, so that the backup has everything, and may end.
    pub is_quiet: bool,
    /// What came of the member whose volume is left.
    pub salvaged: Option<Salvage>,
    /// Members run on what was built.
    pub is_switched: bool,
    /// Leases of before were deleted from it; those that come afterwards are not.
    pub is_prepared: bool,
    /// Why it was given up.
    pub given_up: Option<String>,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Names of the members.
    pub members: Vec<String>,
    /// Etcd clusters that what is built must not be of, hexadecimal: the one whose backup it is, and the one that is
    /// replaced.
    pub formers: BTreeSet<String>,
    /// The revision that it has to have at least.
    pub revision: u64,
    /// The facts.
    pub recorded: Recorded,
    /// Whether the Restore is there, and is to stay.
    pub is_wanted: bool,
    /// Whether it takes so long that the tenant cluster serves what it had rather than nothing.
    pub is_overdue: bool,
    /// Pods that are there, terminating ones included.
    pub pods: BTreeMap<Workload, u32>,
    /// The member whose volume is left, where one is to be read before anything is built.
    pub survivor: Option<String>,
    /// The Job that reads it; none where there is none.
    pub salvage: Option<Job<Salvage>>,
    /// Jobs that build, by member.
    pub builds: BTreeMap<String, Job<Built>>,
    /// Whether members that start now are told to take over what was built.
    pub is_told: bool,
    /// Whether etcd answers as the cluster that was built, and has a leader.
    pub answers: bool,
    /// Whether Leases of before were deleted just now.
    pub is_prepared: bool,
    /// Whether every member serves.
    pub all_serve: bool,
    /// Whether the control plane serves.
    pub serves: bool,
    /// Whether what was there before may go.
    pub is_confirmed: bool,
    /// Whether the Restore says how it ended, or is gone.
    pub is_said: bool,
    /// Load balancers in the tenant namespace, by name.
    pub balancers: BTreeMap<String, Mark>,
    /// What is to become of those that the tenant cluster of then does not know.
    pub orphans: Orphans,
    /// Whether anybody runs who could say which of them it knows.
    pub is_told_apart: bool,
    /// Whether there may be volumes of which it is not said or decided yet what becomes of them ([`volumes`]).
    pub has_undecided_volumes: bool,
    /// Jobs that remove what was there before, by member.
    pub forgets: BTreeMap<String, Job<()>>,
}

/// Whether a load balancer stays although no Service of the tenant cluster may be there for it any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mark {
    /// It has no mark of this Restore.
    None,
    /// It is marked, and nobody said whether the tenant cluster knows it.
    Unknown,
    /// It is marked, and the tenant cluster knows it.
    Known,
    /// It is marked, and the tenant cluster does not know it.
    Orphan,
}

/// How far it is, for people.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Phase {
    /// What could write ends.
    Stop(Workload),
    /// What this member has beyond the backup is put there.
    Salvage(String),
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
    /// What every member has from now on, by name; written together with the fact that members run on it.
    pub switch: Option<BTreeMap<String, Built>>,
    /// Workloads that have no pods.
    pub held: BTreeSet<Workload>,
    /// The member of which what is left is to be read.
    pub salvage: Option<String>,
    /// Whether the Job that reads it is to go.
    pub stop_salvaging: bool,
    /// Members whose data is to be built.
    pub build: BTreeSet<String>,
    /// Members whose Job that builds is to go.
    pub stop_building: BTreeSet<String>,
    /// Whether Leases are deleted from etcd.
    pub prepare: bool,
    /// Load balancers to mark, so that they stay.
    pub keep: BTreeSet<String>,
    /// Load balancers whose mark goes, and they with it where no Service is there for them.
    pub release: BTreeSet<String>,
    /// Members of which what was there before is to be removed.
    pub forget: BTreeSet<String>,
    /// Whether nothing is left to do, so that the facts may be forgotten.
    pub is_over: bool,
}

/// Decides.
#[must_use]
pub fn plan(observed: &Observed) -> Plan {
    let recorded = &observed.recorded;
    let mut plan = Plan {
        phase: Phase::Settle,
        record: recorded.clone(),
        switch: None,
        held: BTreeSet::new(),
        salvage: None,
        stop_salvaging: false,
        build: BTreeSet::new(),
        stop_building: BTreeSet::new(),
        prepare: false,
        keep: BTreeSet::new(),
        release: BTreeSet::new(),
        forget: BTreeSet::new(),
        is_over: false,
    };
    if let Some(why) = &recorded.given_up {
        plan.phase = Phase::GivenUp(why.clone());
        plan.stop_building.extend(observed.builds.keys().cloned());
        plan.stop_salvaging = observed.salvage.is_some();
        let has_jobs = plan.stop_salvaging || !observed.builds.is_empty();
        plan.is_over = observed.is_said && !has_jobs;
    } else if !recorded.is_switched {
        stopped(observed, &mut plan);
    } else if !recorded.is_prepared {
        switched(observed, &mut plan);
    } else {
        prepared(observed, &mut plan);
    }
    plan
}

/// Members still have the old data.
fn stopped(observed: &Observed, plan: &mut Plan) {
    if !observed.is_wanted {
        let why = "the Restore was deleted before members ran on what was built";
        plan.record.given_up = Some(why.to_owned());
        return;
    }
    if observed.is_overdue {
        let why = "it took too long; pods that do not end, or a Job that does not, say why";
        plan.record.given_up = Some(why.to_owned());
        return;
    }
    for workload in ALL {
        plan.held.insert(workload);
        plan.phase = Phase::Stop(workload);
        if observed.pods.get(&workload).is_some_and(|pods| *pods > 0) {
            // One after the other: the backup takes the last changes along, and etcd serves it until then.
            return;
        }
        if workload == Workload::ControlPlane && !plan.record.is_quiet {
            plan.record.is_quiet = true;
            return;
        }
    }
    if let (Some(member), None) = (&observed.survivor, &plan.record.salvaged) {
        salvaged(observed, member, plan);
        return;
    }
    plan.phase = Phase::Build;
    let failed = observed.builds.iter().find_map(|(member, build)| {
        let Job::Failed(why) = build else {
            return None;
        };
        Some(format!("{member}: {why}"))
    });
    if let Some(why) = failed.or_else(|| contradiction(observed)) {
        plan.record.given_up = Some(why);
        return;
    }
    plan.build.extend(observed.members.iter().cloned());
    let built: Option<BTreeMap<_, _>> = observed
        .members
        .iter()
        .map(|member| match observed.builds.get(member) {
            Some(Job::Done(built)) => Some((member.clone(), built.clone())),
            Some(Job::Runs | Job::Failed(_)) | None => None,
        })
        .collect();
    if let Some(built) = built.filter(|built| !built.is_empty()) {
        plan.record.is_switched = true;
        plan.switch = Some(built);
    }
}

/// Nobody writes to the backup or to what is left of the member, and nothing is built before it is known what came of it.
fn salvaged(observed: &Observed, member: &str, plan: &mut Plan) {
    plan.phase = Phase::Salvage(member.to_owned());
    plan.salvage = Some(member.to_owned());
    match &observed.salvage {
        None | Some(Job::Runs) => {}
        Some(Job::Done(came)) => plan.record.salvaged = Some(came.clone()),
        // A pod that had no node, or no target, says nothing of what survived.
        Some(Job::Failed(why)) => {
            plan.record.given_up = Some(format!("what is left of {member}: {why}"));
        }
    }
}

/// The revision that has to be built at least: what was put into the backup is there.
fn least(observed: &Observed) -> u64 {
    match observed.recorded.salvaged {
        Some(Salvage::Until(revision)) => revision.max(observed.revision),
        Some(Salvage::Aside(_)) | None => observed.revision,
    }
}

/// What was built is not one cluster as it was wanted.
fn contradiction(observed: &Observed) -> Option<String> {
    let mut first: Option<(&String, &Built)> = None;
    for (member, build) in &observed.builds {
        let Job::Done(built) = build else {
            continue;
        };
        let wanted = least(observed);
        if built.revision < wanted {
            let found = built.revision;
            return Some(format!(
                "{member} was built at revision {found}, and {wanted} was found before"
            ));
        }
        if observed.formers.contains(&built.cluster_id) {
            return Some(format!(
                "{member} was built as a member of a cluster of before"
            ));
        }
        let (other, before) = *first.get_or_insert((member, built));
        let same = built.revision == before.revision && built.cluster_id == before.cluster_id;
        let distinct = other == member || built.member_id != before.member_id;
        if !same || !distinct {
            return Some(format!(
                "{other} and {member} were not built as one cluster"
            ));
        }
    }
    None
}

/// Members are to run on what was built.
fn switched(observed: &Observed, plan: &mut Plan) {
    plan.phase = Phase::Prepare;
    plan.held.extend([Workload::ControlPlane, Workload::Backup]);
    if !observed.is_told {
        plan.held.insert(Workload::Etcd);
        return;
    }
    // Services of load balancers that came later are not there any more, and who cares for them would delete them, with
    // addresses that the world knows.
    plan.keep = names(observed, |mark| mark == Mark::None);
    let may = observed.answers && plan.keep.is_empty();
    plan.prepare = may && !observed.is_prepared;
    plan.record.is_prepared = may && observed.is_prepared;
}

/// The control plane may run: an outage from now on is one, and stops nothing anew.
fn prepared(observed: &Observed, plan: &mut Plan) {
    plan.phase = match observed.serves {
        true => Phase::Settle,
        false => Phase::Start,
    };
    // What was there goes once what is there is seen to serve.
    let all_serve = observed.all_serve && observed.serves;
    if observed.is_confirmed && observed.is_said && all_serve {
        let released = released(observed);
        plan.release = names(observed, |mark| released.contains(&mark));
        if plan.release.is_empty() && is_decided(observed) {
            plan.forget.extend(observed.members.iter().cloned());
            let is_forgotten =
                |member: &String| matches!(observed.forgets.get(member), Some(Job::Done(())));
            plan.is_over = observed.members.iter().all(is_forgotten);
        }
    }
}

/// Whose mark goes at the end. One that is known needs none: its Service decides.
fn released(observed: &Observed) -> &'static [Mark] {
    match observed.orphans {
        // Whoever runs sweeps what has no Service, and nothing else.
        Orphans::Delete if observed.is_wanted => &[Mark::Known, Mark::Orphan, Mark::Unknown],
        // One that was deleted decided nothing.
        Orphans::Delete | Orphans::Keep | Orphans::Report => &[Mark::Known],
    }
}

/// Whether nothing is left to be said or decided about load balancers and volumes.
fn is_decided(observed: &Observed) -> bool {
    if !observed.is_wanted {
        return true;
    }
    if observed.has_undecided_volumes {
        return false;
    }
    // Where nobody cares for them nobody can say which are orphans, and all are kept.
    if !observed.is_told_apart {
        return true;
    }
    let has = |mark| observed.balancers.values().any(|is| *is == mark);
    match observed.orphans {
        Orphans::Delete => true,
        Orphans::Keep => !has(Mark::Unknown),
        Orphans::Report => !has(Mark::Unknown) && !has(Mark::Orphan),
    }
}

/// Load balancers whose mark is one of these.
fn names(observed: &Observed, is: impl Fn(Mark) -> bool) -> BTreeSet<String> {
    let all = observed.balancers.iter();
    let these = all.filter(|(_, mark)| is(**mark));
    these.map(|(name, _)| name.clone()).collect()
}
