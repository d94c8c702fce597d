//! What the management cluster's API refuses of a mirror, or makes of it, costs no endpoint.

use anyhow::Result;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testkit::fixtures::{PATIENCE, ask_until};

use crate::support::environment::apply;
use crate::support::{Ccm, Environment};

/// A policy of the management cluster: no Service of the tenant namespace may have session affinity.
async fn forbid_affinity(environment: &Environment) -> Result<()> {
    let name = format!("no-affinity-{}", environment.uid);
    let group = "admissionregistration.k8s.io/v1";
    let resources = json!([{
        "apiGroups": [""], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["services"],
    }]);
    apply(
        &environment.admin,
        &json!({
            "apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": { "name": name },
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": { "resourceRules": resources },
                "validations": [{
                    "expression": "object.spec.?sessionAffinity.orValue('None') == 'None'",
                    "message": "no affinity here",
                }],
            },
        }),
    )
    .await?;
    let namespace = json!({ "kubernetes.io/metadata.name": environment.ns });
    apply(
        &environment.admin,
        &json!({
            "apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": name },
            "spec": {
                "policyName": name, "validationActions": ["Deny"],
                "matchResources": { "namespaceSelector": { "matchLabels": namespace } },
            },
        }),
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_and_addresses_follow_while_a_change_of_the_mirror_is_refused() -> Result<()> {
    let Some(environment) = Environment::new("refused").await? else {
        return Ok(());
    };
    let _ccm = Ccm::start(&environment)?;
    let (_, mirror) = environment.serving().await?;
    forbid_affinity(&environment).await?;
    let affinity = json!({ "spec": { "sessionAffinity": "ClientIP" } });
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let mirrors = environment.mirrors();
    ask_until("the policy is in force", PATIENCE, || async {
        let change = Patch::Merge(&affinity);
        Ok(match mirrors.patch(&mirror, &dry_run, &change).await {
            Ok(_) => Err("not yet".to_owned()),
            Err(_) => Ok(()),
        })
    })
    .await?;
    environment.change("web", &affinity).await?;
    let told = environment.event("SyncLoadBalancerFailed").await?;
    assert!(told.contains("no affinity here"), "{told}");
    assert!(
        !told.contains(&mirror) && !told.contains("no-affinity-"),
        "{told}"
    );

    environment.worker("b", &["10.5.0.2"]).await?;
    environment
        .ready(&mirror, &["10.5.0.1", "10.5.0.2"])
        .await?;
    environment
        .allocate(&mirror, &json!([{ "ip": "192.0.2.10" }]))
        .await?;
    environment.addresses("web", &["192.0.2.10"]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_families_that_only_the_management_cluster_has_are_not_asked_for() -> Result<()> {
    let Some(environment) = Environment::of_two_families("families").await? else {
        return Ok(());
    };
    let _ccm = Ccm::start(&environment)?;
    environment.worker("a", &["10.5.0.1"]).await?;
    let prefer = json!({ "ipFamilyPolicy": "PreferDualStack" });
    let service = environment.service("web", &prefer).await?;
    let mirror = environment.mirror_name(&service);
    environment.ready(&mirror, &["10.5.0.1"]).await?;
    let spec = environment.mirror(&service, |_| true).await?.spec.unwrap();
    assert_eq!(spec.ip_families, Some(vec!["IPv4".to_owned()]));
    environment
        .allocate(&mirror, &json!([{ "ip": "192.0.2.10" }]))
        .await?;
    environment.addresses("web", &["192.0.2.10"]).await?;
    let later = json!({ "spec": { "sessionAffinity": "ClientIP" } });
    environment.change("web", &later).await?;
    let follows = |m: &k8s_openapi::api::core::v1::Service| {
        let spec = m.spec.as_ref();
        spec.and_then(|s| s.session_affinity.as_deref()) == Some("ClientIP")
    };
    environment.mirror(&service, follows).await.map(drop)
}
