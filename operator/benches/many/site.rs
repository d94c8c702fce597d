//! An installation without a lab: a management API that is real, and everything else that is played.
//!
//! Invariant: the operator's user has the rights of the chart and no others.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use api::{Machine, NodePool, TenantCluster, names};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ipnet::IpNet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kit_objects::rbac::Rule;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use operator::manager::LEASE;
use operator::rbac;
use serde_json::{Value, json};
use tenant_cp::Settings;
use tenant_cp::settings::NetworkSettings;
use testkit::fakes::kubelet::Extras;
use testkit::fakes::kubevirt::{FakeKubeVirt, Guest, Selection};
use testkit::fixtures::{self, is_settled, minimal, tenant_namespace, wait_for};
use testkit::process::Workdir;
use testkit::{FakeKubelet, ManagementApi, Scope, TenantApis};

use crate::network::Relay;
use crate::process::Launch;

/// The user's namespace.
const USERS: &str = "users";
/// The operator's.
const SYSTEM: &str = "covey-system";
/// The operator's user.
pub(crate) const USER: &str = "system:serviceaccount:covey-system:covey-operator";
const ACCOUNTS: &[&str] = &["system:serviceaccounts"];
const FIELD_MANAGER: &str = "bench";
/// So many are created at a time.
const AT_ONCE: usize = 32;

/// The installation; everything ends with it.
pub(crate) struct Site {
    pub(crate) tenants: Arc<TenantApis>,
    pub(crate) relay: Relay,
    pub(crate) launch: Launch,
    admin: Client,
    patience: Duration,
    _kubelet: FakeKubelet,
    _kubevirt: FakeKubeVirt,
    // Last: the servers end, then their folder goes.
    pub(crate) api: ManagementApi,
    dir: Workdir,
}

fn role(name: &str, rules: &[Rule]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name }, "rules": kit_objects::rbac::render(rules),
    })
}

/// As the chart binds them; in all namespaces if none is named.
fn bound(role: &str, namespace: Option<&str>) -> Value {
    let mut metadata = json!({ "name": role });
    let kind = match namespace {
        Some(namespace) => {
            metadata["namespace"] = json!(namespace);
            "RoleBinding"
        }
        None => "ClusterRoleBinding",
    };
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": metadata,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role,
        },
        "subjects": [{
            "kind": "ServiceAccount", "name": "covey-operator", "namespace": SYSTEM,
        }],
    })
}

impl Site {
    /// With this program as its operator, whose log is kept there, and so much patience for each wait.
    pub(crate) async fn new(
        program: &Path,
        log: Option<&Path>,
        patience: Duration,
    ) -> Result<Self> {
        kit_client::crypto::install_crypto();
        let Some(api) = ManagementApi::start().await? else {
            bail!("the programs of the lab are missing: `cargo run -p lab --example programs`")
        };
        api.install_kinds().await?;
        let admin = api.admin()?;
        let namespace = |name: &str| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        let objects = [
            namespace(USERS),
            namespace(SYSTEM),
            role("covey-operator", &rbac::cluster()),
            role(rbac::TENANT_NAMESPACE_ROLE, &rbac::tenant_namespace()),
            role(rbac::USER_NAMESPACE_ROLE, &rbac::user_namespace()),
            role("covey-operator-system", &rbac::system_namespace()),
            bound("covey-operator", None),
            bound("covey-operator-system", Some(SYSTEM)),
        ];
        for object in &objects {
            kit_client::write::apply(&admin, object, FIELD_MANAGER, true).await?;
        }
        fixtures::wait_allowed(&admin, USER, "list", "services", None).await?;
        fixtures::wait_allowed(&admin, USER, "create", "secrets", Some(SYSTEM)).await?;

        let dir = Workdir::new()?;
        let launch = Launch {
            program: program.to_owned(),
            kubeconfig: dir.write("operator.kubeconfig", &api.kubeconfig_as(USER, ACCOUNTS)?)?,
            // JSON is YAML.
            settings: dir.write("config.yaml", &serde_json::to_string(&settings()?)?)?,
            namespace: SYSTEM.to_owned(),
            log: log.map_or_else(|| dir.path().join("operator.log"), Path::to_owned),
            rate: None,
        };
        let scope = Scope::everything();
        let tenants = TenantApis::start(&admin, &scope, fixtures::VERSION);
        let tenants = Arc::new(tenants);
        let inside = Arc::clone(&tenants);
        let selection = Selection::machines_of(&scope);
        let join = move |guest: Guest<'_>| join(&inside, guest);
        let kubevirt = FakeKubeVirt::start(&admin, &selection, join);
        Ok(Self {
            relay: Relay::start(&admin, &tenants).await?,
            tenants,
            launch,
            patience,
            _kubelet: FakeKubelet::start(&admin, &scope, Extras::all()),
            _kubevirt: kubevirt,
            admin,
            api,
            dir,
        })
    }

    /// Writes the configuration of another operator: the control plane has another image.
    pub(crate) fn other_settings(&self) -> Result<PathBuf> {
        let mut other = settings()?;
        other.images.konnectivity_server = "kas-network-proxy/proxy-server:v0.0.0".to_owned();
        self.dir
            .write("other.yaml", &serde_json::to_string(&other)?)
    }

    /// Lays a FleetPolicy by which nobody begins.
    pub(crate) async fn hold_all(&self) -> Result<()> {
        let policy = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "FleetPolicy",
            "metadata": { "name": "default" }, "spec": { "held": true },
        });
        kit_client::write::apply(&self.admin, &policy, FIELD_MANAGER, true).await?;
        Ok(())
    }

    /// Who holds the operator's Lease.
    pub(crate) async fn leader(&self) -> Result<Option<String>> {
        let leases: Api<Lease> = Api::namespaced(self.admin.clone(), SYSTEM);
        let lease = leases.get_opt(LEASE).await?;
        Ok(lease.and_then(|lease| lease.spec?.holder_identity))
    }

    /// UIDs of all pods that there are.
    pub(crate) async fn pods(&self) -> Result<BTreeSet<String>> {
        let pods: Api<Pod> = Api::all(self.admin.clone());
        let all = pods.list_metadata(&ListParams::default()).await?;
        Ok(all.into_iter().filter_map(|pod| pod.uid()).collect())
    }

    /// Its control plane has another number of pods.
    pub(crate) async fn scale(&self, name: &str, replicas: i32) -> Result<()> {
        let patch = json!({ "spec": { "controlPlane": { "replicas": replicas } } });
        let (clusters, params) = (self.clusters(), PatchParams::default());
        let changed = clusters.patch(name, &params, &Patch::Merge(&patch)).await;
        changed.map(drop).with_context(|| format!("change {name}"))
    }

    pub(crate) fn clusters(&self) -> Api<TenantCluster> {
        Api::namespaced(self.admin.clone(), USERS)
    }

    pub(crate) async fn create(&self, name: &str) -> Result<()> {
        let cluster = minimal(USERS, name);
        let (clusters, params) = (self.clusters(), PostParams::default());
        let made = clusters.create(&params, &cluster).await;
        made.map(drop).with_context(|| format!("create {name}"))
    }

    /// Creates those of these numbers, so many at a time as a busy team does.
    pub(crate) async fn create_all(&self, numbers: Range<usize>) -> Result<()> {
        let each = numbers.map(|number| async move { self.create(&format!("t-{number}")).await });
        stream::iter(each)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Waits until the tenant cluster is up and nothing is under way; gives its tenant namespace.
    pub(crate) async fn ready(&self, name: &str) -> Result<String> {
        let settled = |cluster: Option<&TenantCluster>| cluster.is_some_and(is_settled);
        let cluster = wait_for(&self.clusters(), name, settled, self.patience).await?;
        let cluster = cluster.context("invariant: it was just seen")?;
        Ok(tenant_namespace(&cluster))
    }

    /// Which tenant clusters are up, as their status says.
    pub(crate) async fn said_ready(&self) -> Result<Vec<String>> {
        let all = self.clusters().list(&ListParams::default()).await?;
        let ready = all.iter().filter(|cluster| is_settled(cluster));
        Ok(ready.map(|cluster| cluster.name_any()).collect())
    }

    /// Makes a node pool of one machine for a tenant cluster; gives the node's name.
    pub(crate) async fn node_of(&self, cluster: &str) -> Result<String> {
        let pool = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
            "metadata": { "name": cluster, "namespace": USERS },
            "spec": {
                "clusterName": cluster, "replicas": 1,
                "provider": { "kubevirt": { "cpu": 1, "memory": "1Gi" } },
            },
        });
        kit_client::write::apply(&self.admin, &pool, FIELD_MANAGER, true).await?;
        let pools: Api<NodePool> = Api::namespaced(self.admin.clone(), USERS);
        let ready = |pool: Option<&NodePool>| {
            let status = pool.and_then(|pool| pool.status.as_ref());
            let ready = api::ConditionType::Ready;
            status.is_some_and(|s| api::condition::is_true(&s.conditions, ready))
        };
        wait_for(&pools, cluster, ready, self.patience).await?;
        let machines: Api<Machine> = Api::namespaced(self.admin.clone(), USERS);
        let own = ListParams::default().labels(&names::pool_selector(cluster));
        let machine = machines.list(&own).await?.items.pop();
        Ok(machine.context("a pool without a Machine")?.name_any())
    }
}

fn settings() -> Result<Settings> {
    // Of the management cluster's own ranges nothing is found here.
    let reserved: IpNet = "192.0.2.0/24".parse()?;
    Ok(Settings {
        operator_namespace: SYSTEM.to_owned(),
        network: NetworkSettings {
            reserved: vec![reserved],
            ..NetworkSettings::default()
        },
        ..Settings::default()
    })
}

/// As kubeadm does it: without a valid token there is no node.
fn join(tenants: &TenantApis, guest: Guest<'_>) {
    let (namespace, name) = (guest.namespace, guest.name);
    let path = format!("/api/v1/nodes/{name}");
    let uid = guest.labels.get(names::LABEL_MACHINE_UID);
    let token = tenant_cp::node::bootstrap_token::token_secret_name(uid.map_or("", String::as_str));
    let token = format!("/api/v1/namespaces/kube-system/secrets/{token}");
    let there = |path: &str| tenants.object(namespace, path).is_some();
    if there(&path) || !there(&token) {
        return;
    }
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "spec": { "providerID": names::kubevirt_provider_id(name) },
        "status": {
            "conditions": [{ "type": "Ready", "status": "True", "message": "played" }],
            "nodeInfo": { "kubeletVersion": format!("v{}", fixtures::VERSION) },
        },
    });
    tenants.put(namespace, &path, &node);
}
