//! A machine that KubeVirt refuses a disk, and one that is gone: nobody else is held up.
//!
//! Invariant: the API server itself refuses, by a policy, as KubeVirt's webhook does.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tonic::Code;

use crate::support::{Driver, Environment, Fakes, PATIENCE};

/// How long a driver waits that is to wait in vain. What has to succeed is asked of another one.
const HASTE: Duration = Duration::from_millis(800);

/// Has the API server refuse every machine of the namespace a disk, from the return on.
async fn refuse(environment: &Environment, machine: &str, disk: &str) -> Result<()> {
    let name = format!("refuse-{}", environment.ns);
    let group = "admissionregistration.k8s.io/v1";
    let expression = format!(
        "!has(object.spec.template.spec.volumes) || \
         object.spec.template.spec.volumes.all(v, v.name != '{disk}')"
    );
    environment
        .apply(&json!({
            "apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": { "name": name },
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {
                        "matchLabels": { "kubernetes.io/metadata.name": environment.ns },
                    },
                    "resourceRules": [{
                        "apiGroups": ["kubevirt.io"], "apiVersions": ["*"],
                        "operations": ["UPDATE"], "resources": ["virtualmachines"],
                    }],
                },
                "validations": [{
                    "expression": expression,
                    "message": "no room on node hypervisor-7 at 10.0.0.7",
                }],
            },
        }))
        .await?;
    environment
        .apply(&json!({
            "apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": name },
            "spec": { "policyName": name, "validationActions": ["Deny"] },
        }))
        .await?;
    let volumes = json!([{ "name": disk, "persistentVolumeClaim": { "claimName": disk } }]);
    let patch = Patch::Merge(json!({ "spec": { "template": { "spec": { "volumes": volumes } } } }));
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    // The API server may not have seen its policy yet.
    let refused = async {
        let mut calls = tokio::time::interval(Duration::from_millis(50));
        loop {
            calls.tick().await;
            if environment
                .vms()
                .patch(machine, &params, &patch)
                .await
                .is_err()
            {
                return;
            }
        }
    };
    let refused = tokio::time::timeout(PATIENCE, refused).await;
    refused.context("the policy refuses nothing")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_disk_holds_up_no_other_disk_and_no_release_and_is_told() -> Result<()> {
    let Some(environment) = Environment::new("refused").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    environment.machine("a").await?;
    environment.machine("b").await?;
    let (moves, stays) = (driver.create("moves").await?, driver.create("stays").await?);
    let (bad, comes) = (driver.create("bad").await?, driver.create("comes").await?);
    driver.publish(&moves, "a").await?;
    driver.publish(&stays, "a").await?;
    refuse(&environment, "a", &bad).await?;
    let wanted = async {
        // It ends when the rest is done.
        let _ = driver.publish(&bad, "a").await;
        std::future::pending::<()>().await;
    };
    let others = async {
        driver.unpublish(&moves, "a").await?;
        driver.publish(&moves, "b").await?;
        driver.publish(&comes, "a").await?;
        driver.unpublish(&stays, "a").await
    };
    tokio::select! {
        () = wanted => bail!("it never ends"),
        done = others => done?,
    }
    drop(driver);
    let hasty = Driver::hasty(&environment, HASTE).await?;
    let refusal = async || {
        let refusal = hasty.publish(&bad, "a").await;
        if let Err(status) = &refusal {
            let internal = |name: &&str| status.message().contains(*name);
            let internals = ["hypervisor", "10.0.0.7", environment.ns.as_str()];
            assert_eq!(
                internals.iter().find(|name| internal(name)),
                None,
                "{status:?}"
            );
        }
        refusal
    };
    hasty
        .told_in_vain("the platform refuses this disk", refusal)
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_that_is_gone_holds_nothing_although_nobody_detached() -> Result<()> {
    let Some(environment) = Environment::new("gone").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    environment.machine("a").await?;
    environment.machine("b").await?;
    let id = driver.create("pvc-1").await?;
    driver.publish(&id, "a").await?;
    environment.vms().delete("a", &Default::default()).await?;
    // As sidecars do: again and again.
    let moved = async {
        let mut calls = tokio::time::interval(Duration::from_millis(100));
        loop {
            calls.tick().await;
            match driver.publish(&id, "b").await {
                Err(status) if status.code() == Code::FailedPrecondition => {}
                done => return done,
            }
        }
    };
    let moved = tokio::time::timeout(PATIENCE, moved).await;
    moved.context("the machine that is gone has it still")??;
    driver.unpublish(&id, "b").await?;
    driver.delete(&id).await?;
    Ok(())
}
