//! The fakes, with tenant namespaces made by hand.
//!
//! Invariant: "nothing more happens" is shown by something that is made later and is done.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::foreign::kubevirt::VirtualMachine;
use api::names::{LABEL_MACHINE, LABEL_TENANT_NAMESPACE, LABEL_TENANT_UID};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Secret, Service};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::certs::Authority;
use testkit::fakes::kubelet::{self, Extras};
use testkit::fakes::kubevirt::{ByHand, FakeKubeVirt, Selection};
use testkit::fakes::tenant_api::{Call, Mode};
use testkit::fixtures::{PATIENCE, wait_for};
use testkit::{FakeKubelet, ManagementApi, Scope, TenantApis};

/// A tenant namespace, and the namespace that its tenant cluster is in.
struct Place {
    name: String,
    owner: String,
}

impl Place {
    async fn new(api: &ManagementApi, owner: &str) -> Result<Self> {
        let place = Self {
            name: api.name("covey-demo"),
            owner: owner.to_owned(),
        };
        let namespace = json!({"metadata": {"name": place.name, "labels": place.labels()}});
        let namespaces: Api<Namespace> = Api::all(api.admin()?);
        namespaces
            .create(&PostParams::default(), &serde_json::from_value(namespace)?)
            .await?;
        Ok(place)
    }

    /// As everything has them that Covey makes there.
    fn labels(&self) -> Value {
        json!({LABEL_TENANT_UID: self.name, LABEL_TENANT_NAMESPACE: self.owner})
    }

    async fn create<K>(&self, client: &Client, object: &Value) -> Result<Api<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let objects: Api<K> = Api::namespaced(client.clone(), &self.name);
        let mut object = object.clone();
        object["metadata"]["labels"] = self.labels();
        objects
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        Ok(objects)
    }

    /// Whether a fake was told of this namespace and no other.
    fn is_all_of(&self, told: &BTreeMap<String, usize>) -> bool {
        let of_it = |key: &String| key.split('/').nth(1) == Some(&*self.name);
        !told.is_empty() && told.keys().all(of_it)
    }
}

fn workload(name: &str, replicas: i32) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "replicas": replicas, "serviceName": "part", "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

fn available(deployment: Option<&Deployment>, status: &str) -> bool {
    let conditions = deployment.and_then(|d| d.status.as_ref()?.conditions.as_ref());
    conditions.is_some_and(|c| {
        c.iter()
            .any(|c| c.type_ == "Available" && c.status == status)
    })
}

#[tokio::test]
async fn workloads_volumes_and_balancers_of_a_tenant_become_ready_then_fail() -> Result<()> {
    let Some(api) = ManagementApi::shared().await? else {
        return Ok(());
    };
    let (client, owner) = (api.admin()?, api.name("player"));
    let inside = Place::new(api, &owner).await?;
    let outside = Place::new(api, &api.name("somebody-else")).await?;
    let kubelet = FakeKubelet::start(&client, &Scope::of(&owner), Extras::all());
    let foreign: Api<Deployment> = outside.create(&client, &workload("part", 1)).await?;
    let deployments: Api<Deployment> = inside.create(&client, &workload("part", 2)).await?;
    let sets: Api<StatefulSet> = inside.create(&client, &workload("part", 3)).await?;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let claims: Api<PersistentVolumeClaim> = inside.create(&client, &claim).await?;
    let service = json!({"metadata": {"name": "part"}, "spec": {"type": "LoadBalancer",
        "ports": [{"port": 6443}]}});
    let services: Api<Service> = inside.create(&client, &service).await?;
    let ready = |set: Option<&StatefulSet>| {
        set.and_then(|s| s.status.as_ref())
            .is_some_and(|s| s.ready_replicas == Some(3))
    };
    wait_for(&sets, "part", ready, PATIENCE).await?;
    wait_for(&deployments, "part", |d| available(d, "True"), PATIENCE).await?;
    let bound = |claim: Option<&PersistentVolumeClaim>| {
        claim.and_then(|c| c.status.as_ref()?.phase.as_deref()) == Some("Bound")
    };
    wait_for(&claims, "data", bound, PATIENCE).await?;
    let address = |service: Option<&Service>| {
        let status = service.and_then(|s| s.status.as_ref()?.load_balancer.as_ref());
        status.is_some_and(|s| s.ingress.as_ref().is_some_and(|i| i[0].ip.is_some()))
    };
    wait_for(&services, "part", address, PATIENCE).await?;
    kubelet.set(kubelet::Mode::Failing);
    wait_for(&deployments, "part", |d| available(d, "False"), PATIENCE).await?;
    let foreign = foreign.get("part").await?;
    assert_eq!(foreign.status.and_then(|s| s.ready_replicas), None);
    Ok(())
}

/// Two machines of a tenant namespace, one after the other, run.
async fn machines_run(client: &Client, place: &Place) -> Result<()> {
    for name in ["part", "canary"] {
        let vms: Api<VirtualMachine> = Api::namespaced(client.clone(), &place.name);
        let mut labels = place.labels();
        labels[LABEL_MACHINE] = name.into();
        ByHand::new(client, &place.name)
            .virtual_machine(name, &labels)
            .await?;
        let runs = |vm: Option<&VirtualMachine>| {
            vm.and_then(|vm| vm.status.as_ref()?.created) == Some(true)
        };
        wait_for(&vms, name, runs, PATIENCE).await?;
    }
    Ok(())
}

#[tokio::test]
async fn fakes_are_told_of_their_own_objects_alone_and_come_to_rest() -> Result<()> {
    let Some(api) = ManagementApi::shared().await? else {
        return Ok(());
    };
    let client = api.admin()?;
    let (mine, other) = (api.name("mine"), api.name("other"));
    let (mine, other) = (
        Place::new(api, &mine).await?,
        Place::new(api, &other).await?,
    );
    let (scope, foreign) = (Scope::of(&mine.owner), Scope::of(&other.owner));
    let kubelet = FakeKubelet::start(&client, &scope, Extras::all());
    let _other_kubelet = FakeKubelet::start(&client, &foreign, Extras::all());
    let apis = TenantApis::start(&client, &scope, "1.35.4");
    let (joined, joins) = std::sync::mpsc::channel();
    let machines = Selection::machines_of(&scope);
    let kubevirt = FakeKubeVirt::start(&client, &machines, move |guest| {
        // Nobody listens any more once the test is over.
        let _ = joined.send(guest.name.to_owned());
    });
    let machines = Selection::machines_of(&foreign);
    let _other_kubevirt = FakeKubeVirt::start(&client, &machines, |_| {});
    let window = api.audit().window()?;
    let secret = Tenant::new()?.secret;
    // The others' first, so that they would have been told of by the end.
    for place in [&other, &mine] {
        place.create::<Secret>(&client, &secret).await?;
        for name in ["part", "canary"] {
            let made: Api<Deployment> = place.create(&client, &workload(name, 1)).await?;
            wait_for(&made, name, |d| available(d, "True"), PATIENCE).await?;
        }
        machines_run(&client, place).await?;
    }
    apis.wait_address(&mine.name, PATIENCE).await?;
    for told in [kubelet.told(), apis.told(), kubevirt.told()] {
        assert!(mine.is_all_of(&told), "{} was told {told:#?}", mine.name);
    }
    assert!(joins.try_iter().any(|name| name == "part"));
    let mut writes = BTreeMap::<(String, String), usize>::new();
    for entry in window.entries()? {
        let is_part = entry.name.as_deref() == Some("part") && entry.verb == "patch";
        if is_part && entry.namespace.as_deref() == Some(&*mine.name) {
            *writes.entry((entry.kind, entry.verb)).or_default() += 1;
        }
    }
    let writes: Vec<_> = writes.iter().map(|((k, _), n)| (k.as_str(), *n)).collect();
    let wanted = [
        ("apps/deployments/status", 1),
        ("kubevirt.io/virtualmachineinstances", 1),
        // Made by the test; the finalizer.
        ("kubevirt.io/virtualmachines", 2),
        ("kubevirt.io/virtualmachines/status", 1),
    ];
    assert_eq!(writes, wanted);
    Ok(())
}

struct Tenant {
    authority: Authority,
    secret: Value,
}

impl Tenant {
    fn new() -> Result<Self> {
        let authority = Authority::new("tenant")?;
        let serving = authority.server("kube-apiserver", &["kubernetes"])?;
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "apiserver"}, "stringData": {"clients.crt": authority.pem(),
            "apiserver.crt": serving.cert, "apiserver.key": serving.key}});
        Ok(Self { authority, secret })
    }

    fn client(&self, address: std::net::SocketAddr, user: &str) -> Result<Client> {
        let identity = self.authority.client(user, &["covey:operators"])?;
        let url = format!("https://{address}");
        let mut config = testkit::apiserver::config(&url, &self.authority.pem(), &identity)?;
        config.tls_server_name = Some("kubernetes".to_owned());
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }
}

#[tokio::test]
async fn tenants_server_appears_with_its_secret_and_keeps_what_is_applied() -> Result<()> {
    let Some(api) = ManagementApi::shared().await? else {
        return Ok(());
    };
    let owner = api.name("tenants");
    let apis = TenantApis::start(&api.admin()?, &Scope::of(&owner), "1.35.4");
    let (place, tenant_parts) = (Place::new(api, &owner).await?, Tenant::new()?);
    let namespace = place.name.clone();
    let nowhere = apis.dialer()(&namespace, ([10, 96, 0, 9], 6443).into());
    assert_eq!(nowhere.port(), 1);
    place
        .create::<Secret>(&api.admin()?, &tenant_parts.secret)
        .await?;
    let address = apis.wait_address(&namespace, PATIENCE).await?;
    assert_eq!(apis.dialer()(&namespace, nowhere), address);
    let client = tenant_parts.client(address, "covey-operator")?;
    assert_eq!(client.apiserver_version().await?.git_version, "v1.35.4");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-public");
    let map = |value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info",
            "namespace": "kube-public"}, "data": {"key": value}})
    };
    let params = PatchParams::apply("covey").force();
    let first = maps
        .patch("cluster-info", &params, &Patch::Apply(map("1")))
        .await?;
    let same = maps
        .patch("cluster-info", &params, &Patch::Apply(map("1")))
        .await?;
    assert_eq!(first.resource_version(), same.resource_version());
    assert_eq!(maps.get("cluster-info").await?.data, first.data);
    assert_eq!(maps.list(&Default::default()).await?.items.len(), 1);
    let path = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
    assert_eq!(apis.paths(&namespace), [path]);
    let calls = apis.calls(&namespace);
    let expected = Call {
        user: "covey-operator".to_owned(),
        groups: vec!["covey:operators".to_owned()],
        verb: "patch".to_owned(),
        path: path.to_owned(),
        code: 201,
    };
    assert_eq!(calls[1], expected);
    maps.delete("cluster-info", &Default::default()).await?;
    assert!(maps.get_opt("cluster-info").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn tenants_server_can_be_down_or_failing_and_takes_a_renewed_certificate() -> Result<()> {
    let Some(api) = ManagementApi::shared().await? else {
        return Ok(());
    };
    let owner = api.name("modes");
    let apis = TenantApis::start(&api.admin()?, &Scope::of(&owner), "1.35.4");
    let (place, before) = (Place::new(api, &owner).await?, Tenant::new()?);
    let namespace = place.name.clone();
    let secrets: Api<Secret> = place.create(&api.admin()?, &before.secret).await?;
    let address = apis.wait_address(&namespace, PATIENCE).await?;
    let client = before.client(address, "covey-operator")?;
    client.apiserver_version().await?;
    assert!(apis.set(&namespace, Mode::Failing));
    assert!(client.apiserver_version().await.is_err());
    assert!(apis.set(&namespace, Mode::Down));
    assert!(client.apiserver_version().await.is_err());
    assert!(apis.set(&namespace, Mode::Slow(Duration::from_millis(200))));
    let begin = std::time::Instant::now();
    client.apiserver_version().await?;
    assert!(begin.elapsed() >= Duration::from_millis(200));
    assert!(apis.set(&namespace, Mode::Up));
    // A stranger's certificate is refused, and so is the old one once the authority is new.
    let after = Tenant::new()?;
    assert!(
        after
            .client(address, "covey-operator")?
            .apiserver_version()
            .await
            .is_err()
    );
    let params = PatchParams::apply("rotate").force();
    let renewed = secrets
        .patch("apiserver", &params, &Patch::Apply(&after.secret))
        .await?;
    let version = renewed.resource_version().context("no version")?;
    apis.wait_secret(&namespace, &version, PATIENCE).await?;
    after
        .client(address, "covey-operator")?
        .apiserver_version()
        .await?;
    assert!(
        before
            .client(address, "covey-operator")?
            .apiserver_version()
            .await
            .is_err()
    );
    Ok(())
}
