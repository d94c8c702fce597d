//! The conditions of a status, set one by one.
//!
//! Invariant: a condition changes its time only with its value.

use api::{ConditionStatus, ConditionType, Reason, TenantClusterStatus, set_condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::super::types::Plan;
use crate::controllers::tenant_cluster::observed::{Observed, Way};

/// Sets one condition of the status.
pub(in super::super) struct Conditions<'a> {
    pub(super) status: &'a mut TenantClusterStatus,
    generation: Option<i64>,
    now: Timestamp,
}

/// False, and not because of what is missing beside an API that answers.
fn is_silent(condition: &Condition) -> bool {
    let is_no = condition.status == ConditionStatus::False.as_str();
    is_no && Reason::ANSWERS.iter().all(|why| condition.reason != *why)
}

/// Sleep, restores and what is broken are said over what was said before in the same plan: whatever is as it was
/// stored keeps its time. That the API answers after silence is a transition of Ready, too.
pub(in super::super) fn keep_transition_times(
    status: &mut TenantClusterStatus,
    observed: &Observed,
) {
    let before = observed.cluster.status.as_ref();
    let mut before = before.map_or_else(Vec::new, |before| before.conditions.clone());
    let is_silent_now = status
        .conditions
        .iter()
        .any(|c| is_ready(c) && is_silent(c));
    before.retain(|c| is_silent_now || !(is_ready(c) && is_silent(c)));
    api::keep_transition_times(&before, &mut status.conditions);
}

fn is_ready(condition: &Condition) -> bool {
    condition.type_ == ConditionType::Ready.as_str()
}

impl Conditions<'_> {
    pub(in super::super) fn set(
        &mut self,
        type_: ConditionType,
        value: ConditionStatus,
        reason: Reason,
        message: &str,
    ) {
        let now = Time(self.now);
        let list = &mut self.status.conditions;
        set_condition(list, type_, value, reason, message, self.generation, now);
    }

    /// What is said by now of one type.
    pub(super) fn told(&self, type_: ConditionType) -> Option<&Condition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|c| c.type_ == type_.as_str())
    }

    /// The API answers, and Ready is False all the same. After silence that is a transition, too: its time
    /// says since when the API answers.
    pub(in super::super) fn answers_without(&mut self, reason: Reason, message: &str) {
        self.status
            .conditions
            .retain(|c| !(is_ready(c) && is_silent(c)));
        let value = ConditionStatus::False;
        self.set(ConditionType::Ready, value, reason, message);
    }

    /// The tenant's API answered.
    pub(in super::super) fn answered(&mut self, way: &Way) {
        let message = match way {
            Way::Published => "the API answered a consistent read at its published endpoint",
            Way::Service { .. } => {
                "the API answered a consistent read at its Service; the operator did not reach the \
                 published endpoint (EndpointReachable)"
            }
        };
        self.set(
            ConditionType::Ready,
            ConditionStatus::True,
            Reason::Answering,
            message,
        );
    }

    /// Whether the published endpoint was reached; unknown is not False, because nodes and users may
    /// reach what the operator does not.
    pub(in super::super) fn reached(&mut self, way: &Way) {
        let (value, reason, message) = match way {
            Way::Published => (ConditionStatus::True, Reason::Answering, ""),
            Way::Service { message } => (
                ConditionStatus::Unknown,
                Reason::NotReachedByOperator,
                message.as_str(),
            ),
        };
        self.set(ConditionType::EndpointReachable, value, reason, message);
    }

    /// The tenant's API, which answered before, does not.
    pub(in super::super) fn unreachable(&mut self, message: &str) {
        self.set(
            ConditionType::Ready,
            ConditionStatus::False,
            Reason::ApiUnreachable,
            message,
        );
    }

    /// Whether False is said by now of one type.
    pub(in super::super) fn says_no(&self, type_: ConditionType) -> bool {
        let told = self.told(type_);
        told.is_some_and(|told| told.status == ConditionStatus::False.as_str())
    }

    pub(super) fn remove(&mut self, type_: ConditionType) {
        api::remove_condition(&mut self.status.conditions, type_);
    }
}

pub(in super::super) fn conditions<'a>(
    plan: &'a mut Plan,
    observed: &Observed,
    now: Timestamp,
) -> Conditions<'a> {
    let generation = observed.cluster.metadata.generation;
    plan.status.observed_generation = generation;
    Conditions {
        status: &mut plan.status,
        generation,
        now,
    }
}
