//! Decision whether a member may start, from what the operator knows and what the volume holds.
//!
//! Invariant: a member starts without data only if the operator says that it may, and then only in a
//! cluster that never ran or with somebody who has the data; it starts on data only if that is known to
//! be its own and has all that the member is known to have had, or was built for it and the operator says that it is its
//! own from now on.

use super::identity::{Golden, Identity, Member};
use super::marker::Marker;
use super::refusal::{Loss, Refusal};
use crate::args::ClusterState;
use crate::built::Built;
use crate::ids::MemberIds;

/// What the volume holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Observed {
    /// The data directory.
    pub data: Data,
    /// Index of the last entry of its log; none where it has none, or nobody asked.
    pub last_index: Option<u64>,
    /// The marker beside it; an error says why it cannot be read.
    pub marker: Result<Option<Marker>, String>,
    /// What was built for the restore that the operator names, and was not taken over; an error says what is wrong
    /// with it.
    pub built: Option<Result<Built, String>>,
}

/// What a data directory holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Data {
    /// Nothing that counts, or no directory.
    Nothing,
    /// A database and no log. etcd makes the database first, so that is also what a start leaves that
    /// was broken off, or that did not find the cluster it should join.
    DatabaseAlone,
    /// No log, and something that no start leaves behind.
    Stray {
        /// Its path in the directory.
        path: String,
    },
    /// A log that says whose it is.
    Log {
        /// Whose.
        ids: MemberIds,
        /// Whether there is a database beside it.
        has_database: bool,
    },
    /// A log that does not.
    BrokenLog {
        /// Path of the segment in the directory.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// What is to be done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decision {
    /// etcd may start, once the marker is written.
    Start {
        /// Why.
        start: Start,
        /// The marker that is to be there; none if it is there already.
        marker: Option<Marker>,
    },
    /// It may not.
    Refuse(Refusal),
}

/// Why a member may start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Start {
    /// A cluster that never ran, and a volume without data.
    First,
    /// A volume without data, in a cluster that others have the data of.
    Joining,
    /// Its own data.
    Again(MemberIds),
    /// What was built of a backup, once that is its data directory.
    Restored(MemberIds),
}

/// Decides for the member called `name`. `state` is what etcd would do without data.
#[must_use]
pub fn plan(name: &str, state: ClusterState, identity: &Identity, observed: &Observed) -> Decision {
    match decide(name, state, identity, observed) {
        Ok((start, marker)) => Decision::Start { start, marker },
        Err(refusal) => Decision::Refuse(refusal),
    }
}

/// What the volume is given before etcd starts on it; none where it starts without data.
///
/// It is no way to start of its own: what is given is given at a first start, which the same law lets through that does
/// without it, and to a cluster of this one member alone. A data directory of which there is anything is left to etcd.
#[must_use]
pub fn golden<'a>(start: Start, identity: &'a Identity, observed: &Observed) -> Option<&'a Golden> {
    let is_alone = identity.members.len() == 1;
    let is_new = start == Start::First && observed.data == Data::Nothing && is_alone;
    identity.golden.as_ref().filter(|_| is_new)
}

fn decide(
    name: &str,
    state: ClusterState,
    identity: &Identity,
    observed: &Observed,
) -> Result<(Start, Option<Marker>), Refusal> {
    let member = identity
        .member(name)
        .ok_or_else(|| Refusal::IdentityUnusable {
            problem: format!("its file has no member {name}"),
        })?;
    let marker = observed.marker.as_ref();
    let marker = marker.map_err(|problem| damaged(format!("the volume's marker {problem}")))?;
    let marker = marker.as_ref();
    if let Some(ids) = restored(member, identity, observed, marker)? {
        let wanted = Marker {
            claim: member.claim.clone(),
            name: member.name.clone(),
            data: Some(ids),
        };
        let marker = (marker != Some(&wanted)).then_some(wanted);
        return Ok((Start::Restored(ids), marker));
    }
    // The strongest evidence first: what the volume is tells more than what is wrong with it.
    check_cluster(member, identity, observed, marker)?;
    check_member(member, identity, observed, marker)?;
    check_claim(member, marker)?;

    let start = match &observed.data {
        Data::Log {
            ids,
            has_database: true,
        } => {
            check_age(member, observed)?;
            Start::Again(*ids)
        }
        Data::Log { .. } => {
            return Err(damaged(
                "the volume has etcd's log and not its database".to_owned(),
            ));
        }
        Data::BrokenLog { path, problem } => {
            return Err(damaged(format!(
                "etcd's log cannot be read: {path}: {problem}"
            )));
        }
        Data::Stray { path } => {
            let problem = format!("the volume has no log of etcd, but {path}");
            return Err(damaged(problem));
        }
        // Given to this member while it was empty, so nothing can have been in it but that.
        Data::DatabaseAlone
            if marker.is_some_and(|m| m.data.is_none()) && member.may_start_empty =>
        {
            empty(member, state, identity, marker)?
        }
        Data::DatabaseAlone => {
            return Err(damaged(
                "the volume has etcd's database and not its log".to_owned(),
            ));
        }
        Data::Nothing => empty(member, state, identity, marker)?,
    };
    Ok((start, wanted_marker(member, start, marker)))
}

/// Whose data it is that was built for the member and that it takes over now: only where the operator says so, and never
/// where it has data of the restored cluster already, which it may have written to.
fn restored(
    member: &Member,
    identity: &Identity,
    observed: &Observed,
    marker: Option<&Marker>,
) -> Result<Option<MemberIds>, Refusal> {
    let (Some(_), Some(cluster), Some(built)) =
        (&identity.restore, identity.cluster, &observed.built)
    else {
        return Ok(None);
    };
    if log(observed).is_some_and(|ids| ids.cluster == cluster) {
        return Ok(None);
    }
    let built = built.as_ref().map_err(|problem| {
        let name = identity.restore.as_deref().unwrap_or_default();
        damaged(format!("the folder of restore {name} {problem}"))
    })?;
    check_claim(member, marker)?;
    let Built {
        claim,
        name,
        revision: _,
        data,
    } = built;
    if *claim != member.claim {
        return Err(Refusal::OtherClaim {
            member: member.name.clone(),
            found: claim.clone(),
            expected: member.claim.clone(),
        });
    }
    if *name != member.name || member.id != Some(data.member) {
        return Err(Refusal::OtherMember {
            member: member.name.clone(),
            found: name.clone(),
        });
    }
    match data.cluster == cluster {
        true => Ok(Some(*data)),
        false => Err(Refusal::ForeignData {
            found: data.cluster,
            expected: Some(cluster),
        }),
    }
}

fn check_cluster(
    member: &Member,
    identity: &Identity,
    observed: &Observed,
    marker: Option<&Marker>,
) -> Result<(), Refusal> {
    let of_log = log(observed).map(|ids| ids.cluster);
    let of_marker = marker.and_then(|m| m.data).map(|ids| ids.cluster);
    // What began under our eyes is believed until the operator knows the cluster: the marker was
    // written while the volume was empty.
    let began_here = marker.is_some_and(|m| m.claim == member.claim);
    let expected = match identity.cluster {
        Some(cluster) => Some(cluster),
        None if began_here => of_marker.or(of_log),
        None => None,
    };
    let foreign = [of_log, of_marker]
        .into_iter()
        .flatten()
        .find(|found| Some(*found) != expected);
    match foreign {
        Some(found) => Err(Refusal::ForeignData { found, expected }),
        None => Ok(()),
    }
}

fn check_member(
    member: &Member,
    identity: &Identity,
    observed: &Observed,
    marker: Option<&Marker>,
) -> Result<(), Refusal> {
    let other = |found: String| {
        Err(Refusal::OtherMember {
            member: member.name.clone(),
            found,
        })
    };
    let of_log = log(observed).map(|ids| ids.member);
    let of_marker = marker.and_then(|m| m.data).map(|ids| ids.member);
    for found in [of_log, of_marker].into_iter().flatten() {
        let owner = identity.members.iter().find(|m| m.id == Some(found));
        match owner {
            Some(owner) if owner.name != member.name => return other(owner.name.clone()),
            None if member.id.is_some() => return other(format!("member {found}")),
            _ => {}
        }
    }
    if let Some(marker) = marker.filter(|m| m.name != member.name) {
        return other(marker.name.clone());
    }
    match (of_log, of_marker) {
        (Some(log), Some(marker)) if log != marker => other(format!("member {log}")),
        _ => Ok(()),
    }
}

fn check_claim(member: &Member, marker: Option<&Marker>) -> Result<(), Refusal> {
    match marker {
        Some(marker) if marker.claim != member.claim => Err(Refusal::OtherClaim {
            member: member.name.clone(),
            found: marker.claim.clone(),
            expected: member.claim.clone(),
        }),
        _ => Ok(()),
    }
}

/// What a member had, and no longer has, was acknowledged: as a single one it would serve without it, and as one of three
/// it would vote as if it had never been, so that the others may forget it too (docs/adr/0020-volumes-set-back.md).
fn check_age(member: &Member, observed: &Observed) -> Result<(), Refusal> {
    let Some(expected) = member.last_index else {
        return Ok(());
    };
    let found = observed.last_index.unwrap_or_default();
    match found >= expected {
        true => Ok(()),
        false => Err(Refusal::OutdatedData {
            member: member.name.clone(),
            found,
            expected,
        }),
    }
}

/// Whether the member may start without data.
fn empty(
    member: &Member,
    state: ClusterState,
    identity: &Identity,
    marker: Option<&Marker>,
) -> Result<Start, Refusal> {
    let lost = |loss| {
        Err(Refusal::VolumeLost {
            member: member.name.clone(),
            loss,
        })
    };
    let has_run = state == ClusterState::Existing || identity.cluster.is_some();
    match marker.and_then(|m| m.data) {
        Some(ids) => lost(Loss::Emptied {
            cluster: ids.cluster,
        }),
        None if !member.may_start_empty => lost(Loss::HasRun),
        None if !has_run => Ok(Start::First),
        None if !identity.has_others(member) => lost(Loss::NobodyElse),
        // An etcd that makes a new cluster computes an identifier of its own, and not this one.
        None if member.id.is_some() && state == ClusterState::New => {
            Err(Refusal::IdentityUnusable {
                problem: format!(
                    "{} was added to a cluster that runs, and its pod is older than that; it has to be \
                     made anew",
                    member.name
                ),
            })
        }
        None => Ok(Start::Joining),
    }
}

fn wanted_marker(member: &Member, start: Start, marker: Option<&Marker>) -> Option<Marker> {
    let found = match start {
        Start::Again(ids) | Start::Restored(ids) => Some(ids),
        Start::First | Start::Joining => None,
    };
    let wanted = Marker {
        claim: member.claim.clone(),
        name: member.name.clone(),
        data: marker.and_then(|m| m.data).or(found),
    };
    (marker != Some(&wanted)).then_some(wanted)
}

fn log(observed: &Observed) -> Option<MemberIds> {
    match observed.data {
        Data::Log { ids, .. } => Some(ids),
        _ => None,
    }
}

fn damaged(problem: String) -> Refusal {
    Refusal::Damaged { problem }
}

#[cfg(test)]
mod tests;
