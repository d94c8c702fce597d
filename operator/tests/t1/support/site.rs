//! One installation of Covey in the shared management API.
//!
//! Invariant: the operator's user has exactly the rights of [`operator::rbac`], bound as the chart
//! binds them, and nobody else has that user; so its audit entries are this site's alone.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::TenantCluster;
use api::storage::Offer;
use ipnet::IpNet;
use kit_client::untyped;
use kit_objects::rbac::Rule;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, Config, ResourceExt};
use operator::tenant_session::session::Dial;
use serde_json::{Value, json};
use tenant_cp::Settings;
use tenant_cp::settings::{EndpointPolicy, NetworkSettings, Prefixes};
use testkit::fakes::kubelet::Extras;
use testkit::fixtures::{self, ask_until, minimal, wait_for};
use testkit::{FakeKubelet, ManagementApi, Scope, TenantApis};

use super::PATIENCE;
pub(crate) use testkit::fixtures::{is_settled, tenant_namespace};

const SERVICE_ACCOUNT: &str = "covey-operator";
/// What is configured of the management cluster's ranges, of which there is nothing here.
const RESERVED: IpNet = IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 0)), 24);

/// One installation; the stand-ins end with it, objects stay.
pub(crate) struct Site {
    pub(crate) api: &'static ManagementApi,
    /// Has every right.
    pub(crate) admin: Client,
    /// The user's namespace.
    pub(crate) users: String,
    /// The operator's own namespace.
    pub(crate) system: String,
    pub(crate) tenants: Arc<TenantApis>,
    pub(crate) kubelet: FakeKubelet,
    /// Storage that is offered to tenant clusters; none at first.
    pub(crate) storage: Offer,
}

/// The management API of all tests, with the operator's roles.
async fn shared() -> Result<Option<&'static ManagementApi>> {
    let Some(api) = ManagementApi::shared().await? else {
        return Ok(None);
    };
    let roles = [
        ("covey-operator", ::operator::rbac::cluster()),
        (
            ::operator::rbac::TENANT_NAMESPACE_ROLE,
            ::operator::rbac::tenant_namespace(),
        ),
        (
            ::operator::rbac::USER_NAMESPACE_ROLE,
            ::operator::rbac::user_namespace(),
        ),
        (
            ::operator::rbac::STANDBY_ROLE,
            ::operator::rbac::standby_namespace(),
        ),
        (
            "covey-operator-system",
            ::operator::rbac::system_namespace(),
        ),
    ];
    let roles: Vec<Value> = roles
        .iter()
        .map(|(name, rules)| role(name, rules))
        .collect();
    let admin = api.admin()?;
    let install = async {
        for role in &roles {
            apply(&admin, role).await?;
        }
        Ok(())
    };
    api.once("operator-roles", &json!(roles).to_string(), install)
        .await?;
    Ok(Some(api))
}

fn role(name: &str, rules: &[Rule]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name }, "rules": kit_objects::rbac::render(rules),
    })
}

/// Applies any object in the name of the tests.
pub(crate) async fn apply(client: &Client, object: &Value) -> Result<DynamicObject> {
    Ok(kit_client::write::apply(client, object, "t1", true).await?)
}

impl Site {
    /// A new one; `None`, loudly, when the programs are missing.
    pub(crate) async fn new(prefix: &str) -> Result<Option<Self>> {
        let Some(api) = shared().await? else {
            return Ok(None);
        };
        let users = api.namespace(prefix).await?;
        Self::on(api, users, Extras::all()).await.map(Some)
    }

    /// One where somebody else plays the members of etcd.
    pub(crate) async fn without_etcd(prefix: &str) -> Result<Option<Self>> {
        let Some(api) = shared().await? else {
            return Ok(None);
        };
        let users = api.namespace(prefix).await?;
        let extras = Extras {
            without_etcd: true,
            ..Extras::all()
        };
        Self::on(api, users, extras).await.map(Some)
    }

    /// One whose user's namespace has just this name, which nobody else may use
    /// ([`testkit::names::unique`]).
    pub(crate) async fn named(users: &str) -> Result<Option<Self>> {
        let Some(api) = shared().await? else {
            return Ok(None);
        };
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": users },
        });
        apply(&api.admin()?, &namespace).await?;
        Self::on(api, users.to_owned(), Extras::all())
            .await
            .map(Some)
    }

    /// One whose user's namespace is that of control planes that wait, where the operator may make and delete
    /// TenantClusters, as the chart lets it.
    pub(crate) async fn with_standby(prefix: &str) -> Result<Option<Self>> {
        let Some(api) = shared().await? else {
            return Ok(None);
        };
        let system = api.namespace(prefix).await?;
        let users = format!("{system}-standby");
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": users },
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": "covey-standby", "namespace": users },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ::operator::rbac::STANDBY_ROLE },
            "subjects": [{ "kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": system }],
        });
        for object in [namespace, binding] {
            apply(&api.admin()?, &object).await?;
        }
        Self::of(api, users, system, Extras::all()).await.map(Some)
    }

    async fn on(api: &'static ManagementApi, users: String, extras: Extras) -> Result<Self> {
        let system = api.namespace(&format!("{users}-system")).await?;
        Self::of(api, users, system, extras).await
    }

    async fn of(
        api: &'static ManagementApi,
        users: String,
        system: String,
        extras: Extras,
    ) -> Result<Self> {
        kit_client::crypto::install_crypto();
        log();
        let admin = api.admin()?;
        let scope = Scope::of(&users);
        let site = Self {
            api,
            tenants: Arc::new(TenantApis::start(&admin, &scope, fixtures::VERSION)),
            kubelet: FakeKubelet::start(&admin, &scope, extras),
            storage: Offer::default(),
            admin,
            users,
            system,
        };
        site.bind().await?;
        Ok(site)
    }

    async fn bind(&self) -> Result<()> {
        let bind = |kind: &str, role: &str| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                "metadata": { "name": format!("{}-{role}", self.system) },
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role,
                },
                "subjects": [{
                    "kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": self.system,
                }],
            })
        };
        apply(&self.admin, &bind("ClusterRoleBinding", "covey-operator")).await?;
        let mut own = bind("RoleBinding", "covey-operator-system");
        own["metadata"]["namespace"] = json!(self.system);
        apply(&self.admin, &own).await?;
        let (admin, user) = (&self.admin, self.user());
        fixtures::wait_allowed(admin, &user, "list", "services", None).await?;
        fixtures::wait_allowed(admin, &user, "create", "secrets", Some(&self.system)).await
    }

    /// Whose tenant clusters the fakes play.
    pub(crate) fn scope(&self) -> Scope {
        Scope::of(&self.users)
    }

    /// The operator's user.
    pub(crate) fn user(&self) -> String {
        format!("system:serviceaccount:{}:{SERVICE_ACCOUNT}", self.system)
    }

    /// How the operator of this site is configured.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            operator_namespace: self.system.clone(),
            allowed_registries: Prefixes(vec!["mirror.example.com".to_owned()]),
            endpoint: EndpointPolicy {
                annotations: vec!["example.com/".to_owned()],
                classes: vec!["example.com/balancer".to_owned()],
                ..EndpointPolicy::default()
            },
            etcd_storage_classes: vec!["fast".to_owned(), "slow".to_owned()],
            storage: self.storage.clone(),
            // Nodes and ServiceCIDRs are there where a test plays them.
            network: NetworkSettings {
                reserved: vec![RESERVED],
                ..NetworkSettings::default()
            },
            ..Settings::default()
        }
    }

    /// The operator's way to the management API.
    pub(crate) fn config(&self) -> Result<Config> {
        self.api
            .config_as(&self.user(), &["system:serviceaccounts"])
    }

    /// The operator's way to tenants.
    pub(crate) fn dial(&self) -> Dial {
        let dial = self.tenants.dialer();
        Arc::new(move |namespace: &str, address: SocketAddr| dial(namespace, address))
    }

    pub(crate) fn clusters(&self) -> Api<TenantCluster> {
        Api::namespaced(self.admin.clone(), &self.users)
    }

    /// Any kind, in any namespace (none: cluster-scoped).
    pub(crate) fn objects(
        &self,
        kind: kit_objects::kinds::Kind,
        namespace: &str,
    ) -> Api<DynamicObject> {
        untyped::of(kind, &self.admin, Some(namespace))
    }

    /// Creates a TenantCluster with nothing but what is required.
    pub(crate) async fn create(&self, name: &str) -> Result<TenantCluster> {
        self.create_as(&minimal(&self.users, name)).await
    }

    pub(crate) async fn create_as(&self, cluster: &TenantCluster) -> Result<TenantCluster> {
        let created = self
            .clusters()
            .create(&PostParams::default(), cluster)
            .await;
        created.with_context(|| format!("create TenantCluster {}", cluster.name_any()))
    }

    /// Merges a change into a TenantCluster, as `kubectl patch` does.
    pub(crate) async fn change(&self, name: &str, patch: &Value) -> Result<TenantCluster> {
        let params = PatchParams::default();
        Ok(self
            .clusters()
            .patch(name, &params, &Patch::Merge(patch))
            .await?)
    }

    /// Deletes a TenantCluster and returns at once.
    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        self.clusters()
            .delete(name, &DeleteParams::background())
            .await?;
        Ok(())
    }

    /// Makes a pod as the StatefulSet's controller would; nothing runs it.
    pub(crate) async fn make_pod(&self, namespace: &str, name: &str) -> Result<()> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": namespace },
            "spec": {
                "serviceAccountName": "etcd",
                "securityContext": {
                    "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" },
                },
                "containers": [{
                    "name": "etcd", "image": "example.com/etcd",
                    "securityContext": {
                        "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
                    },
                }],
            },
        });
        apply(&self.admin, &pod).await.map(drop)
    }

    /// Waits until the TenantCluster is as wanted.
    pub(crate) async fn wait(
        &self,
        name: &str,
        mut wanted: impl FnMut(&TenantCluster) -> bool,
    ) -> Result<TenantCluster> {
        let clusters = self.clusters();
        let found = wait_for(&clusters, name, |c| c.is_some_and(&mut wanted), PATIENCE);
        found.await?.context("invariant: it was just seen")
    }

    /// Waits until the newest spec is carried out and everything is up.
    pub(crate) async fn wait_ready(&self, name: &str) -> Result<TenantCluster> {
        self.wait(name, is_settled).await
    }

    /// Reconciles until the operator writes nothing meanwhile of the kinds whose names have `kind` in them. The first
    /// time it may be about to say once more what it said, by an older state of the object.
    pub(crate) async fn rests(
        &self,
        kind: &str,
        reconcile: impl AsyncFn() -> Result<()>,
    ) -> Result<()> {
        ask_until("nothing is written", PATIENCE, || async {
            let window = self.api.audit().window()?;
            reconcile().await?;
            let mut writes = window.writes_of(&self.user())?;
            writes.retain(|entry| entry.kind.contains(kind));
            Ok(match writes.is_empty() {
                true => Ok(()),
                false => Err(format!("{writes:#?}")),
            })
        })
        .await
    }
}

/// With `COVEY_LOG_FILTER` set, what the operator logs.
fn log() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if let Ok(filter) = std::env::var("COVEY_LOG_FILTER") {
            let args = kit::args::LogArgs {
                filter,
                format: kit::args::LogFormat::Text,
            };
            kit::telemetry::init(&args).expect("the filter is one");
        }
    });
}
