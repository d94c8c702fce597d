//! How far one tenant cluster is on its way to the operator's templates, by what its TenantCluster says.
//!
//! Invariant: what is not known is not done.

use std::collections::BTreeMap;

use api::tenant_cluster::{RolloutBegun, RolloutStatus};
use api::{ConditionStatus, ConditionType, TenantCluster};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use tenant_cp::Settings;
use tenant_cp::windows::{self, Read};

use crate::hibernation;
use crate::maintenance::patches::{self, HowFar};

/// How long one that came to its end may be without Ready before that is a failure.
pub const TOLERANCE: SignedDuration = SignedDuration::from_secs(60);

/// What is seen of one.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Its UID.
    pub uid: String,
    /// `namespace/name`.
    pub name: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Of those of its wave that wait the highest begin first.
    pub priority: i32,
    /// Until when its user holds it back.
    pub held_until: Option<Timestamp>,
    /// Its own windows; none where it may begin at any time.
    pub windows: Option<Read>,
    /// How far it is with a patch that the operator takes by itself.
    pub patch: HowFar,
    /// Whether nobody waits for it: it sleeps, is paused or deleted, or was never Ready.
    pub is_left_out: bool,
    /// From which templates it runs, and to which it was begun to be brought.
    pub rollout: RolloutStatus,
    /// Whether it is Ready, and since when; none where that is not known.
    pub ready: Option<(bool, Timestamp)>,
}

/// How far one is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Standing {
    /// It runs from the templates, and is Ready.
    Done,
    /// It is under way, or not Ready since a moment ago; and when that is a failure.
    InFlight(Timestamp),
    /// That it is not done is a failure; why.
    Failed(String),
    /// It has not begun.
    Waiting,
    /// It has not begun, and no window of its own is open before then.
    Closed(Timestamp),
    /// It has not begun, and its user holds it back until then: nobody waits for it.
    HeldBack(Timestamp),
    /// Nobody waits for it.
    LeftOut,
}

impl Tenant {
    /// As a TenantCluster says.
    #[must_use]
    pub fn of(cluster: &TenantCluster, settings: &Settings, now: Timestamp) -> Self {
        let status = cluster.status.as_ref();
        let was_ever_ready = status.is_some_and(|status| status.bootstrap_hash.is_some());
        let mut conditions = status.iter().flat_map(|status| &status.conditions);
        let ready = conditions.find(|c| c.type_ == ConditionType::Ready.as_str());
        let known = ready.filter(|c| c.status != ConditionStatus::Unknown.as_str());
        let created = cluster.metadata.creation_timestamp.as_ref();
        Self {
            uid: cluster.identity_uid().to_owned(),
            name: format!(
                "{}/{}",
                cluster.namespace().unwrap_or_default(),
                cluster.name_any()
            ),
            created: created.map(|created| created.0),
            labels: cluster.labels().clone(),
            priority: cluster.spec.maintenance.priority,
            held_until: cluster.spec.maintenance.until(),
            // Those that cannot be read hold nothing back: the spec is refused for them.
            windows: match cluster.spec.maintenance.windows.as_slice() {
                [] => None,
                all => windows::read(all).ok(),
            },
            patch: patches::how_far(cluster, settings, now),
            is_left_out: cluster.metadata.deletion_timestamp.is_some()
                || cluster.spec.paused
                || !was_ever_ready
                || hibernation::holds_machines(cluster),
            rollout: status
                .and_then(|status| status.rollout.clone())
                .unwrap_or_default(),
            ready: known.map(|c| {
                let is_true = c.status == ConditionStatus::True.as_str();
                (is_true, c.last_transition_time.0)
            }),
        }
    }

    /// Whether all of it was seen to run from these templates, and no patch is left that it is to be brought to.
    #[must_use]
    pub fn is_current(&self, templates: &str) -> bool {
        let has_patch = matches!(self.patch, HowFar::None | HowFar::Blocked);
        has_patch && self.rollout.templates.as_deref() == Some(templates)
    }

    /// Whether it is not known to run from these templates, or was begun to be brought to them.
    #[must_use]
    pub fn is_begun(&self, templates: &str) -> bool {
        self.begun(templates).is_some() || !self.is_current(templates)
    }

    /// What was begun to bring it to these templates, and to the patch that is due.
    fn begun(&self, templates: &str) -> Option<&RolloutBegun> {
        let toward = self.rollout.toward.as_ref();
        let toward = toward.filter(|toward| toward.templates == templates);
        // What was begun before a patch was due is not that.
        let runs_from_others = self.rollout.templates.as_deref() != Some(templates);
        toward.filter(|_| runs_from_others || !matches!(self.patch, HowFar::Due(_)))
    }

    /// Why it does not begin now, by its user.
    fn waits(&self, policy: &Read, now: Timestamp) -> Option<Standing> {
        if let HowFar::Due(due) = &self.patch
            && (due.is_demanded || due.waits.is_none())
        {
            return None;
        }
        if let Some(until) = self.held_until.filter(|until| *until > now) {
            return Some(Standing::HeldBack(until));
        }
        let own = self.windows.as_ref()?;
        let opens = own.at(now).opens?;
        // Where both are never open at once nobody would ever be done with waiting.
        Some(match own.opens_with(policy, now) {
            Some(_) => Standing::Closed(opens),
            None => Standing::HeldBack(opens),
        })
    }

    /// How far it is on its way to `templates`. `runs`: this process has given it a place, whatever was seen of it since.
    /// `deadline`: how long it may take. `policy`: windows of the FleetPolicy.
    #[must_use]
    pub fn standing(
        &self,
        templates: &str,
        runs: bool,
        deadline: SignedDuration,
        policy: &Read,
        now: Timestamp,
    ) -> Standing {
        let begun = self.begun(templates);
        // One that cannot be read is of before everything.
        let since = begun.map(|begun| begun.since.parse().unwrap_or(Timestamp::MIN));
        let is_current = self.is_current(templates);
        if self.is_left_out {
            return Standing::LeftOut;
        }
        if let HowFar::Failed(why) = &self.patch {
            return Standing::Failed(why.clone());
        }
        match (is_current, self.ready) {
            (true, Some((true, _))) => Standing::Done,
            (true, Some((false, lost))) if begun.is_some() => {
                until(lost, TOLERANCE, now, "it is not Ready any more")
            }
            // What broke it was there before, or it was its user who changed it.
            (true, Some((false, _))) => Standing::LeftOut,
            (true, None) => Standing::InFlight(Timestamp::MAX),
            (false, _) if runs || since.is_some() => {
                let why = "it is under way, and not done by `spec.deadline`";
                until(since.unwrap_or(now), deadline, now, why)
            }
            (false, Some((false, _))) => Standing::LeftOut,
            (false, _) => self.waits(policy, now).unwrap_or(Standing::Waiting),
        }
    }
}

fn until(since: Timestamp, most: SignedDuration, now: Timestamp, why: &str) -> Standing {
    match now.duration_since(since) >= most {
        true => Standing::Failed(why.to_owned()),
        false => Standing::InFlight(after(since, most)),
    }
}

fn after(since: Timestamp, most: SignedDuration) -> Timestamp {
    since.checked_add(most).unwrap_or(Timestamp::MAX)
}
