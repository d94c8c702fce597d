//! FleetPolicies: whether something keeps tenant clusters from following another version of the operator.
//!
//! Invariant: what a wave waits for as it was asked to (a window, a soak, its turn) is nothing that is wrong, however long
//! it lasts.

use api::fleet_policy::WaveStatus;
use api::{ConditionType, FleetPolicy, Reason};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::conditions::{self, About, GRACE};
use crate::check::Check;
use crate::facts::Facts;
use crate::finding::{Finding, Level, Scope, Subject};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let policies = facts.management.fleet_policies.as_ref().there();
    let found = policies
        .into_iter()
        .flatten()
        .flat_map(|policy| one(policy, facts.now));
    found.collect()
}

fn one(policy: &FleetPolicy, now: Timestamp) -> Vec<Finding> {
    let name = policy.name_any();
    let subject = Subject::new("FleetPolicy", "", &name);
    // It explains nothing of a tenant cluster: whoever waits runs as before.
    let scope = Scope {
        cluster: Some((String::new(), name)),
        pool: None,
    };
    let about = About {
        subject: &subject,
        scope: &scope,
        now,
        grace: GRACE,
    };
    let status = policy.status.clone().unwrap_or_default();
    let told = status.conditions.into_iter().filter(|condition| {
        condition.type_ == ConditionType::Degraded.as_str() || condition.reason == Reason::FleetHeld
    });
    let told: Vec<_> = told.collect();
    let found = conditions::check(&told, &about);
    let failed: Vec<_> = status.waves.iter().filter(|wave| wave.failed > 0).collect();
    if found.is_empty() {
        let failed = failed.into_iter().map(|wave| stood(wave, &subject));
        return failed.map(|finding| finding.within(&scope)).collect();
    }
    let with_waves = found.into_iter().map(|finding| {
        let waves = failed.iter().map(|wave| how_far(wave));
        waves.fold(finding, |finding, wave| finding.told_by(&wave))
    });
    with_waves.collect()
}

/// Failures of a wave that goes on.
fn stood(wave: &WaveStatus, subject: &Subject) -> Finding {
    let cause = format!("{}; the fleet goes on without them", how_far(wave));
    let mend = "`covey doctor -A` says what is wrong with them";
    Finding::new(Check::Fleet, Level::Warning, subject.clone(), &cause, mend)
}

fn how_far(wave: &WaveStatus) -> String {
    format!(
        "wave {}: of {} tenant clusters {} failed, {} wait, {} are done",
        wave.name, wave.tenant_clusters, wave.failed, wave.waiting, wave.done
    )
}
