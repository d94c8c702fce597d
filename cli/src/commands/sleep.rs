//! `covey sleep` and `covey wake`.
//!
//! Invariant: nothing but `spec.hibernation.enabled` is written; who was put to sleep by a schedule is not said to be woken
//! by a write that changes nothing.

use api::TenantCluster;
use api::tenant_cluster::HibernationPhase;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use serde_json::json;
use tokio::time::timeout;

use super::change::MANAGER;
use super::describe::find;
use super::wait::until;
use crate::args::{Global, Sleeping};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::judge::Goal;
use crate::output::say;

pub(super) async fn sleep(global: &Global, args: &Sleeping) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let name = &args.name;
    let cluster = find(&connection.client, &connection.namespace, name).await?;
    let clusters: Api<TenantCluster> = Api::namespaced(connection.client, &connection.namespace);
    if is_woken(&cluster) {
        // Whoever was woken by a request stays awake until this was false, and the operator has seen that.
        set(&clusters, name, false).await?;
        let seen = await_condition(clusters.clone(), name, |seen: Option<&TenantCluster>| {
            seen.is_none_or(|cluster| phase(cluster).is_none())
        });
        let seen = timeout(args.waiting.timeout, Box::pin(seen)).await;
        if !matches!(seen, Ok(Ok(_))) {
            let what = format!(
                "the operator has not seen that {name} is to be awake, and it is not asked to sleep anew"
            );
            let mend = format!(
                "`covey sleep {name}` once more; `covey doctor` says whether the operator runs"
            );
            return Err(Failure::new(Exit::TimedOut, &what, &mend));
        }
    }
    let written = set(&clusters, name, true).await?;
    if !global.quiet {
        say(&format!(
            "{name} is put to sleep: its machines are drained and deleted, then nothing of it runs; `covey wake {name}` wakes it"
        ));
    }
    if !args.waiting.wait {
        return Ok(Exit::Done);
    }
    let time = args.waiting.timeout;
    until(&clusters, &written, &Goal::Asleep, time, global).await
}

pub(super) async fn wake(global: &Global, args: &Sleeping) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let name = &args.name;
    let cluster = find(&connection.client, &connection.namespace, name).await?;
    if sleeps_by_schedule(&cluster) {
        let what = format!(
            "a schedule has put {name} to sleep, and spec.hibernation.enabled is false already"
        );
        let mend = "ask its API, which wakes it until it is put to sleep next, or change `spec.hibernation.schedules`";
        return Err(Failure::new(Exit::Refused, &what, mend));
    }
    let clusters: Api<TenantCluster> = Api::namespaced(connection.client, &connection.namespace);
    let written = set(&clusters, name, false).await?;
    if !global.quiet {
        say(&format!("{name} wakes; its machines are made anew"));
    }
    if !args.waiting.wait {
        return Ok(Exit::Done);
    }
    let time = args.waiting.timeout;
    until(&clusters, &written, &Goal::ready(), time, global).await
}

async fn set(
    clusters: &Api<TenantCluster>,
    name: &str,
    on: bool,
) -> Result<TenantCluster, Failure> {
    let patch = json!({ "spec": { "hibernation": { "enabled": on } } });
    // What an API of an older version does not know would be dropped without a word.
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        field_validation: Some(kube::api::ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let written = clusters.patch(name, &params, &Patch::Merge(&patch)).await;
    let act = if on { "put to sleep" } else { "wake" };
    written.map_err(|error| Failure::of(&format!("{act} {name}"), &error))
}

fn phase(cluster: &TenantCluster) -> Option<HibernationPhase> {
    let hibernation = cluster.status.as_ref()?.hibernation.as_ref();
    hibernation.map(|told| told.phase)
}

/// Whether it is asked to sleep, and a request woke it.
fn is_woken(cluster: &TenantCluster) -> bool {
    cluster.spec.hibernation.enabled && phase(cluster) == Some(HibernationPhase::Awake)
}

/// Whether it sleeps although nobody asks for it but a schedule, as far as the operator has seen the spec.
fn sleeps_by_schedule(cluster: &TenantCluster) -> bool {
    let spec = &cluster.spec.hibernation;
    let observed = cluster.status.as_ref().and_then(|s| s.observed_generation);
    let is_current = observed >= cluster.metadata.generation;
    let sleeps = matches!(
        phase(cluster),
        Some(HibernationPhase::Asleep | HibernationPhase::FallingAsleep)
    );
    !spec.enabled && !spec.schedules.is_empty() && is_current && sleeps
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn cluster(spec: &Value, phase: &str, observed: i64) -> TenantCluster {
        let cluster = json!({ "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": { "name": "demo", "generation": 2 }, "spec": { "version": "1.35.4", "hibernation": spec },
            "status": { "observedGeneration": observed,
                "hibernation": { "phase": phase, "since": "2026-11-27T12:00:00Z" } } });
        serde_json::from_value(cluster).unwrap()
    }

    #[test]
    fn one_that_a_request_woke_is_told_from_one_that_sleeps() {
        let asked = json!({ "enabled": true });
        assert!(is_woken(&cluster(&asked, "Awake", 2)));
        assert!(!is_woken(&cluster(&asked, "Asleep", 2)));
        assert!(!is_woken(&cluster(&json!({}), "Awake", 2)));
    }

    #[test]
    fn only_what_a_schedule_alone_puts_to_sleep_cannot_be_woken_by_the_field() {
        let nightly = json!({ "schedules": [{ "sleep": "0 20 * * *", "wake": "0 7 * * *" }] });
        assert!(sleeps_by_schedule(&cluster(&nightly, "Asleep", 2)));
        // It was woken a moment ago, and the operator has not seen it.
        assert!(!sleeps_by_schedule(&cluster(&nightly, "Asleep", 1)));
        assert!(!sleeps_by_schedule(&cluster(&nightly, "Waking", 2)));
        assert!(!sleeps_by_schedule(&cluster(
            &json!({ "enabled": true }),
            "Asleep",
            2
        )));
    }
}
