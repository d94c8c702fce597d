//! The pod player and the tenants' servers, with a tenant namespace made by hand.

use std::time::Duration;

use anyhow::{Context as _, Result};
use api::names::{LABEL_TENANT_NAMESPACE, LABEL_TENANT_UID};
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
use testkit::fakes::tenant_api::{Call, Mode};
use testkit::fixtures::{PATIENCE, wait_for};
use testkit::{ManagementApi, PodPlayer, Scope, TenantApis};

/// A tenant namespace that belongs to `owner`.
async fn tenant(api: &ManagementApi, owner: &str) -> Result<String> {
    let name = api.name("covey-demo");
    let namespace = json!({"metadata": {"name": name, "labels": {
        LABEL_TENANT_UID: name, LABEL_TENANT_NAMESPACE: owner}}});
    let namespaces: Api<Namespace> = Api::all(api.admin()?);
    namespaces
        .create(&PostParams::default(), &serde_json::from_value(namespace)?)
        .await?;
    Ok(name)
}

async fn create<K>(client: &Client, namespace: &str, object: Value) -> Result<Api<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let objects: Api<K> = Api::namespaced(client.clone(), namespace);
    objects
        .create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?;
    Ok(objects)
}

fn workload(replicas: i32) -> Value {
    json!({"metadata": {"name": "part"}, "spec": {
        "replicas": replicas, "serviceName": "part", "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

#[tokio::test]
async fn workloads_volumes_and_balancers_of_a_tenant_become_ready_then_fail() -> Result<()> {
    let Some(api) = ManagementApi::shared().await? else {
        return Ok(());
    };
    let (client, owner) = (api.admin()?, api.name("player"));
    let (inside, outside) = (
        tenant(api, &owner).await?,
        tenant(api, "somebody-else").await?,
    );
    let player = PodPlayer::start(&client, &Scope::of(&owner), Extras::all());
    let foreign: Api<Deployment> = create(&client, &outside, workload(1)).await?;
    let deployments: Api<Deployment> = create(&client, &inside, workload(2)).await?;
    let sets: Api<StatefulSet> = create(&client, &inside, workload(3)).await?;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let claims: Api<PersistentVolumeClaim> = create(&client, &inside, claim).await?;
    let service = json!({"metadata": {"name": "part"}, "spec": {"type": "LoadBalancer",
        "ports": [{"port": 6443}]}});
    let services: Api<Service> = create(&client, &inside, service).await?;
    let ready = |set: Option<&StatefulSet>| {
        set.and_then(|s| s.status.as_ref())
            .is_some_and(|s| s.ready_replicas == Some(3))
    };
    wait_for(&sets, "part", ready, PATIENCE).await?;
    let available = |deployment: Option<&Deployment>, status: &str| {
        let conditions = deployment.and_then(|d| d.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|c| {
            c.iter()
                .any(|c| c.type_ == "Available" && c.status == status)
        })
    };
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
    player.set(kubelet::Mode::Failing);
    wait_for(&deployments, "part", |d| available(d, "False"), PATIENCE).await?;
    let foreign = foreign.get("part").await?;
    assert_eq!(foreign.status.and_then(|s| s.ready_replicas), None);
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
            "metadata": {"name": "apiserver"}, "stringData": {"ca.crt": authority.pem(),
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
    let (namespace, tenant_parts) = (tenant(api, &owner).await?, Tenant::new()?);
    let nowhere = apis.dialer()(&namespace, ([10, 96, 0, 9], 6443).into());
    assert_eq!(nowhere.port(), 1);
    create::<Secret>(&api.admin()?, &namespace, tenant_parts.secret.clone()).await?;
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
    let (namespace, before) = (tenant(api, &owner).await?, Tenant::new()?);
    let secrets: Api<Secret> = create(&api.admin()?, &namespace, before.secret.clone()).await?;
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
