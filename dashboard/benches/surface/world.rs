//! A management API that is real, with tenant clusters that say what the bench wrote into their statuses.
//!
//! Invariant: nobody reconciles anything, so what changes is what the bench changes.

use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use api::{Machine, NodePool, TenantCluster, names};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use testkit::ManagementApi;
use testkit::fixtures::{self, PATIENCE, ask_until, minimal};
use testkit::process::Workdir;

/// Namespace of the tenant clusters.
pub(crate) const TEAM: &str = "team";
/// Who sits at the command line.
pub(crate) const JANE: &str = "jane";
/// The tenant cluster with machines.
pub(crate) const DEMO: &str = "demo";
const FIELD_MANAGER: &str = "bench";
/// So many are made at a time.
const AT_ONCE: usize = 32;
/// Conditions of a tenant cluster that is well, in the order in which they stand in its status.
const WELL: [(&str, &str); 8] = [
    ("CertificatesReady", "CertificatesValid"),
    ("ControlPlaneReady", "PodsReady"),
    ("CoreDNSReady", "PodsReady"),
    ("EndpointReady", "AddressAssigned"),
    ("EtcdReady", "MembersReady"),
    ("KonnectivityReady", "PodsReady"),
    ("KubeProxyReady", "PodsReady"),
    ("Ready", "ApiAnswers"),
];
/// Pods of its tenant namespace.
const PARTS: [&str; 6] = [
    "control-plane-0",
    "control-plane-1",
    "controllers-0",
    "etcd-0",
    "etcd-1",
    "etcd-2",
];

/// The API; everything ends with it.
pub(crate) struct World {
    pub(crate) admin: Client,
    /// Of [`JANE`], who may do anything.
    pub(crate) kubeconfig: PathBuf,
    // Last: the servers end, then the folder goes.
    pub(crate) api: ManagementApi,
    pub(crate) dir: Workdir,
}

impl World {
    /// Starts it.
    pub(crate) async fn start() -> Result<Self> {
        let Some(api) = ManagementApi::start().await? else {
            bail!("the programs of the lab are missing: `cargo run -p lab --example programs`")
        };
        api.install_kinds().await?;
        let (admin, dir) = (api.admin()?, Workdir::new()?);
        let kubeconfig = api.kubeconfig_as(JANE, &["system:masters"])?;
        let kubeconfig = dir.write("jane.kubeconfig", &kubeconfig)?;
        let world = Self {
            admin,
            kubeconfig,
            api,
            dir,
        };
        world.namespace(TEAM, json!({})).await?;
        let rules = json!([
            { "apiGroups": ["covey.dev"], "resources": ["*"], "verbs": ["get", "list", "watch", "patch"] },
            { "apiGroups": [""], "resources": ["events"], "verbs": ["list"] },
        ]);
        world
            .apply(&json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": { "name": "people" }, "rules": rules,
            }))
            .await?;
        Ok(world)
    }

    async fn apply(&self, object: &Value) -> Result<()> {
        kit_client::write::apply(&self.admin, object, FIELD_MANAGER, true).await?;
        Ok(())
    }

    async fn namespace(&self, name: &str, labels: Value) -> Result<()> {
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels },
        }))
        .await
    }

    fn tenant_clusters(&self) -> Api<TenantCluster> {
        Api::namespaced(self.admin.clone(), TEAM)
    }

    /// The tenant cluster [`DEMO`] with a pool of so many machines, and pods in its tenant namespace.
    pub(crate) async fn demo(&self, machines: usize) -> Result<()> {
        let uid = self.cluster(DEMO).await?;
        let pool = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool", "metadata": { "name": "demo-workers" },
            "spec": { "clusterName": DEMO, "replicas": machines, "provider": { "kubevirt": {} } },
        });
        let pools: Api<NodePool> = Api::namespaced(self.admin.clone(), TEAM);
        let create = PostParams::default();
        pools
            .create(&create, &serde_json::from_value(pool)?)
            .await?;
        let all: Api<Machine> = Api::namespaced(self.admin.clone(), TEAM);
        let machine = |number: usize| {
            let (all, uid, create) = (all.clone(), uid.clone(), create.clone());
            async move {
                let name = format!("demo-workers-{number:05}");
                let machine = json!({
                    "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
                    "metadata": { "name": name, "labels": { names::LABEL_NODE_POOL: "demo-workers" } },
                    "spec": {
                        "clusterName": DEMO, "clusterUID": uid, "poolName": "demo-workers",
                        "version": fixtures::VERSION, "provider": { "kubevirt": {} },
                    },
                });
                all.create(&create, &serde_json::from_value(machine)?)
                    .await?;
                let status = json!({ "status": {
                    "phase": "Running", "conditions": [condition("Ready", "NodeReady")],
                }});
                let params = PatchParams::default();
                all.patch_status(&name, &params, &Patch::Merge(&status))
                    .await?;
                anyhow::Ok(())
            }
        };
        stream::iter((0..machines).map(machine))
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;

        let space = names::tenant_namespace(DEMO, &uid);
        self.namespace(&space, json!({ names::LABEL_TENANT_UID: uid }))
            .await?;
        // Without its ServiceAccount, which a controller makes, a pod is refused.
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default", "namespace": space },
        });
        self.apply(&account).await?;
        for part in PARTS {
            let component = part.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
            self.apply(&json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": part, "namespace": space, "labels": { names::LABEL_COMPONENT: component } },
                "spec": { "automountServiceAccountToken": false, "containers": [{ "name": component, "image": component }] },
            }))
            .await?;
        }
        Ok(())
    }

    /// More tenant clusters, by number.
    pub(crate) async fn clusters(&self, numbers: Range<usize>) -> Result<()> {
        let each = numbers.map(|number| async move { self.cluster(&name(number)).await.map(drop) });
        stream::iter(each)
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await
    }

    /// One that is well; gives its UID.
    async fn cluster(&self, name: &str) -> Result<String> {
        let (clusters, create) = (self.tenant_clusters(), PostParams::default());
        let made = Box::pin(clusters.create(&create, &minimal(TEAM, name))).await;
        let made = made.with_context(|| format!("create {name}"))?;
        let uid = made.uid().context("invariant: what was made has a UID")?;
        let conditions: Vec<_> = WELL
            .iter()
            .map(|(type_, why)| condition(type_, why))
            .collect();
        let status = json!({ "status": {
            "observedGeneration": 1, "version": fixtures::VERSION,
            "namespace": names::tenant_namespace(name, &uid),
            "endpoint": { "host": "10.96.3.7", "port": 6443 }, "conditions": conditions,
        }});
        let params = PatchParams::default();
        let told = Box::pin(clusters.patch_status(name, &params, &Patch::Merge(&status))).await;
        told.with_context(|| format!("write the status of {name}"))?;
        Ok(uid)
    }

    /// The UID of [`DEMO`].
    pub(crate) async fn uid(&self) -> Result<String> {
        let demo = Box::pin(self.tenant_clusters().get(DEMO)).await?;
        demo.uid().context("invariant: what is there has a UID")
    }

    /// Tokens of so many people, in namespaces of ten, who may look at everything and change tenant clusters.
    pub(crate) async fn people(&self, prefix: &str, people: usize) -> Result<Vec<String>> {
        let mut tokens = Vec::new();
        for number in 0..people {
            let namespace = format!("{prefix}-{}", number / PARTY);
            if number % PARTY == 0 {
                self.party(&namespace).await?;
            }
            tokens.push(self.person(&namespace, &format!("person-{number}")).await?);
        }
        Ok(tokens)
    }

    async fn party(&self, namespace: &str) -> Result<()> {
        let group = format!("system:serviceaccounts:{namespace}");
        self.namespace(namespace, json!({})).await?;
        self.apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": format!("people-{namespace}") },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "people" },
            "subjects": [{
                "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": &group,
            }],
        }))
        .await?;
        // The authorizer knows a binding a moment after it was written.
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("{PEOPLE}{namespace}:anybody")),
                groups: Some(vec![group]),
                resource_attributes: Some(ResourceAttributes {
                    group: Some("covey.dev".to_owned()),
                    resource: Some("tenantclusters".to_owned()),
                    verb: Some("patch".to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.admin.clone());
        ask_until("people are let in", PATIENCE, || async {
            let answer = reviews.create(&PostParams::default(), &review).await?;
            let is_allowed = answer.status.is_some_and(|status| status.allowed);
            Ok(if is_allowed {
                Ok(())
            } else {
                Err("refused".to_owned())
            })
        })
        .await
    }

    async fn person(&self, namespace: &str, name: &str) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), namespace);
        let account = json!({ "metadata": { "name": name } });
        let create = PostParams::default();
        accounts
            .create(&create, &serde_json::from_value(account)?)
            .await?;
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(7200),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &create, &request)
            .await?;
        Ok(answer.status.context("no token was given")?.token)
    }
}

/// The most people of one party whom the dashboard lets in at once ([`dashboard::sessions::MOST_OF_PARTY`]).
const PARTY: usize = dashboard::sessions::MOST_OF_PARTY;
/// What the names of people begin with.
pub(crate) const PEOPLE: &str = "system:serviceaccount:";

/// What a tenant cluster of a number is called. Those of the first numbers stand on the first page of a list, before
/// [`DEMO`].
pub(crate) fn name(number: usize) -> String {
    format!("cluster-{number:04}")
}

fn condition(type_: &str, reason: &str) -> Value {
    json!({
        "type": type_, "status": "True", "reason": reason, "message": "",
        "lastTransitionTime": "2026-11-27T11:00:00Z", "observedGeneration": 1,
    })
}
