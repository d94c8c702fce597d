//! A tenant cluster that is brought back in place: which pods there are none of meanwhile, the Jobs that build its data,
//! and what members of etcd are from then on.
//!
//! Invariant: what [`crate::restoring`] says, and nothing else; facts are written before anything depends on them, and those
//! of etcd together with the fact that members run on what was built.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::tenant_cluster::{EtcdMemberStatus, EtcdStatus, RestoreProgress, Salvaged};
use api::{Reason, TenantCluster};
use jiff::Timestamp;
use kit_objects::known::Known;
use kit_objects::object::{Key, Object};
use serde_json::json;
use tenant_cp::backup::restore_jobs;
use tenant_cp::{Settings, Validated, names};

use super::etcd::{Care, identity, volumes};
use super::types::{Action, Part, Target};
use crate::controllers::tenant_cluster::observed::restore::{Balancer, RestoreSeen};
use crate::controllers::tenant_cluster::observed::{Observed, Tenant};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::restoring::volumes::are_settled;
use crate::restoring::{self, Built, Phase, Plan, Recorded, Salvage, Workload, begin};
use crate::status::{Waiting, one_line};

mod jobs;

/// How long pods may take to end.
const STOPS: Duration = Duration::from_secs(20 * 60);
/// How long all of it may take until members run on what was built: more than the Jobs' own deadline.
const MOST: Duration = Duration::from_secs(90 * 60);

fn progress(observed: &Observed) -> Option<&RestoreProgress> {
    observed.cluster.status.as_ref()?.restore.as_ref()
}

/// What is written into the TenantCluster before anything else is done.
pub(super) fn own(valid: &Validated, observed: &Observed, now: Timestamp) -> Option<Action> {
    if !observed.readable {
        return None;
    }
    let Some(facts) = progress(observed) else {
        let restore = observed.restore.as_ref()?.restore.as_ref()?;
        let can_begin = begin::can_begin(restore, &observed.cluster)
            && observed.restore.as_ref()?.target.is_some();
        let facts = can_begin.then(|| begin::facts(restore, now)).flatten()?;
        return Some(Action::KeepRestore {
            restore: Some(Box::new(facts)),
            etcd: None,
        });
    };
    let next = next(valid, observed, now)?;
    if next.is_over {
        return Some(Action::KeepRestore {
            restore: None,
            etcd: None,
        });
    }
    if next.record == recorded(facts) {
        return None;
    }
    let Recorded {
        is_quiet,
        salvaged,
        is_switched,
        is_prepared,
        given_up,
    } = next.record;
    Some(Action::KeepRestore {
        restore: Some(Box::new(RestoreProgress {
            quiet: is_quiet,
            salvaged: salvaged.map(kept),
            switched: is_switched,
            prepared: is_prepared,
            given_up: given_up.map(|why| one_line(&why, 1000)),
            ..facts.clone()
        })),
        etcd: next.switch.and_then(|built| etcd_of(observed, &built)),
    })
}

/// What came of the member whose volume is left, as it is written.
fn kept(salvaged: Salvage) -> Salvaged {
    match salvaged {
        Salvage::Until(revision) => Salvaged {
            revision: i64::try_from(revision).ok(),
            aside: None,
        },
        Salvage::Aside(why) => Salvaged {
            revision: None,
            aside: Some(one_line(&why, 1000)),
        },
    }
}

fn recorded(facts: &RestoreProgress) -> Recorded {
    let salvaged = facts.salvaged.as_ref().map(|salvaged| {
        let revision = salvaged.revision.and_then(|n| u64::try_from(n).ok());
        match revision {
            Some(revision) => Salvage::Until(revision),
            None => Salvage::Aside(salvaged.aside.clone().unwrap_or_default()),
        }
    });
    Recorded {
        is_quiet: facts.quiet,
        salvaged,
        is_switched: facts.switched,
        is_prepared: facts.prepared,
        given_up: facts.given_up.clone(),
    }
}

/// What etcd is once its members run on what was built.
fn etcd_of(observed: &Observed, built: &BTreeMap<String, Built>) -> Option<EtcdStatus> {
    // One that awaited it had none.
    let last_replacement = identity::identity(observed).and_then(|k| k.last_replacement.clone());
    let cluster_id = built.values().next()?.cluster_id.clone();
    let member = |(name, built): (&String, &Built)| EtcdMemberStatus {
        name: name.clone(),
        volume_uid: built.claim_uid.clone(),
        volume: volumes::bound_to(observed, name),
        volume_size: volumes::request(observed, name),
        id: Some(built.member_id.clone()),
        started: true,
        learner: false,
        // Its log begins anew.
        last_index: None,
    };
    Some(EtcdStatus {
        cluster_id: Some(cluster_id),
        members: built.iter().map(member).collect(),
        replacing: None,
        last_replacement,
        restored_for: Vec::new(),
        // It begins with what was restored.
        golden_file: None,
    })
}

/// What is to be so; none where no Restore is under way.
pub(super) fn next(valid: &Validated, observed: &Observed, now: Timestamp) -> Option<Plan> {
    let (facts, seen) = (progress(observed)?, observed.restore.as_ref()?);
    Some(restoring::plan(&of(valid, observed, facts, seen, now)))
}

fn of(
    valid: &Validated,
    observed: &Observed,
    facts: &RestoreProgress,
    seen: &RestoreSeen,
    now: Timestamp,
) -> restoring::Observed {
    let members: Vec<_> = (0..valid.etcd.replicas).map(names::etcd_member).collect();
    let restore = seen.restore.as_ref();
    let is_wanted = restore.is_some_and(|found| found.metadata.deletion_timestamp.is_none());
    let builds = |member: &String| {
        let name = restore_jobs::build_name(&facts.uid, member);
        let job = observed.objects.get(&job_key(observed, &name))?;
        Some((member.clone(), jobs::built(job, seen.of_job(&name), now)))
    };
    let forgets = |member: &String| {
        let name = restore_jobs::forget_name(&facts.uid, member);
        let job = observed.objects.get(&job_key(observed, &name))?;
        Some((member.clone(), jobs::ended(job, seen.of_job(&name))))
    };
    let builds: BTreeMap<_, _> = members.iter().filter_map(builds).collect();
    let since: Option<Timestamp> = facts.since.parse().ok();
    let passed = since.and_then(|since| Duration::try_from(now.duration_since(since)).ok());
    let salvage = facts.survivor.as_ref().and_then(|_| {
        let name = restore_jobs::salvage_name(&facts.uid);
        match observed.objects.get(&job_key(observed, &name)) {
            Some(job) => Some(jobs::salvaged(job, seen.of_job(&name), now)),
            // What is on another one is not what is left of it. Once that was said there is no Job to wait for.
            None if facts.given_up.is_none() && survivor(valid, observed, facts) == Some(false) => {
                let why = "its claim is not the one that it had: bind that to its volume";
                Some(restoring::Job::Failed(why.to_owned()))
            }
            None => None,
        }
    });
    let has_begun = salvage.is_some() || facts.salvaged.is_some() || !builds.is_empty();
    let most = if has_begun { MOST } else { STOPS };
    let ns = valid.tenant_namespace.as_str();
    let ready = observed.number("StatefulSet", ns, names::ETCD, "/status/readyReplicas");
    let own = identity::identity(observed).and_then(|etcd| etcd.cluster_id.as_ref());
    let mut answers = observed.etcd.answers();
    let marked = |(name, balancer): (&String, &Balancer)| (name.clone(), balancer.mark);
    restoring::Observed {
        formers: own
            .into_iter()
            .chain([&facts.cluster_id])
            .cloned()
            .collect(),
        revision: u64::try_from(facts.revision).unwrap_or(u64::MAX),
        recorded: recorded(facts),
        is_wanted,
        survivor: facts.survivor.clone(),
        salvage,
        is_overdue: passed.is_some_and(|passed| passed > most),
        pods: seen.workloads(),
        is_told: identity::is_told(valid, observed),
        answers: answers
            .any(|(_, answer)| Some(&answer.cluster_id) == own && answer.leader.is_some()),
        is_prepared: seen.leases == Some(Ok(())),
        all_serve: ready == Known::Known(i64::from(valid.etcd.replicas)),
        serves: matches!(observed.tenant, Tenant::Answers { .. }) || observed.was_ready(),
        is_confirmed: restore.is_none_or(|restore| restore.spec.confirmed) || !is_wanted,
        is_said: restore.is_none_or(|restore| begin::ended(restore).is_some()) || !is_wanted,
        balancers: seen.balancers.iter().map(marked).collect(),
        orphans: restore
            .map(|restore| restore.spec.orphans)
            .unwrap_or_default(),
        has_undecided_volumes: restore.is_some_and(|restore| !are_settled(restore)),
        is_told_apart: observed.cluster.spec.addons.cloud_controller.enabled,
        forgets: members.iter().filter_map(forgets).collect(),
        builds,
        members,
    }
}

/// Whether the member whose volume is left has the claim that is known to be its own; none where that could not be seen.
fn survivor(valid: &Validated, observed: &Observed, facts: &RestoreProgress) -> Option<bool> {
    let name = facts.survivor.as_ref()?;
    // What was known of it goes with what is built in its place.
    let known = identity::identity(observed)?
        .members
        .iter()
        .find(|m| m.name == *name);
    let ns = valid.tenant_namespace.as_str();
    let claim = observed.find("PersistentVolumeClaim", ns, &names::volume_of(name));
    match (known, claim) {
        (_, Known::Unknown { .. }) => None,
        (Some(known), Known::Known(live)) => {
            Some(live["metadata"]["uid"] == known.volume_uid.as_str())
        }
        (None, _) | (_, Known::Absent) => Some(false),
    }
}

fn job_key(observed: &Observed, name: &str) -> Key {
    Key::new("Job", &observed.tenant_namespace(), name)
}

/// The workloads, those without pods that are to have none.
pub(super) fn hold(workloads: &mut [Object], held: &BTreeSet<Workload>) {
    for object in workloads {
        let workload = match object.kind.as_str() {
            "StatefulSet" => Workload::Etcd,
            "Deployment" => Workload::ControlPlane,
            _ => continue,
        };
        if held.contains(&workload) {
            // Hashes stay those of what is wanted: no pod is made from another template for it.
            object.value["spec"]["replicas"] = json!(0);
        }
    }
}

/// What is made of etcd meanwhile.
pub(super) fn care(cluster: &TenantCluster, next: Option<&Plan>) -> Care {
    let Some(next) = next.filter(|_| !begin::awaits(cluster)) else {
        return match begin::awaits(cluster) {
            true => Care::Awaited,
            false => Care::Whole,
        };
    };
    match &next.phase {
        _ if next.held.contains(&Workload::Etcd) => Care::Held,
        Phase::Stop(_) | Phase::Salvage(_) | Phase::Build | Phase::Prepare => Care::AsItIs,
        Phase::Start | Phase::Settle | Phase::GivenUp(_) => Care::Whole,
    }
}

/// Jobs, Leases of before, and what is said.
pub(super) fn part(
    valid: &Validated,
    observed: &Observed,
    settings: &Settings,
    next: &Plan,
) -> Part {
    let mut part = Part::new(PartName::Restore);
    let (Some(facts), Some(seen)) = (progress(observed), observed.restore.as_ref()) else {
        return part;
    };
    let claims = identity::claims(valid, observed);
    let claims: Vec<_> = claims.into_iter().flatten().collect();
    if let Some(target) = &seen.target {
        let wanted = claims
            .iter()
            .filter(|(number, _)| next.build.contains(&names::etcd_member(*number)));
        // What came into the backup meanwhile is in what is built.
        let salvaged = facts
            .salvaged
            .as_ref()
            .and_then(|salvaged| salvaged.revision);
        let of = RestoreProgress {
            revision: facts.revision.max(salvaged.unwrap_or_default()),
            ..facts.clone()
        };
        let build = |(number, claim): &(i32, String)| {
            restore_jobs::build(valid, target, &of, (*number, claim), settings)
        };
        part.create("jobs that build", observed, wanted.map(build).collect());
        let is_its_own = survivor(valid, observed, facts) == Some(true);
        let salvage = next.salvage.iter().filter(|_| is_its_own);
        let salvage =
            salvage.map(|member| restore_jobs::salvage(valid, target, facts, member, settings));
        part.create("job that reads what is left", observed, salvage.collect());
    }
    let own = identity::identity(observed).and_then(|etcd| etcd.cluster_id.as_deref());
    if let Some(own) = own {
        let numbers = 0..valid.etcd.replicas;
        let wanted = numbers.filter(|number| next.forget.contains(&names::etcd_member(*number)));
        let forget = |number| restore_jobs::forget(valid, facts, own, number, settings);
        part.create("jobs that remove", observed, wanted.map(forget).collect());
    }
    let builds = next.stop_building.iter();
    let builds = builds.map(|member| restore_jobs::build_name(&facts.uid, member));
    let salvage = next
        .stop_salvaging
        .then(|| restore_jobs::salvage_name(&facts.uid));
    let going = builds
        .chain(salvage)
        .filter_map(|name| Target::seen(&observed.objects, job_key(observed, &name)));
    part.deletions.extend(going);
    if !next.keep.is_empty() || !next.release.is_empty() {
        part.actions.push(Action::MarkBalancers {
            restore: facts.uid.clone(),
            keep: next.keep.clone(),
            release: next.release.clone(),
        });
    }
    if next.prepare && seen.leases.is_none() {
        let members = identity::addresses(valid, observed);
        part.actions.push(Action::ForgetLeases { members });
    }
    part.waiting = words(facts, seen, next).map(|words| Waiting {
        reason: Reason::Restoring,
        message: format!("Restore {}: {words}", facts.name),
    });
    part.waiting = part.waiting.or_else(|| resizes_later(valid, facts));
    part
}

/// Another number of members is wanted, and what is built was built for those that there were.
fn resizes_later(valid: &Validated, facts: &RestoreProgress) -> Option<Waiting> {
    let (there, wanted, name) = (valid.etcd.replicas, valid.etcd.wanted, &facts.name);
    (there != wanted).then(|| Waiting {
        reason: Reason::ResizingEtcd,
        message: format!(
            "etcd gets {wanted} members in place of {there} once Restore {name} is confirmed or deleted"
        ),
    })
}

/// What is said while it goes on; words that stay the same from one look to the next.
fn words(facts: &RestoreProgress, seen: &RestoreSeen, next: &Plan) -> Option<String> {
    let is_said = seen
        .restore
        .as_ref()
        .is_none_or(|restore| begin::ended(restore).is_some());
    Some(match &next.phase {
        Phase::Stop(workload) => {
            let what = match workload {
                Workload::ControlPlane => "of the control plane and its addons",
                Workload::Backup => "of the backup, which takes the last changes along,",
                Workload::Etcd => "of etcd",
            };
            format!("waits until the pods {what} are gone")
        }
        Phase::Salvage(member) => {
            format!("a Job puts what is left of {member} and is in no backup into the backup")
        }
        Phase::Build => format!(
            "Jobs build the data of revision {} or what came after it, beside that of today",
            facts.revision
        ),
        Phase::Prepare => "members of etcd start on what was built".to_owned(),
        Phase::Start if !is_said => "the control plane starts".to_owned(),
        Phase::GivenUp(why) if !is_said && facts.source_uid.is_some() => {
            format!("it is given up, and etcd waits for another one: {why}")
        }
        Phase::GivenUp(why) if !is_said => {
            format!("it is given up, and etcd starts on what it had: {why}")
        }
        // Nobody is woken when those Jobs are over.
        Phase::Settle if !next.forget.is_empty() => {
            "what members of etcd had before is being removed".to_owned()
        }
        Phase::GivenUp(_) if !next.stop_building.is_empty() || next.stop_salvaging => {
            "Jobs that built end".to_owned()
        }
        Phase::Start | Phase::Settle | Phase::GivenUp(_) => return None,
    })
}
