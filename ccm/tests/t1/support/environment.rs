//! A tenant cluster's API, and its tenant namespace in a management API.
//!
//! Invariant: nobody else has the users of an environment, so their audit entries are its own alone.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use ccm::names;
use ccm::settings::Settings;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use kit_client::untyped;
use kit_objects::rbac::Rule;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use testkit::fakes::kubevirt::ByHand;
use testkit::fixtures::{wait_allowed, wait_for};
use testkit::process::Workdir;
use testkit::{ManagementApi, Options};

use super::PATIENCE;

/// One tenant cluster.
pub(crate) struct Environment {
    pub(crate) management: Arc<ManagementApi>,
    pub(crate) tenant: Arc<ManagementApi>,
    /// Has every right in the management cluster.
    pub(crate) admin: Client,
    /// Has every right in the tenant cluster.
    pub(crate) inside: Client,
    /// The tenant namespace.
    pub(crate) ns: String,
    pub(crate) uid: String,
}

impl Environment {
    /// A new one in the management API that all tests share, with a tenant API that nobody else uses;
    /// `None`, loudly, when the programs are missing. A test that needs two asks for a pair.
    pub(crate) async fn new(prefix: &str) -> Result<Option<Self>> {
        let Some(management) = ManagementApi::bare().await? else {
            return Ok(None);
        };
        let Some(tenant) = ManagementApi::alone().await? else {
            return Ok(None);
        };
        Self::on(Arc::clone(management), prefix, tenant)
            .await
            .map(Some)
    }

    /// Two, each in a tenant namespace of its own.
    pub(crate) async fn pair(prefixes: [&str; 2]) -> Result<Option<[Self; 2]>> {
        let Some(management) = ManagementApi::bare().await? else {
            return Ok(None);
        };
        let Some([one, two]) = ManagementApi::alone_together().await? else {
            return Ok(None);
        };
        let one = Self::on(Arc::clone(management), prefixes[0], one).await?;
        let two = Self::on(Arc::clone(management), prefixes[1], two).await?;
        Ok(Some([one, two]))
    }

    /// Two in the same tenant namespace, which is not how it should be.
    pub(crate) async fn together(prefix: &str) -> Result<Option<[Self; 2]>> {
        let Some(management) = ManagementApi::bare().await? else {
            return Ok(None);
        };
        let Some([one, two]) = ManagementApi::alone_together().await? else {
            return Ok(None);
        };
        let one = Self::on(Arc::clone(management), prefix, one).await?;
        let two = Self::within(Arc::clone(management), one.ns.clone(), two).await?;
        Ok(Some([one, two]))
    }

    /// A new one with two servers that a test may stop.
    pub(crate) async fn alone(prefix: &str) -> Result<Option<Self>> {
        let Some(management) = ManagementApi::start().await? else {
            return Ok(None);
        };
        management.install_kinds().await?;
        let tenant = ManagementApi::start_with(Options::alone()).await?;
        let tenant = tenant.context("the programs were there a moment ago")?;
        Self::on(Arc::new(management), prefix, tenant)
            .await
            .map(Some)
    }

    /// A new one whose management API has two families of addresses, and whose tenant API has one.
    pub(crate) async fn of_two_families(prefix: &str) -> Result<Option<Self>> {
        let Some(tenant) = ManagementApi::start().await? else {
            return Ok(None);
        };
        let management = ManagementApi::alone().await?;
        let management = management.context("the programs were there a moment ago")?;
        management.install_kinds().await?;
        Self::on(Arc::new(management), prefix, tenant)
            .await
            .map(Some)
    }

    pub(crate) async fn on(
        management: Arc<ManagementApi>,
        prefix: &str,
        tenant: ManagementApi,
    ) -> Result<Self> {
        let ns = management.namespace(prefix).await?;
        Self::within(management, ns, tenant).await
    }

    async fn within(
        management: Arc<ManagementApi>,
        ns: String,
        tenant: ManagementApi,
    ) -> Result<Self> {
        kit_client::crypto::install_crypto();
        log();
        let environment = Self {
            admin: management.admin()?,
            inside: tenant.admin()?,
            uid: testkit::names::uid(),
            management,
            tenant: Arc::new(tenant),
            ns,
        };
        environment.bind().await?;
        Ok(environment)
    }

    async fn bind(&self) -> Result<()> {
        let role = |kind: &str, rules: &[Rule]| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                "metadata": { "name": self.user(), "namespace": self.ns },
                "rules": kit_objects::rbac::render(rules),
            })
        };
        let binding = |kind: &str, user: &str| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"),
                "metadata": { "name": self.user(), "namespace": self.ns },
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": self.user(),
                },
                "subjects": [{
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user,
                }],
            })
        };
        let (user, tenant_user) = (self.user(), self.tenant_user());
        apply(&self.admin, &role("Role", &ccm::rbac::management())).await?;
        apply(&self.admin, &binding("Role", &user)).await?;
        let mut inside = [
            role("ClusterRole", &ccm::rbac::tenant()),
            binding("ClusterRole", &tenant_user),
        ];
        for object in &mut inside {
            object["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("namespace");
            apply(&self.inside, object).await?;
        }
        wait_allowed(&self.admin, &user, "list", "services", Some(&self.ns)).await?;
        wait_allowed(&self.inside, &tenant_user, "list", "services", None).await
    }

    /// The user in the management cluster.
    pub(crate) fn user(&self) -> String {
        format!("ccm-{}", self.uid)
    }

    /// The user in the tenant cluster.
    pub(crate) fn tenant_user(&self) -> String {
        format!("covey-ccm-{}", self.uid)
    }

    /// Writes kubeconfig files of the program's accounts: for the tenant cluster, and for the management cluster.
    pub(crate) fn kubeconfigs(&self, dir: &Workdir) -> Result<[PathBuf; 2]> {
        let tenant = self.tenant.kubeconfig_as(&self.tenant_user(), &[])?;
        let management = self.management.kubeconfig_as(&self.user(), &[])?;
        Ok([
            dir.write("tenant.kubeconfig", &tenant)?,
            dir.write("management.kubeconfig", &management)?,
        ])
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            namespace: self.ns.clone(),
            cluster_uid: self.uid.clone(),
            ..Settings::default()
        }
    }

    pub(crate) fn services(&self) -> Api<Service> {
        Api::namespaced(self.inside.clone(), "default")
    }

    pub(crate) fn mirrors(&self) -> Api<Service> {
        Api::namespaced(self.admin.clone(), &self.ns)
    }

    pub(crate) fn slices(&self) -> Api<EndpointSlice> {
        Api::namespaced(self.admin.clone(), &self.ns)
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.inside.clone())
    }

    /// Makes a Service of type LoadBalancer with one port, changed by `spec`.
    pub(crate) async fn service(&self, name: &str, spec: &Value) -> Result<Service> {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 80, "protocol": "TCP" }] },
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            object["spec"][key.as_str()] = value.clone();
        }
        let service = serde_json::from_value(object)?;
        Ok(self
            .services()
            .create(&Default::default(), &service)
            .await?)
    }

    /// Merges a change into a Service, as `kubectl patch` does.
    pub(crate) async fn change(&self, name: &str, patch: &Value) -> Result<Service> {
        let params = PatchParams::default();
        Ok(self
            .services()
            .patch(name, &params, &Patch::Merge(patch))
            .await?)
    }

    /// Name of the mirror.
    pub(crate) fn mirror_name(&self, service: &Service) -> String {
        names::mirror(&self.uid, &service.uid().unwrap_or_default())
    }

    /// Waits until the mirror is as wanted.
    pub(crate) async fn mirror(
        &self,
        service: &Service,
        mut wanted: impl FnMut(&Service) -> bool,
    ) -> Result<Service> {
        let (mirrors, name) = (self.mirrors(), self.mirror_name(service));
        let found = wait_for(&mirrors, &name, |m| m.is_some_and(&mut wanted), PATIENCE);
        found.await?.context("invariant: it was just seen")
    }

    /// Plays the load balancer of the management cluster.
    pub(crate) async fn allocate(&self, mirror: &str, ingress: &Value) -> Result<()> {
        let patch = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
        let params = PatchParams::default();
        self.mirrors()
            .patch_status(mirror, &params, &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    /// Waits until the tenant's Service has just these addresses.
    pub(crate) async fn addresses(&self, name: &str, wanted: &[&str]) -> Result<()> {
        let services = self.services();
        let has = |s: Option<&Service>| s.is_some_and(|s| addresses(s) == wanted);
        wait_for(&services, name, has, PATIENCE).await.map(drop)
    }

    /// Waits until the slices of a mirror, all together, have just these ready addresses.
    pub(crate) async fn ready(&self, mirror: &str, wanted: &[&str]) -> Result<()> {
        let wanted: BTreeSet<_> = wanted.iter().map(|a| (*a).to_owned()).collect();
        wait_all(
            &self.slices(),
            &format!("{}={mirror}", names::LABEL_SLICE_OF),
            |slices| ready_of(slices) == wanted,
        )
        .await
    }

    /// Makes a machine that runs: virtual machine and instance, as KubeVirt would show them.
    pub(crate) async fn machine(&self, name: &str, addresses: &[&str]) -> Result<()> {
        let labels = json!({
            "topology.kubernetes.io/zone": "zone-a", "topology.kubernetes.io/region": "here",
            "node.kubernetes.io/instance-type": "small",
        });
        self.vm(name, &labels).await?;
        self.vm_status(name, &json!({ "created": true })).await?;
        self.instance(name, addresses).await
    }

    /// Makes a virtual machine without an instance.
    pub(crate) async fn vm(&self, name: &str, labels: &Value) -> Result<()> {
        self.kubevirt().virtual_machine(name, labels).await
    }

    pub(crate) async fn vm_status(&self, name: &str, status: &Value) -> Result<()> {
        self.kubevirt().status(name, status).await
    }

    /// Makes an instance that runs.
    pub(crate) async fn instance(&self, name: &str, addresses: &[&str]) -> Result<()> {
        let node = format!("host-of-{name}");
        self.kubevirt().run(name, &node, addresses).await
    }

    /// KubeVirt, which does what a test says.
    fn kubevirt(&self) -> ByHand {
        ByHand::new(&self.admin, &self.ns)
    }

    /// Deletes an object of the tenant namespace.
    pub(crate) async fn delete(&self, kind: kit_objects::kinds::Kind, name: &str) -> Result<()> {
        let objects = untyped::of(kind, &self.admin, Some(&self.ns));
        objects.delete(name, &Default::default()).await?;
        Ok(())
    }

    /// Makes a node with its providerID.
    pub(crate) async fn node(&self, name: &str) -> Result<Node> {
        let mut node = registered(name);
        node["spec"]["providerID"] = format!("kubevirt://{name}").into();
        let node = serde_json::from_value(node)?;
        Ok(self.nodes().create(&Default::default(), &node).await?)
    }

    pub(crate) async fn node_ready(&self, name: &str, ready: &str) -> Result<()> {
        let condition = json!({ "type": "Ready", "status": ready, "reason": "Test" });
        let status = json!({ "status": { "conditions": [condition] } });
        self.node_status(name, &status).await
    }

    /// Merges into a node's status.
    pub(crate) async fn node_status(&self, name: &str, status: &Value) -> Result<()> {
        let params = PatchParams::default();
        self.nodes()
            .patch_status(name, &params, &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// A machine and its node, initialised by whoever runs.
    pub(crate) async fn worker(&self, name: &str, addresses: &[&str]) -> Result<()> {
        self.machine(name, addresses).await?;
        self.node(name).await.map(drop)
    }

    /// One worker `a` and the Service `web`, whose mirror sends traffic to it. Gives both names.
    pub(crate) async fn serving(&self) -> Result<(Service, String)> {
        self.worker("a", &["10.5.0.1"]).await?;
        let service = self.service("web", &json!({})).await?;
        let mirror = self.mirror_name(&service);
        self.ready(&mirror, &["10.5.0.1"]).await?;
        Ok((service, mirror))
    }

    /// Workers `a` and `b`, and the Service `web`, whose mirror sends traffic to both. Gives both
    /// names.
    pub(crate) async fn serving_by_two(&self) -> Result<(Service, String)> {
        self.worker("a", &["10.5.0.1"]).await?;
        self.worker("b", &["10.5.0.2"]).await?;
        let service = self.service("web", &json!({})).await?;
        let mirror = self.mirror_name(&service);
        self.ready(&mirror, &["10.5.0.1", "10.5.0.2"]).await?;
        Ok((service, mirror))
    }

    /// Waits until a node is as wanted.
    pub(crate) async fn wait_node(
        &self,
        name: &str,
        mut wanted: impl FnMut(&Node) -> bool,
    ) -> Result<Node> {
        let nodes = self.nodes();
        let found = wait_for(&nodes, name, |n| n.is_some_and(&mut wanted), PATIENCE);
        found.await?.context("invariant: it was just seen")
    }

    /// Waits for an Event of the ccm with this reason, and gives its note.
    pub(crate) async fn event(&self, reason: &str) -> Result<String> {
        self.note(reason, "").await
    }

    /// The same of one whose note says this.
    pub(crate) async fn note(&self, reason: &str, says: &str) -> Result<String> {
        let events: Api<Event> = Api::namespaced(self.inside.clone(), "default");
        let mut note = None;
        let is_told = |events: &[Event]| {
            let of = events
                .iter()
                .filter(|e| e.reason.as_deref() == Some(reason));
            let mut notes = of.map(|e| e.note.clone().unwrap_or_default());
            note = notes.find(|note| note.contains(says));
            note.is_some()
        };
        let told = wait_all(&events, "", is_told).await;
        told.with_context(|| format!("no Event {reason} that says {says:?}"))?;
        note.context("invariant: it was just seen")
    }
}

/// A node as a kubelet with an external cloud provider registers it: with its status, in one write. One
/// that is not Ready and has no machine is gone.
pub(crate) fn registered(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "spec": { "taints": [{
            "key": names::TAINT_UNINITIALIZED, "value": "true", "effect": "NoSchedule",
        }] },
        "status": {
            "addresses": [{ "type": "Hostname", "address": name }],
            "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady" }],
        },
    })
}

/// Applies any object in the name of the tests.
pub(crate) async fn apply(client: &Client, object: &Value) -> Result<()> {
    Ok(kit_client::write::apply(client, object, "t1", true)
        .await
        .map(drop)?)
}

/// Waits until all objects of a selection together are as wanted.
pub(crate) async fn wait_all<K>(
    api: &Api<K>,
    labels: &str,
    mut wanted: impl FnMut(&[K]) -> bool,
) -> Result<()>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    use futures::StreamExt as _;
    use kube::runtime::watcher::{Config, watcher};
    let config = Config::default().labels(labels);
    let mut events = watcher(api.clone(), config).boxed();
    let mut last = Vec::new();
    let wait = async {
        while events.next().await.is_some() {
            let all = api.list(&ListParams::default().labels(labels)).await?;
            last = all.items;
            if wanted(&last) {
                return Ok(());
            }
        }
        anyhow::bail!("the watch ended")
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    waited.with_context(|| format!("not as wanted after {PATIENCE:?}: {labels}: {last:#?}"))?
}

/// Addresses in the status of a Service.
pub(crate) fn addresses(service: &Service) -> Vec<String> {
    let status = service
        .status
        .as_ref()
        .and_then(|s| s.load_balancer.as_ref());
    let ingress = status.and_then(|l| l.ingress.clone()).unwrap_or_default();
    let text = |i: k8s_openapi::api::core::v1::LoadBalancerIngress| i.ip.or(i.hostname);
    ingress.into_iter().filter_map(text).collect()
}

/// Addresses that are ready in these slices.
pub(crate) fn ready_of(slices: &[EndpointSlice]) -> BTreeSet<String> {
    let endpoints = slices.iter().flat_map(|s| &s.endpoints);
    let is_ready = |e: &&k8s_openapi::api::discovery::v1::Endpoint| {
        e.conditions.as_ref().and_then(|c| c.ready) == Some(true)
    };
    endpoints
        .filter(is_ready)
        .flat_map(|e| e.addresses.clone())
        .collect()
}

/// Logs of what runs in the tests, when `RUST_LOG` asks for them.
fn log() {
    if let Ok(filter) = std::env::var("RUST_LOG") {
        let args = kit::args::LogArgs {
            filter,
            format: kit::args::LogFormat::Text,
        };
        let _ = kit::telemetry::init(&args);
    }
}
