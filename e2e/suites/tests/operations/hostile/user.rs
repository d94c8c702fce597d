//! Needs: operator
//!
//! A user who may do everything with TenantClusters, their status too, and NodePools of one namespace, gets
//! nothing else by them: what would steer the management cluster is refused with the setting that would allow
//! it, and in the end the user may do what it could do before (findings S3, S9, S12, S13).

use anyhow::{Context as _, Result, bail, ensure};
use api::{Host, NodePool, TenantCluster, TenantClusterSpec};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::{Value, json};
use suites::cluster::{Tenant, credentials};
use suites::refusals;
use suites::scenario::{self, PATIENCE, Scenario};

#[tokio::test]
async fn user_of_two_kinds_gets_nothing_else_by_them() {
    scenario::run("hostile-user", user).await;
}

async fn user(s: &Scenario) -> Result<()> {
    let client = who(s).await?;
    let before = rights(&client, &s.namespace).await?;
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), &s.namespace);
    let pools: Api<NodePool> = Api::namespaced(client.clone(), &s.namespace);

    // What the user is there for works, and the tenant cluster is real.
    let spec = TenantClusterSpec {
        version: scenario::VERSION.to_owned(),
        ..TenantClusterSpec::default()
    };
    let mut tenant = Tenant::create(&client, &s.namespace, "good", spec).await?;
    tenant.management = s.client().clone();
    tenant.settled(PATIENCE).await?;

    for (number, row) in refusals::of_clusters().into_iter().enumerate() {
        let spec = row.merged_into(json!({ "version": scenario::VERSION }));
        let name = format!("bad-{number}");
        refused(
            create(&clusters, "TenantCluster", &name, &spec).await,
            &row.spec,
            &[row.says],
        )?;
        // Nor on the way of a change of what serves, of which some can be changed by nobody.
        let change = Patch::Merge(json!({ "spec": row.spec }));
        let changed = clusters
            .patch("good", &PatchParams::default(), &change)
            .await;
        refused(changed.map(drop), &row.spec, &[row.says, "cannot"])?;
    }
    for (number, row) in refusals::of_pools().into_iter().enumerate() {
        let spec = row.merged_into(json!({ "clusterName": "good", "replicas": 0,
            "provider": { "kubevirt": { "cpu": 1, "memory": "1Gi" } } }));
        let name = format!("bad-{number}");
        refused(
            create(&pools, "NodePool", &name, &spec).await,
            &row.spec,
            &[row.says],
        )?;
    }
    let hosts: Api<Host> = Api::namespaced(client.clone(), &s.namespace);
    for (number, row) in refusals::of_hosts().into_iter().enumerate() {
        let spec = row.merged_into(refusals::good_host());
        let name = format!("bad-{number}");
        refused(
            create(&hosts, "Host", &name, &spec).await,
            &row.spec,
            &[row.says],
        )?;
    }

    // What is the operator's alone: the status, and the finalizer.
    let status = Patch::Merge(json!({ "status": { "version": "1.30.0" } }));
    let written = clusters
        .patch_status("good", &PatchParams::default(), &status)
        .await;
    forbidden(written.map(drop), "its status")?;
    let finalizers = Patch::Merge(json!({ "metadata": { "finalizers": [] } }));
    let taken = clusters
        .patch("good", &PatchParams::default(), &finalizers)
        .await;
    forbidden(taken.map(drop), "without its finalizer")?;

    // What a tenant cluster made for the user does not lead to more.
    let inside = tenant.tenant_namespace();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &inside);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &inside);
    let all = ListParams::default();
    forbidden(pods.list(&all).await.map(drop), "pods of the control plane")?;
    forbidden(secrets.list(&all).await.map(drop), "keys of the tenant")?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    forbidden(
        namespaces.list(&all).await.map(drop),
        "names of all namespaces",
    )?;
    let after = rights(&client, &s.namespace).await?;
    ensure!(
        before == after,
        "the user may do something else now: {before} and then {after}"
    );
    ensure!(
        rights(&client, &inside).await? == rights(&client, "default").await?,
        "the user may do something in the tenant namespace"
    );
    let there = clusters.list(&all).await?;
    ensure!(there.items.len() == 1, "something bad was made: {there:?}");
    Ok(())
}

/// A ServiceAccount with the rights on these kinds and no others, and its client.
async fn who(s: &Scenario) -> Result<Client> {
    let params = PostParams::default();
    let accounts: Api<ServiceAccount> = Api::namespaced(s.client().clone(), &s.namespace);
    let account = json!({ "metadata": { "name": "user" } });
    accounts
        .create(&params, &serde_json::from_value(account)?)
        .await?;
    let role: Role = serde_json::from_value(json!({
        "metadata": { "name": "user" },
        "rules": [
            { "apiGroups": ["covey.dev"], "resources": ["tenantclusters"], "verbs": ["*"] },
            { "apiGroups": ["covey.dev"], "resources": ["hosts", "nodepools"], "verbs": ["*"] },
            { "apiGroups": ["covey.dev"], "resources": ["tenantclusters/status"],
                "verbs": ["patch", "update"] },
        ],
    }))?;
    let roles: Api<Role> = Api::namespaced(s.client().clone(), &s.namespace);
    roles.create(&params, &role).await?;
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "user" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "user" },
        "subjects": [{ "kind": "ServiceAccount", "name": "user", "namespace": s.namespace }],
    }))?;
    let bindings: Api<RoleBinding> = Api::namespaced(s.client().clone(), &s.namespace);
    bindings.create(&params, &binding).await?;
    let request: TokenRequest = serde_json::from_value(json!({ "spec": { "audiences": [] } }))?;
    let token = accounts
        .create_token_request("user", &params, &request)
        .await?;
    let token = token.status.context("no token")?.token;
    let kubeconfig = Kubeconfig::read_from(s.management.layout.kubeconfig())?;
    let mut kubeconfig = serde_json::to_value(kubeconfig)?;
    kubeconfig["users"][0]["user"] = json!({ "token": token });
    credentials::from_kubeconfig(serde_json::from_value(kubeconfig)?).await
}

async fn create<K>(api: &Api<K>, kind: &str, name: &str, spec: &Value) -> Result<(), kube::Error>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let object = json!({ "apiVersion": "covey.dev/v1alpha1", "kind": kind,
        "metadata": { "name": name }, "spec": spec });
    let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
    api.create(&PostParams::default(), &object).await.map(drop)
}

/// By admission, with a sentence that has one of these: what would allow it, or that nothing does.
fn refused(answer: Result<(), kube::Error>, asked: &Value, either: &[&str]) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            let said = &status.message;
            ensure!(
                either.iter().any(|text| said.contains(text)),
                "{asked}: {said}"
            );
            Ok(())
        }
        other => bail!("{asked} is not refused: {other:?}"),
    }
}

fn forbidden(answer: Result<(), kube::Error>, what: &str) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 422) => Ok(()),
        other => bail!("the user gets {what}: {other:?}"),
    }
}

/// What the user may do in a namespace, as `kubectl auth can-i --list` says it.
async fn rights(client: &Client, namespace: &str) -> Result<Value> {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec {
            namespace: Some(namespace.to_owned()),
        },
        ..SelfSubjectRulesReview::default()
    };
    let reviews = Api::all(client.clone());
    let answer: SelfSubjectRulesReview = reviews.create(&PostParams::default(), &review).await?;
    let status = answer.status.context("no answer")?;
    // Rules come in no order.
    let mut rules: Vec<_> = status
        .resource_rules
        .iter()
        .map(|rule| json!(rule))
        .chain(status.non_resource_rules.iter().map(|rule| json!(rule)))
        .collect();
    rules.sort_by_key(Value::to_string);
    rules.dedup();
    Ok(Value::Array(rules))
}
