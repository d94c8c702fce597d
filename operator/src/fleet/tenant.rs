//! How far one tenant cluster is on its way to the operator's templates, by what its TenantCluster says.
//!
//! Invariant: what is not known is not done.

use std::collections::BTreeMap;

use api::tenant_cluster::RolloutStatus;
use api::{ConditionStatus, ConditionType, TenantCluster};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use crate::hibernation;

/// How long one that came to its end may be without Ready before that is a failure.
pub const TOLERANCE: SignedDuration = SignedDuration::from_secs(60);

/// What is seen of one.
#[derive(Clone, Debug, PartialEq)]
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
    /// It has not begun, and its user holds it back until then: nobody waits for it.
    HeldBack(Timestamp),
    /// Nobody waits for it.
    LeftOut,
}

impl Tenant {
    /// As a TenantCluster says.
    #[must_use]
    pub fn of(cluster: &TenantCluster) -> Self {
        let status = cluster.status.as_ref();
        let was_ever_ready = status.is_some_and(|status| status.bootstrap_hash.is_some());
        let mut conditions = status.iter().flat_map(|status| &status.conditions);
        let ready = conditions.find(|c| c.type_ == ConditionType::Ready.as_str());
        let known = ready.filter(|c| c.status != ConditionStatus::Unknown.as_str());
        let created = cluster.metadata.creation_timestamp.as_ref();
        Self {
            uid: cluster.uid().unwrap_or_default(),
            name: format!(
                "{}/{}",
                cluster.namespace().unwrap_or_default(),
                cluster.name_any()
            ),
            created: created.map(|created| created.0),
            labels: cluster.labels().clone(),
            priority: cluster.spec.maintenance.priority,
            held_until: cluster.spec.maintenance.until(),
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

    /// Whether all of it was seen to run from these templates.
    #[must_use]
    pub fn is_current(&self, templates: &str) -> bool {
        self.rollout.templates.as_deref() == Some(templates)
    }

    /// Whether it is not known to run from these templates, or was begun to be brought to them.
    #[must_use]
    pub fn is_begun(&self, templates: &str) -> bool {
        let mut toward = self.rollout.toward.iter();
        toward.any(|toward| toward.templates == templates) || !self.is_current(templates)
    }

    /// How far it is on its way to `templates`. `runs`: this process has given it a place, whatever was seen of it since.
    /// `deadline`: how long it may take.
    #[must_use]
    pub fn standing(
        &self,
        templates: &str,
        runs: bool,
        deadline: SignedDuration,
        now: Timestamp,
    ) -> Standing {
        let toward = self.rollout.toward.as_ref();
        let begun = toward.filter(|toward| toward.templates == templates);
        // One that cannot be read is of before everything.
        let since = begun.map(|begun| begun.since.parse().unwrap_or(Timestamp::MIN));
        let is_current = self.is_current(templates);
        if self.is_left_out {
            return Standing::LeftOut;
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
            (false, _) => match self.held_until.filter(|until| *until > now) {
                Some(until) => Standing::HeldBack(until),
                None => Standing::Waiting,
            },
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
