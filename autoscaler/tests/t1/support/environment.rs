//! A user's namespace in a management API, and a tenant cluster's API.
//!
//! Invariant: nobody else has the management user of an environment, so its audit
//! entries are this environment's alone.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::{Machine, NodePool, names};
use autoscaler::settings::Settings;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::core::v1::Node;
use kit_objects::rbac::Rule;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::ManagementApi;
use testkit::fixtures::{wait_allowed, wait_allowed_to, wait_for};

use super::PATIENCE;
use super::certs::Authority;

/// Name of the TenantCluster.
pub(crate) const CLUSTER: &str = "demo";

/// One tenant cluster.
pub(crate) struct Environment {
    pub(crate) management: Arc<ManagementApi>,
    pub(crate) tenant: Arc<ManagementApi>,
    /// Has every right in the management cluster.
    pub(crate) admin: Client,
    /// Has every right in the tenant cluster.
    pub(crate) inside: Client,
    /// The user's namespace.
    pub(crate) ns: String,
    pub(crate) uid: String,
    pub(crate) authority: Authority,
}

impl Environment {
    /// A new one in an API that tests share, which is the tenant's, too; `None`, loudly, when the programs
    /// are missing.
    pub(crate) async fn new(prefix: &str) -> Result<Option<Self>> {
        let Some(both) = ManagementApi::bare().await? else {
            return Ok(None);
        };
        Self::on(prefix, Arc::clone(both), Arc::clone(both))
            .await
            .map(Some)
    }

    /// A new one whose tenant API nobody else uses.
    pub(crate) async fn with_nodes(prefix: &str) -> Result<Option<Self>> {
        let Some(management) = ManagementApi::bare().await? else {
            return Ok(None);
        };
        let Some(tenant) = ManagementApi::alone().await? else {
            return Ok(None);
        };
        Self::on(prefix, Arc::clone(management), Arc::new(tenant))
            .await
            .map(Some)
    }

    /// A new one with two servers that a test may stop.
    pub(crate) async fn alone(prefix: &str) -> Result<Option<Self>> {
        let Some(management) = ManagementApi::start().await? else {
            return Ok(None);
        };
        management.install_crds().await?;
        let tenant = ManagementApi::start().await?;
        let tenant = tenant.context("the programs were there a moment ago")?;
        Self::on(prefix, Arc::new(management), Arc::new(tenant))
            .await
            .map(Some)
    }

    async fn on(
        prefix: &str,
        management: Arc<ManagementApi>,
        tenant: Arc<ManagementApi>,
    ) -> Result<Self> {
        kit_client::crypto::install_crypto();
        let environment = Self {
            admin: management.admin()?,
            inside: tenant.admin()?,
            ns: management.namespace(prefix).await?,
            uid: testkit::names::uid(),
            authority: Authority::new()?,
            management,
            tenant,
        };
        environment.bind().await?;
        Ok(environment)
    }

    async fn bind(&self) -> Result<()> {
        let (user, ns) = (self.user(), self.ns.as_str());
        let outside = autoscaler::rbac::management();
        grant(&self.admin, Some(ns), &user, &outside).await?;
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": names::PRIORITY_EXPANDER, "namespace": "kube-system" },
        });
        let (content, make) = (map.to_string(), apply(&self.inside, &map));
        self.tenant.once("priorities", &content, make).await?;
        let (system, name) = (autoscaler::rbac::kube_system(), self.tenant_user());
        grant(&self.inside, Some("kube-system"), &name, &system).await?;
        let everywhere = autoscaler::rbac::tenant();
        grant(&self.inside, None, &name, &everywhere).await?;
        self.wait_granted().await
    }

    /// Waits until each of the grants is known to the authorizer, and that the next one is does not say.
    async fn wait_granted(&self) -> Result<()> {
        let (user, name) = (self.user(), self.tenant_user());
        let (pools, ns) = ("covey.dev/nodepools", Some(self.ns.as_str()));
        wait_allowed(&self.admin, &user, "patch", pools, ns).await?;
        let priorities = ResourceAttributes {
            verb: Some("patch".to_owned()),
            resource: Some("configmaps".to_owned()),
            name: Some(names::PRIORITY_EXPANDER.to_owned()),
            namespace: Some("kube-system".to_owned()),
            ..ResourceAttributes::default()
        };
        wait_allowed_to(&self.inside, &name, &priorities).await?;
        wait_allowed(&self.inside, &name, "list", "nodes", None).await
    }

    /// The adapter's user in the management cluster.
    pub(crate) fn user(&self) -> String {
        format!("autoscaler-{}", self.uid)
    }

    /// The adapter's user in the tenant cluster.
    pub(crate) fn tenant_user(&self) -> String {
        format!("covey-autoscaler-{}", self.uid)
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            namespace: "covey-demo-0123456789".to_owned(),
            user_namespace: self.ns.clone(),
            cluster_name: CLUSTER.to_owned(),
            cluster_uid: self.uid.clone(),
            ..Settings::default()
        }
    }

    pub(crate) fn pools(&self) -> Api<NodePool> {
        Api::namespaced(self.admin.clone(), &self.ns)
    }

    pub(crate) fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.admin.clone(), &self.ns)
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.inside.clone())
    }

    /// A name of a pool that no other test has: nodes are called after it.
    pub(crate) fn pool_name(&self, prefix: &str) -> String {
        self.management.name(prefix)
    }

    /// Makes a pool of nodes with two processors; gives its name.
    pub(crate) async fn pool(
        &self,
        prefix: &str,
        replicas: i32,
        autoscaling: &Value,
    ) -> Result<String> {
        let name = self.pool_name(prefix);
        self.pool_named(&name, replicas, autoscaling).await?;
        Ok(name)
    }

    /// The same with a name that was chosen before.
    pub(crate) async fn pool_named(
        &self,
        name: &str,
        replicas: i32,
        autoscaling: &Value,
    ) -> Result<()> {
        let pool: NodePool = serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool", "metadata": { "name": name },
            "spec": {
                "clusterName": CLUSTER, "replicas": replicas, "autoscaling": autoscaling,
                "provider": { "kubevirt": { "cpu": 2, "memory": "4Gi" } },
            },
        }))?;
        self.pools().create(&PostParams::default(), &pool).await?;
        Ok(())
    }

    /// Merges a change into a pool, as `kubectl patch` does.
    pub(crate) async fn change(&self, pool: &str, patch: &Value) -> Result<()> {
        let params = PatchParams::default();
        let pools = self.pools();
        pools.patch(pool, &params, &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Waits until a pool is as wanted.
    pub(crate) async fn until(
        &self,
        pool: &str,
        mut wanted: impl FnMut(&NodePool) -> bool,
    ) -> Result<NodePool> {
        let pools = self.pools();
        let found = wait_for(&pools, pool, |p| p.is_some_and(&mut wanted), PATIENCE);
        found.await?.context("invariant: it was just seen")
    }

    /// Waits until a node is as wanted.
    pub(crate) async fn until_node(
        &self,
        name: &str,
        mut wanted: impl FnMut(&Node) -> bool,
    ) -> Result<Node> {
        let nodes = self.nodes();
        let found = wait_for(&nodes, name, |n| n.is_some_and(&mut wanted), PATIENCE);
        found.await?.context("invariant: it was just seen")
    }
}

/// Applies any object in the name of the tests.
async fn apply(client: &Client, object: &Value) -> Result<()> {
    kit_client::write::apply(client, object, "t1", true).await?;
    Ok(())
}

async fn grant(client: &Client, namespace: Option<&str>, user: &str, rules: &[Rule]) -> Result<()> {
    let group = "rbac.authorization.k8s.io";
    let kind = match namespace {
        Some(_) => "Role",
        None => "ClusterRole",
    };
    let mut meta = json!({ "name": user });
    if let Some(namespace) = namespace {
        meta["namespace"] = json!(namespace);
    }
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": meta,
        "rules": kit_objects::rbac::render(rules),
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": format!("{kind}Binding"), "metadata": meta,
        "roleRef": { "apiGroup": group, "kind": kind, "name": user },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": user }],
    });
    apply(client, &role).await?;
    apply(client, &binding).await
}
