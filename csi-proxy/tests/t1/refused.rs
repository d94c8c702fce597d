//! A machine that KubeVirt refuses a disk, and one that is gone: nobody else is held up.
//!
//! Invariant: the API server itself refuses, by a policy, as KubeVirt's webhook does.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::Api;
use kube::api::{Patch, PatchParams};
use proto::csi::{CapacityRange, ControllerExpandVolumeRequest, CreateSnapshotRequest};
use serde_json::{Value, json};
use testkit::fixtures::ask_until;
use tonic::{Code, Status};

use crate::support::driver::mount;
use crate::support::{Driver, Environment, Fakes, PATIENCE};

/// How long a driver waits that is to wait in vain. What has to succeed is asked of another one.
const HASTE: Duration = Duration::from_millis(800);
const GIB: i64 = 1 << 30;

/// Has the API server refuse what this expression is false of, in the namespace; it may not be in force yet.
async fn install(environment: &Environment, rules: &Value, expression: &str) -> Result<()> {
    let name = format!("refuse-{}", environment.ns);
    let group = "admissionregistration.k8s.io/v1";
    environment
        .apply(&json!({
            "apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": { "name": name },
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {
                        "matchLabels": { "kubernetes.io/metadata.name": environment.ns },
                    },
                    "resourceRules": rules,
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
        .await
}

/// Returns once a dry run is refused.
async fn in_force<T>(dry_run: impl AsyncFn() -> kube::Result<T>) -> Result<()> {
    ask_until("the policy is in force", PATIENCE, || async {
        Ok(match dry_run().await {
            Ok(_) => Err("not yet".to_owned()),
            Err(_) => Ok(()),
        })
    })
    .await
}

/// Has the API server refuse every machine of the namespace a disk, from the return on.
async fn refuse(environment: &Environment, machine: &str, disk: &str) -> Result<()> {
    let rules = json!([{
        "apiGroups": ["kubevirt.io"], "apiVersions": ["*"],
        "operations": ["UPDATE"], "resources": ["virtualmachines"],
    }]);
    let expression = format!(
        "!has(object.spec.template.spec.volumes) || \
         object.spec.template.spec.volumes.all(v, v.name != '{disk}')"
    );
    install(environment, &rules, &expression).await?;
    let volumes = json!([{ "name": disk, "persistentVolumeClaim": { "claimName": disk } }]);
    let patch = Patch::Merge(json!({ "spec": { "template": { "spec": { "volumes": volumes } } } }));
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let machines = environment.vms();
    in_force(async || machines.patch(machine, &params, &patch).await).await
}

/// Has the API server refuse every snapshot and every growth of the namespace, from the return on.
async fn refuse_snapshots_and_growth(environment: &Environment, volume: &str) -> Result<()> {
    let rule = |group: &str, operation: &str, resource: &str| {
        json!({
            "apiGroups": [group], "apiVersions": ["*"],
            "operations": [operation], "resources": [resource],
        })
    };
    let rules = json!([
        rule("snapshot.storage.k8s.io", "CREATE", "volumesnapshots"),
        rule("", "UPDATE", "persistentvolumeclaims"),
    ]);
    let same = "oldObject != null && object.spec.resources == oldObject.spec.resources";
    install(environment, &rules, same).await?;
    let storage = json!({ "storage": (2 * GIB).to_string() });
    let patch = Patch::Merge(json!({ "spec": { "resources": { "requests": storage } } }));
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let claims = environment.claims();
    in_force(async || claims.patch(volume, &params, &patch).await).await
}

/// That the tenant is told of a refusal, and of nothing of the management cluster.
fn assert_told<T: std::fmt::Debug>(environment: &Environment, answer: Result<T, Status>) {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let told = status.message();
    assert!(told.contains("the platform refuses"), "{told}");
    for internal in ["hypervisor", "10.0.0.7", environment.ns.as_str()] {
        assert!(!told.contains(internal), "{told}");
    }
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_and_growth_that_are_refused_are_told_hold_up_nothing_and_come_once_they_may()
-> Result<()> {
    let Some(environment) = Environment::new("vetoed").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    environment.machine("a").await?;
    let id = driver.create("first").await?;
    refuse_snapshots_and_growth(&environment, &id).await?;
    let snapshot = CreateSnapshotRequest {
        name: "s-1".to_owned(),
        source_volume_id: id.clone(),
        ..Default::default()
    };
    let growth = ControllerExpandVolumeRequest {
        volume_id: id.clone(),
        capacity_range: Some(CapacityRange {
            required_bytes: 2 * GIB,
            limit_bytes: 0,
        }),
        volume_capability: Some(mount()),
        ..Default::default()
    };
    let cut = async || driver.controller().create_snapshot(snapshot.clone()).await;
    let grow = async || {
        let mut controller = driver.controller();
        controller.controller_expand_volume(growth.clone()).await
    };
    assert_told(&environment, cut().await);
    assert_told(&environment, grow().await);

    driver.publish(&id, "a").await?;
    let other = driver.create("other").await?;
    driver.publish(&other, "a").await?;
    driver.unpublish(&id, "a").await?;

    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(environment.admin.clone());
    let name = format!("refuse-{}", environment.ns);
    bindings.delete(&name, &Default::default()).await?;
    ask_until("it is cut and grows", PATIENCE, || async {
        let both = async {
            cut().await?;
            grow().await
        };
        Ok(both.await.map(drop).map_err(|status| format!("{status:?}")))
    })
    .await
}
