//! Whether a tenant cluster is rolled out, and what of it may be changed now.
//!
//! Invariant: while it waits for its turn nothing is made from another template than before; what was lost
//! is made anew all the same.

use api::tenant_cluster::{Maintenance, RolloutBegun, RolloutStatus};
use api::{Reason, TenantClusterStatus};
use jiff::Timestamp;
use kit_objects::known::Known;
use kit_objects::object::{self, Object};
use serde_json::Value;
use tenant_cp::rollout::order::{Allowed, Cause, Facts, Progress, as_it_serves};
use tenant_cp::rollout::template;
use tenant_cp::{Validated, generations, names, version};

use super::etcd;
use super::events;
use super::types::{Action, Part};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::observed::component_pods::{ComponentPod, rolled_out};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::maintenance::{self, Wait, patches};
use crate::rollouts::queue::Answer;
use crate::status::Waiting;

/// The rollout of a tenant cluster.
pub(super) struct Rollout {
    /// What may be changed now.
    pub(super) allowed: Allowed,
    /// Asks for the turn, and waits for it.
    pub(super) part: Part,
}

/// How far a workload is that is among these.
pub(super) fn progress(
    observed: &Observed,
    workloads: &[Object],
    (kind, name): (&str, &str),
    replicas: i32,
) -> Progress {
    let mut workloads = workloads.iter();
    let object = workloads.find(|object| object.kind == kind && object.name == name);
    object.map_or(Progress::Rolling, |object| one(observed, object, replicas))
}

fn one(observed: &Observed, wanted: &Object, replicas: i32) -> Progress {
    // One that is not there is made at once, and is over when its pods are.
    let Some(live) = observed.objects.get(&wanted.key()) else {
        return Progress::Rolling;
    };
    if template::is_behind(wanted, live) {
        return Progress::Behind;
    }
    let seen = rolled_out(live);
    let known = observed
        .rollout()
        .and_then(|rollout| match wanted.name.as_str() {
            names::ETCD => rollout.etcd.as_ref(),
            names::CONTROLLERS => rollout.controllers.as_ref(),
            _ => rollout.control_plane.as_ref(),
        });
    if seen.is_some() && seen.as_ref() == known {
        return Progress::Current;
    }
    let Some(pods) = &observed.pods else {
        return Progress::Rolling;
    };
    let its: Vec<_> = pods
        .iter()
        .filter(|pod| pod.component == wanted.name)
        .collect();
    let hash = template::of_workload(live);
    let is_current =
        |pod: &&ComponentPod| pod.ready && !pod.terminating && pod.template.as_deref() == hash;
    let all = usize::try_from(replicas).is_ok_and(|replicas| its.len() == replicas);
    match all && its.iter().all(is_current) {
        true => Progress::Current,
        false => Progress::Rolling,
    }
}

/// Whether keys are not there that programs read when they start; `certificates` says so.
pub(super) fn are_keys_lost(observed: &Observed) -> bool {
    let material = &observed.material;
    let authorities = [names::CA, names::KUBELET_SERVING_CA, names::ETCD_CA];
    let is_lost = |name: &&str| generations::bundle(&material.store, name).is_none();
    authorities.iter().any(is_lost)
        || material.service_account.is_empty()
        || material.encryption.is_empty()
}

/// Leaves etcd as it is where its members cannot go to the image that is wanted, and says so.
pub(super) fn hold_etcd(workloads: &mut [Object], observed: &Observed) -> Option<Waiting> {
    let mut all = workloads.iter_mut();
    let etcd = all.find(|object| object.kind == "StatefulSet" && object.name == names::ETCD)?;
    let live = observed.objects.get(&etcd.key())?;
    let image = |workload: &Value| {
        let image = workload.pointer("/spec/template/spec/containers/0/image")?;
        Some(image.as_str()?.to_owned())
    };
    let error = version::check_etcd_step(&image(live)?, &image(&etcd.value)?).err()?;
    *etcd = template::pinned(etcd.clone(), live);
    Some(Waiting {
        reason: error.reason(),
        message: error.to_string(),
    })
}

/// The tenant cluster as that sees it which follows what is so far.
pub(super) fn as_seen_after(valid: &Validated, observed: &Observed, before: Progress) -> Validated {
    let status = observed.cluster.status.as_ref();
    let serves = status.and_then(|status| status.version.as_deref());
    as_it_serves(valid, before, serves)
}

/// `keeps_its_place`: an upgrade is taken back, which waits for nobody, or was and holds up others.
pub(super) fn plan(
    observed: &Observed,
    facts: Facts,
    keeps_its_place: bool,
    now: Timestamp,
) -> Rollout {
    let mut part = Part::new(PartName::Rollout);
    let wanted = facts.wanted();
    let begins = (wanted == Some(Cause::Fleet) && observed.turn == Some(Answer::Go))
        .then(|| begun(observed, facts, now))
        .flatten();
    // That it was the operator that began cannot be seen again once it is broken by it.
    let has_turn = observed.turn == Some(Answer::Go) && begins.is_none();
    let wait = own_wait(observed, facts, now).filter(|_| !keeps_its_place);
    if let Some(begins) = begins {
        part.actions.push(Action::KeepRollout(Box::new(begins)));
    }
    match (wanted, observed.turn) {
        (Some(Cause::Fleet), None) if let Some(wait) = wait => {
            part.waiting = Some(told("the operator or its configuration changed, and", wait));
        }
        // Nobody asks for another turn while a patch waits.
        (None, None)
            if let Some(due) = &observed.patch.due
                && let Some(wait) = due.waits =>
        {
            let what = format!("Kubernetes {} is to be taken, and", due.version);
            part.waiting = Some(told(&what, wait));
        }
        (Some(cause), None) => part.actions.push(Action::AskForTurn {
            cause,
            is_under_way: facts.is_under_way() || keeps_its_place,
        }),
        (Some(_), Some(Answer::Wait)) => {
            part.waiting = Some(Waiting {
                reason: Reason::WaitingForRollout,
                message: "pods are to be made from other templates (the spec, a key, the operator or its \
                          configuration changed); other tenant clusters go first, users' changes before \
                          those of the operator"
                    .to_owned(),
            });
        }
        (Some(_), Some(Answer::Held)) => {
            part.waiting = Some(Waiting {
                reason: Reason::WaitingForRollout,
                message: "the operator or its configuration changed, and a FleetPolicy says when pods are made from the \
                          new templates (`kubectl get fleetpolicies`); where that is gone, it waits for another one"
                    .to_owned(),
            });
        }
        _ => {}
    }
    Rollout {
        allowed: facts.allowed(has_turn),
        part,
    }
}

fn told(what: &str, wait: Wait) -> Waiting {
    Waiting {
        reason: wait.reason(),
        message: format!("{what} {}", wait.words()),
    }
}

/// Why its user has nothing begin now that the operator wants; none where it may, or has begun.
pub(super) fn own_wait(observed: &Observed, facts: Facts, now: Timestamp) -> Option<Wait> {
    let toward = observed.rollout().and_then(|known| known.toward.as_ref());
    let has_begun = toward.is_some_and(|toward| toward.templates == observed.templates);
    // Where a patch may begin all the same, it comes with the new templates.
    let is_open = facts.takes_patch || (has_begun && facts.other_templates);
    maintenance::waits(&observed.cluster, now).filter(|_| !is_open && !facts.is_under_way())
}

/// When what waits by its user's wish may begin; none where nothing does.
pub(super) fn again(observed: &Observed, facts: Facts, now: Timestamp) -> Option<Timestamp> {
    let due = observed.patch.due.as_ref();
    let of_patch = due.and_then(|due| due.waits);
    let of_fleet = own_wait(observed, facts, now).filter(|_| facts.wanted() == Some(Cause::Fleet));
    let waits = [of_patch, of_fleet].into_iter().flatten();
    waits.filter_map(Wait::until).min()
}

/// Hash of what its user asks for, as far as pods are made from it.
fn asked(observed: &Observed) -> String {
    let mut spec = observed.cluster.spec.clone();
    spec.maintenance = Maintenance::default();
    // A patch that the operator takes is none of it.
    spec.version.clone_from(&observed.patch.asked);
    // A spec that cannot be written is none that was followed before.
    object::hash(&serde_json::to_value(spec).unwrap_or_default())
}

/// What is to stand in the status before anything is changed because the operator is another one; none where it does.
fn begun(observed: &Observed, facts: Facts, now: Timestamp) -> Option<RolloutStatus> {
    let known = observed.rollout().cloned().unwrap_or_default();
    let toward = known.toward.as_ref();
    let stands = toward.is_some_and(|toward| toward.templates == observed.templates);
    let takes = facts.takes_patch && observed.patch.awaits_turn(&observed.cluster);
    let note = observed.patch.note().filter(|_| takes);
    (!stands || note.is_some()).then(|| RolloutStatus {
        toward: Some(RolloutBegun {
            templates: observed.templates.clone(),
            since: now.to_string(),
        }),
        held: false,
        patch: note.or(known.patch.clone()),
        ..known
    })
}

/// Whether the user, or a key that was made anew, wants other pods, or it does not work as it is.
pub(super) fn is_wanted_now(observed: &Observed, workloads: &[Object]) -> bool {
    let status = observed.cluster.status.as_ref();
    let seen = status.and_then(|status| status.observed_generation);
    let followed = observed.rollout().and_then(|known| known.asked.as_ref());
    // When it is held back, and whom it goes before, makes no pods.
    let spec_changed = seen != observed.cluster.metadata.generation
        && followed.is_none_or(|followed| *followed != asked(observed));
    let keys_changed = workloads.iter().any(|wanted| {
        let live = observed.objects.get(&wanted.key());
        live.is_some_and(|live| template::has_other_keys(wanted, live))
    });
    // The user's number of members, once they can be asked: that is long after the spec changed. And whether Events are
    // kept elsewhere.
    let others_are_asked = workloads.iter().any(|wanted| {
        let live = observed.objects.get(&wanted.key());
        live.is_some_and(|live| {
            etcd::sizes::asks(live) != etcd::sizes::asks(&wanted.value)
                || events::names_it(live) != events::names_it(&wanted.value)
        })
    });
    spec_changed || keys_changed || others_are_asked || !observed.was_ready()
}

/// The workloads, those with their old template that may not have another one now.
pub(super) fn held_back(
    workloads: Vec<Object>,
    observed: &Observed,
    allowed: Allowed,
) -> Vec<Object> {
    let hold = |wanted: Object| {
        let is_allowed = match (wanted.kind.as_str(), wanted.name.as_str()) {
            ("StatefulSet", names::ETCD) => allowed.etcd,
            ("Deployment", names::CONTROL_PLANE) => allowed.control_plane,
            ("Deployment", names::CONTROLLERS) => allowed.controllers,
            _ => allowed.rest,
        };
        match observed.objects.get(&wanted.key()) {
            Some(live) if !is_allowed && template::is_behind(&wanted, live) => {
                template::pinned(wanted, live)
            }
            _ => wanted,
        }
    };
    workloads.into_iter().map(hold).collect()
}

/// Notes in the status what came to an end; what is under way is seen in the pods.
pub(super) fn record(
    status: &mut TenantClusterStatus,
    facts: Facts,
    is_in_place: bool,
    observed: &Observed,
) {
    let ns = observed.tenant_namespace();
    let of = |kind: &str, name: &str| observed.find(kind, &ns, name).map(rolled_out);
    let is_over = |progress| progress == Progress::Current;
    let mut rollout = status.rollout.clone().unwrap_or_default();
    if is_over(facts.etcd)
        && let Known::Known(etcd) = of("StatefulSet", names::ETCD)
    {
        rollout.etcd = etcd;
    }
    if is_over(facts.control_plane)
        && let Known::Known(control_plane) = of("Deployment", names::CONTROL_PLANE)
    {
        rollout.control_plane = control_plane;
    }
    if is_over(facts.controllers)
        && let Known::Known(controllers) = of("Deployment", names::CONTROLLERS)
    {
        rollout.controllers = controllers;
    }
    let rest_is_over = !facts.rest_is_behind || is_in_place;
    if facts.is_over() && rest_is_over && (is_in_place || observed.has_been_ready()) {
        rollout.templates = Some(observed.templates.clone());
    }
    rollout.asked = Some(asked(observed));
    rollout.patch = observed.patch.kept(&observed.cluster);
    rollout.failed_patch = patches::refused(&observed.cluster, &observed.patch.asked);
    let is_current = rollout.templates.as_ref() == Some(&observed.templates);
    rollout.held = match observed.turn {
        Some(Answer::Held) => true,
        Some(Answer::Go) => false,
        Some(Answer::Wait) | None => rollout.held && !is_current,
    };
    status.rollout = Some(rollout);
}
