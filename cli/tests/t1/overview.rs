//! What is shown beside each other: hosts, quotas, the fleet, the tree of a tenant cluster; and sleep.
//!
//! Invariant: what is asked for is one field, and what is shown is what the objects say.

use std::path::Path;

use anyhow::Result;
use api::{FleetPolicy, Host, TenantCluster, TenantQuota};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::apiserver::ManagementApi;
use tokio::process::Command;

use super::{Ended, MASTERS, Shell, broken, condition, say};

#[tokio::test]
async fn sleep_is_one_field_and_what_there_is_is_shown() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    broken(api, &namespace).await?;
    let (shell, client) = (Shell::new(api, &namespace, &[MASTERS])?, api.admin()?);
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), &namespace);

    shell
        .run("sleep demo")
        .await?
        .expect(0, &[], &["covey wake demo"]);
    assert!(clusters.get("demo").await?.spec.hibernation.enabled);
    let waiting = shell
        .command("wait demo --for asleep --timeout 60s")
        .spawn()?;
    let asleep = vec![condition("Ready", "False", "Hibernated", "")];
    say(&client, &namespace, asleep).await?;
    Ended::of(waiting.wait_with_output().await?).expect(0, &[], &[]);
    shell
        .run("wake demo")
        .await?
        .expect(0, &[], &["demo wakes"]);
    assert!(!clusters.get("demo").await?.spec.hibernation.enabled);
    shell
        .run("wake dmeo")
        .await?
        .expect(5, &[], &["did you mean demo?"]);

    let create = PostParams::default();
    let host: Host = serde_json::from_value(
        json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Host",
        "metadata": {"name": "rack-1"}, "spec": {"address": "192.0.2.10", "user": "root", "sshKeySecretName": "k",
            "hostKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJd3vK9mUTbOkkXmHq4pZm3O4mUgoyb0xvZ1Hh6yq0pJ"]}}),
    )?;
    shell.run("hosts").await?.expect(0, &[], &["no hosts"]);
    let hosts: Api<Host> = Api::namespaced(client.clone(), &namespace);
    hosts.create(&create, &host).await?;
    shell
        .run("hosts")
        .await?
        .expect(0, &["ADDRESS", "rack-1", "192.0.2.10"], &[]);
    shell
        .run("hosts -o name")
        .await?
        .expect(0, &["host.covey.dev/rack-1\n"], &[]);

    shell
        .run("quota")
        .await?
        .expect(0, &[], &["no quota bounds"]);
    let name = api.name("quota");
    let quota: TenantQuota = serde_json::from_value(
        json!({"apiVersion": "covey.dev/v1alpha1", "kind": "TenantQuota",
        "metadata": {"name": name}, "spec": {"namespaces": [namespace], "clusters": 1}}),
    )?;
    let quotas: Api<TenantQuota> = Api::all(client.clone());
    quotas.create(&create, &quota).await?;
    let known = shell.run("quota").await?;
    known.expect(0, &["clusters   ?", name.as_str()], &[]);
    let used = json!({"clusters": 2, "cores": "1", "memory": "1Gi", "storage": "1Gi", "loadBalancers": 0, "machines": 0});
    let above = condition("Exceeded", "True", "AboveLimits", "2 of 1 clusters");
    let status = json!({"status": {"used": used, "conditions": [above]}});
    let params = PatchParams::default();
    quotas
        .patch_status(&name, &params, &Patch::Merge(&status))
        .await?;
    shell
        .run("quota")
        .await?
        .expect(3, &["2 of 1 clusters"], &[]);
    quotas
        .delete(&name, &kube::api::DeleteParams::default())
        .await?;

    let name = api.name("fleet");
    let policy: FleetPolicy = serde_json::from_value(
        json!({"apiVersion": "covey.dev/v1alpha1", "kind": "FleetPolicy",
        "metadata": {"name": name}, "spec": {}}),
    )?;
    let policies: Api<FleetPolicy> = Api::all(client.clone());
    policies.create(&create, &policy).await?;
    let line = format!("fleet {name}");
    let told = shell.run(&line).await?;
    told.expect(0, &["nothing is said of it yet"], &[]);
    let rolls = condition(
        "Progressing",
        "True",
        "RollingOut",
        "wave rest is rolled out",
    );
    let status = json!({"status": {"conditions": [rolls], "waves": [{"name": "rest", "tenantClusters": 7, "done": 3,
        "inFlight": 2, "waiting": 2, "failed": 0, "leftOut": 0}]}});
    policies
        .patch_status(&name, &params, &Patch::Merge(&status))
        .await?;
    let told = shell.run(&line).await?;
    told.expect(
        0,
        &["wave rest is rolled out", "rest   7     3      2"],
        &[],
    );
    policies
        .delete(&name, &kube::api::DeleteParams::default())
        .await?;
    Ok(())
}

#[tokio::test]
async fn objects_are_shown_by_owner_and_a_command_is_run_with_the_kubeconfig() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    broken(api, &namespace).await?;
    let (shell, client) = (Shell::new(api, &namespace, &[MASTERS])?, api.admin()?);

    let told = shell.run("tree demo").await?;
    let told = told.expect(0, &["TenantCluster/demo", "  └ NodePool/demo-workers"], &[]);
    assert!(!told.out.contains("etcd-0"), "{told:?}");
    shell.run("tree demo --namespaces").await?.expect(
        0,
        &["tenant namespace covey-", "Pod/etcd-0"],
        &[],
    );
    // Its kubeconfig names no context.
    shell
        .run("tree demo --inside")
        .await?
        .expect(1, &[], &["kubeconfig of the tenant cluster"]);

    let connect = |script: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_covey"));
        command.arg("--kubeconfig").arg(shell.kubeconfig.path());
        command.args(["--namespace", &namespace, "connect", "demo", "--"]);
        command.args(["sh", "-c", script]).kill_on_drop(true);
        command
    };
    let nowhere = Ended::of(connect("exit 0").output().await?);
    nowhere.expect(1, &[], &["cannot be reached", "covey doctor demo"]);
    // The management API stands for the tenant's: it can be reached.
    let secrets: Api<Secret> = Api::namespaced(client, &namespace);
    let value = format!("clusters: [{{cluster: {{server: \"{}\"}}}}]\n", api.url());
    let patch = json!({"stringData": {"value": value}});
    let params = PatchParams::default();
    secrets
        .patch("demo-kubeconfig", &params, &Patch::Merge(&patch))
        .await?;
    let ran = Ended::of(
        connect("echo $KUBECONFIG; cat $KUBECONFIG; exit 7")
            .output()
            .await?,
    );
    let ran = ran.expect(7, &["clusters: [{cluster: {server:"], &[]);
    let path = ran.out.lines().next().unwrap_or_default();
    assert!(path.contains("covey-connect-") && !Path::new(path).exists());
    let ended = Ended::of(connect("kill -TERM $$").output().await?);
    ended.expect(143, &[], &[]);
    Ok(())
}
