//! People with tokens, and what they look at: for tests of pages against a real API server.
//!
//! Invariant: each person is a ServiceAccount in a namespace of the test's own, with one Role there or none.

#![allow(dead_code)] // each test uses a part of it

use anyhow::{Context as _, Result};
use api::{NodePool, TenantCluster};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::apiserver::ManagementApi;
use testkit::fixtures::{self, wait_allowed};

/// The verbs of who may only look.
pub(crate) const VIEW: &[&str] = &["get", "list", "watch"];
/// The verbs of who may do anything.
pub(crate) const EDIT: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// A token of a person of this name, who may do `verbs` with objects of Covey in the namespace.
pub(crate) async fn person(
    api: &ManagementApi,
    namespace: &str,
    name: &str,
    verbs: &[&str],
) -> Result<String> {
    let (client, create) = (api.admin()?, PostParams::default());
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let account = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    accounts.create(&create, &account).await?;
    if !verbs.is_empty() {
        let roles: Api<Role> = Api::namespaced(client.clone(), namespace);
        let rules = json!([{"apiGroups": ["covey.dev"], "resources": ["*"], "verbs": verbs},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]}]);
        let role = serde_json::from_value(json!({"metadata": {"name": name}, "rules": rules}))?;
        roles.create(&create, &role).await?;
        let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
        let binding = json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]});
        bindings
            .create(&create, &serde_json::from_value(binding)?)
            .await?;
        let user = user(namespace, name);
        let (resource, verb) = ("covey.dev/tenantclusters", verbs[verbs.len() - 1]);
        wait_allowed(&client, &user, verb, resource, Some(namespace)).await?;
    }
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(3600),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(name, &create, &request)
        .await?;
    Ok(answer.status.context("no token was given")?.token)
}

/// As whom the API knows a person.
pub(crate) fn user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-27T11:00:00Z", "observedGeneration": 1})
}

/// A TenantCluster of this name that says it is ready, or what is wrong with its addons; with a pool.
pub(crate) async fn seeded(
    client: &Client,
    namespace: &str,
    name: &str,
    is_ready: bool,
) -> Result<()> {
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
    let create = PostParams::default();
    clusters
        .create(&create, &fixtures::minimal(namespace, name))
        .await?;
    let pools: Api<NodePool> = Api::namespaced(client.clone(), namespace);
    let pool = json!({"apiVersion": "covey.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": format!("{name}-workers")},
        "spec": {"clusterName": name, "replicas": 2, "provider": {"kubevirt": {}}}});
    pools
        .create(&create, &serde_json::from_value(pool)?)
        .await?;
    say(client, namespace, name, is_ready).await
}

/// Has a TenantCluster say that it is ready, or what is wrong with its addons.
pub(crate) async fn say(
    client: &Client,
    namespace: &str,
    name: &str,
    is_ready: bool,
) -> Result<()> {
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
    let conditions = match is_ready {
        true => json!([
            condition("EtcdReady", "True", "MembersReady", ""),
            condition("Ready", "True", "ApiAnswers", ""),
        ]),
        false => json!([
            condition(
                "CoreDNSReady",
                "False",
                "PodsNotReady",
                "0 of 2 pods are ready"
            ),
            condition("EtcdReady", "True", "MembersReady", ""),
            condition(
                "Ready",
                "False",
                "AddonsNotReady",
                "coreDNS: 0 of 2 pods are ready"
            ),
        ]),
    };
    let space = format!("covey-{name}-0a1b2c3d11");
    let status = json!({"status": {"observedGeneration": 1, "version": "1.35.4", "namespace": space,
        "endpoint": {"host": "10.96.3.7", "port": 6443}, "conditions": conditions}});
    let params = PatchParams::default();
    clusters
        .patch_status(name, &params, &Patch::Merge(&status))
        .await?;
    Ok(())
}
