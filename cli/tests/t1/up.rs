//! `covey up` on a kube-apiserver of its own, because what it installs is there once and minds everybody.
//!
//! Invariant: nobody runs the operator here; the test says that it is ready.

use anyhow::Result;
use api::TenantCluster;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::apiserver::ManagementApi;
use testkit::fixtures;

use super::{MASTERS, Shell};

const SPACE: &str = "covey-system";

#[tokio::test]
async fn what_is_installed_is_written_once_and_only_what_changes_is_written_again() -> Result<()> {
    let Some(api) = ManagementApi::alone().await? else {
        return Ok(());
    };
    let (shell, client) = (Shell::new(&api, "default", &[MASTERS])?, api.admin()?);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), SPACE);

    let window = api.audit().window()?;
    let printed = shell.run("up --dry-run").await?;
    let printed = printed.expect(0, &["kind: Namespace", "kind: Deployment"], &[]);
    assert!(!printed.out.contains("managed-by: Helm"));
    let dry = shell.run("up --dry-run server").await?;
    dry.expect(
        0,
        &["deployment.apps/covey-operator made\n"],
        &["nothing was written", "no default StorageClass"],
    );
    let nobody = Shell::new(&api, "default", &[])?;
    nobody.run("up").await?.expect(6, &[], &["forbidden"]);
    window.assert_no_writes(&shell.user)?;
    window.assert_no_writes(&nobody.user)?;
    assert_eq!(deployments.get_opt("covey-operator").await?, None);

    let made = shell.run("up --wait=false").await?;
    let made = made.expect(
        0,
        &["namespace/covey-system made\n"],
        &["0 were as they should be", "rollout status"],
    );
    assert!(made.out.lines().count() > 60, "{made:#?}");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let all = definitions.list(&ListParams::default()).await?;
    assert_eq!(all.items.len(), api::crds().len());

    let window = api.audit().window()?;
    let again = shell.run("up --wait=false").await?;
    let again = again.expect(0, &[], &["0 objects were written"]);
    assert_eq!(again.out, "");
    window.assert_no_writes(&shell.user)?;

    // What is missing is made, what was changed is set back, what is not wanted any more goes.
    let create = PostParams::default();
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    webhooks.delete("covey", &DeleteParams::default()).await?;
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), "default");
    let demo = Box::new(fixtures::minimal("default", "demo"));
    Box::pin(clusters.create(&create, &demo)).await?;
    let labels =
        json!({"app.kubernetes.io/managed-by": "covey-cli", "app.kubernetes.io/part-of": "covey"});
    let old = json!({"metadata": {"name": "covey-old", "labels": labels}, "rules": []});
    let roles: Api<ClusterRole> = Api::all(client.clone());
    roles.create(&create, &serde_json::from_value(old)?).await?;
    let params = PatchParams::default();
    let none = json!({"spec": {"replicas": 0}});
    deployments
        .patch("covey-operator", &params, &Patch::Merge(&none))
        .await?;
    let mended = shell.run("up --wait=false -o wide").await?;
    let mended = mended.expect(
        0,
        &[
            "deployment.apps/covey-operator changed spec.replicas\n",
            "validatingwebhookconfiguration.admissionregistration.k8s.io/covey made\n",
            "clusterrole.rbac.authorization.k8s.io/covey-old deleted\n",
        ],
        &[],
    );
    assert_eq!(mended.out.lines().count(), 3, "{mended:#?}");

    // Only what another image, and another configuration, change.
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, "registry: registry.example.com\n")?;
    let line = format!(
        "up --wait=false -o json --image registry.example.com/operator:1 --config {}",
        config.display()
    );
    let changed = shell.run(&line).await?.expect(0, &[], &[]);
    let report: Value = serde_json::from_str(&changed.out)?;
    assert_eq!(report["kind"], "InstallReport");
    assert_eq!(crate::schema::findings(&report), [""; 0], "{report:#}");
    let changes = report["changes"].as_array().into_iter().flatten();
    let objects: Vec<_> = changes
        .map(|c| c["object"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(
        objects,
        [
            "configmap/covey-config",
            "deployment.apps/covey-operator",
            "deployment.apps/covey-webhook"
        ]
    );
    // Whose image it is has to be said again; the configuration stays.
    let refused = shell.run("up").await?;
    refused.expect(7, &[], &["registry.example.com/operator:1", "--image"]);
    let named = "up --image registry.example.com/operator:1";
    let maps: Api<ConfigMap> = Api::namespaced(client, SPACE);
    let map = maps.get("covey-config").await?;
    let text = map.data.unwrap_or_default().remove("config.yaml");
    assert!(text.is_some_and(|text| text.contains("registry.example.com")));

    let late = shell.run(&format!("{named} --timeout 1s")).await?;
    late.expect(4, &[], &["covey-operator was not ready", "0 of 2 pods"]);
    for name in ["covey-operator", "covey-webhook"] {
        let generation = deployments.get(name).await?.metadata.generation;
        let status = json!({"status": {"observedGeneration": generation, "replicas": 2, "updatedReplicas": 2,
            "readyReplicas": 2, "availableReplicas": 2}});
        let params = PatchParams::default();
        deployments
            .patch_status(name, &params, &Patch::Merge(&status))
            .await?;
    }
    let window = api.audit().window()?;
    let ready = shell.run(&format!("{named} --timeout 20s")).await?;
    ready.expect(0, &[], &["covey-webhook is ready", "covey create cluster"]);
    window.assert_no_writes(&shell.user)?;

    let refused = shell.run("down --yes").await?;
    refused.expect(
        7,
        &[],
        &["default/demo", "covey delete cluster demo -n default"],
    );
    clusters.delete("demo", &DeleteParams::default()).await?;

    // What helm installed is helm's.
    let release = json!({"metadata": {"annotations": {"meta.helm.sh/release-name": "covey"}}});
    let params = PatchParams::default();
    deployments
        .patch("covey-operator", &params, &Patch::Merge(&release))
        .await?;
    let refused = shell.run(named).await?;
    refused.expect(7, &[], &["helm upgrade covey"]);

    let unasked = shell.run("down").await?;
    unasked.expect(2, &[], &["there is no terminal to ask at"]);
    let down = shell.run("down --yes").await?;
    down.expect(
        0,
        &[
            "deployment.apps/covey-operator deleted\n",
            "namespace/covey-system deleted\n",
        ],
        &[],
    );
    assert_eq!(deployments.get_opt("covey-operator").await?, None);
    assert_eq!(roles.get_opt("covey-operator").await?, None);
    let left = definitions.list(&ListParams::default()).await?;
    assert_eq!(left.items.len(), api::crds().len());
    Ok(())
}
