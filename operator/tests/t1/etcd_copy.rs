//! A copy of a tenant cluster beside it, while it goes on: real members of etcd and kube-apiservers of both, the very gate,
//! the very program that backs up and reads, a real S3 endpoint, and Jobs whose containers run one after the other.
//!
//! Invariant: the one that is copied loses nothing and refuses nothing meanwhile; the copy has what was acknowledged and
//! read back, Secrets that were encrypted then included, and nothing that names the other one's nodes, volumes or load
//! balancers; neither believes a client or a token of the other.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use anyhow::{Context as _, Result, ensure};
use api::names::ANNOTATION_COPIED;
use api::tenant_cluster::Bootstrap;
use api::{Reason, TenantCluster};
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolume, Secret, Service};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use operator::controllers::tenant_backup::report;
use operator::tenant_session::etcd;
use operator::tenant_session::session::Dial;
use serde_json::{Value, json};
use testkit::fixtures::{minimal, wait_for};
use testkit::ports::unused;
use testkit::waiting::{self, ask_until};

use crate::support::etcd_members::{EtcdMembers, Writer, get, has_all, members};
use crate::support::restores::{Bucket, cluster_id, give_account, identity, told};
use crate::support::site::{apply, tenant_namespace};
use crate::support::tenant_api::TenantApi;
use crate::support::{Launch, PATIENCE, Site};

const PASSWORD: &str = "/registry/secrets/default/password";

fn cluster(site: &Site, name: &str, bucket: &Bucket) -> Result<TenantCluster> {
    let mut cluster = minimal(&site.users, name);
    cluster.spec.backup = Some(bucket.backup()?);
    // Nobody serves its sockets here.
    cluster.spec.addons.konnectivity.enabled = false;
    Ok(cluster)
}

/// What a tenant has, and what there is of the outer world.
async fn fill(client: &Client) -> Result<()> {
    let opaque = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "password", "namespace": "default" },
        "stringData": { "word": "what it is" },
    });
    let token = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": { "name": "token", "namespace": "default",
            "annotations": { "kubernetes.io/service-account.name": "default" } },
        "stringData": { "token": "signed by the one of then" },
    });
    let bootstrap = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": { "name": "bootstrap-token-abcdef", "namespace": "kube-system" },
        "stringData": { "token-id": "abcdef", "token-secret": "0123456789abcdef" },
    });
    let balancer = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "type": "LoadBalancer", "ports": [{ "name": "http", "port": 80 }] },
    });
    let plain = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "db", "namespace": "default" },
        "spec": { "ports": [{ "port": 5432 }] },
    });
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "data" },
        "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
            "csi": { "driver": "csi.covey.dev", "volumeHandle": "vol-data" } },
    });
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "worker-1" } });
    for namespace in ["default", "kube-system"] {
        let object =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        apply(client, &object).await?;
    }
    for object in [
        &opaque, &token, &bootstrap, &balancer, &plain, &volume, &node,
    ] {
        apply(client, object).await?;
    }
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let address = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.7" }] } } });
    let params = PatchParams::default();
    services
        .patch_status("web", &params, &Patch::Merge(address))
        .await?;
    Ok(())
}

async fn names<K>(api: &Api<K>) -> Result<Vec<String>>
where
    K: Clone + std::fmt::Debug + kube::Resource + serde::de::DeserializeOwned,
{
    let all = api.list(&ListParams::default()).await?.items;
    Ok(all.iter().map(kube::ResourceExt::name_any).collect())
}

/// What the copy has of all that.
async fn is_copied(client: &Client) -> Result<()> {
    let secrets: Api<Secret> = Api::all(client.clone());
    let all = names(&secrets).await?;
    ensure!(all == ["password"], "{all:?}");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let data = secrets.get("password").await?.data.unwrap_or_default();
    ensure!(data["word"].0 == b"what it is");
    let volumes = names(&Api::<PersistentVolume>::all(client.clone())).await?;
    let nodes = names(&Api::<Node>::all(client.clone())).await?;
    ensure!(
        volumes.is_empty() && nodes.is_empty(),
        "{volumes:?} {nodes:?}"
    );
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let web = services.get("web").await?;
    ensure!(web.annotations().get(ANNOTATION_COPIED).map(String::as_str) == Some("true"));
    let web: Value = serde_json::to_value(web)?;
    ensure!(web["status"]["loadBalancer"]["ingress"].is_null(), "{web}");
    let spec = &web["spec"];
    ensure!(
        spec["type"] == "LoadBalancer" && spec["ports"][0]["name"] == "http",
        "{web}"
    );
    let db = services.get("db").await?;
    ensure!(!db.annotations().contains_key(ANNOTATION_COPIED));
    Ok(())
}

async fn refuses(client: Client) -> Result<()> {
    let found = Api::<Node>::all(client).list(&ListParams::default()).await;
    match found {
        Err(kube::Error::Api(status)) if status.code == 401 => Ok(()),
        other => anyhow::bail!("it believes a client of the other one: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_stands_beside_the_one_that_goes_on_with_its_data_and_nothing_of_its_outer_world()
-> Result<()> {
    let Some(site) = Site::without_etcd("etcd-copy").await? else {
        return Ok(());
    };
    let Some(bucket) = Bucket::make(&site).await? else {
        return Ok(());
    };
    let source = site.create_as(&cluster(&site, "demo", &bucket)?).await?;
    let uid = source.uid().context("no UID")?;
    let ns = tenant_namespace(&source);
    let Some(first) = EtcdMembers::start(&site.admin, &ns, &[]).await? else {
        return Ok(());
    };

    // Both run, and the pods that read and write backups have one address here.
    let status: Arc<Mutex<BTreeMap<String, Arc<AtomicU16>>>> = Arc::default();
    let port = Arc::new(AtomicU16::new(unused()?));
    status.lock().unwrap().insert(ns.clone(), Arc::clone(&port));
    let (usual, ports) = (first.dial(site.dial()), Arc::clone(&status));
    let late: Arc<OnceLock<Dial>> = Arc::default();
    let (both, of_first) = (Arc::clone(&late), Arc::clone(&usual));
    let mut launch = Launch::new(&site)?;
    launch.dial = Some(Arc::new(move |ns: &str, address: SocketAddr| {
        let own = ports.lock().unwrap().get(ns).cloned();
        let own = own.filter(|_| address == SocketAddr::from((Ipv4Addr::LOCALHOST, 2382)));
        match (own, both.get()) {
            (Some(port), _) => SocketAddr::new(address.ip(), port.load(Ordering::Relaxed)),
            (None, Some(dial)) => dial(ns, address),
            (None, None) => of_first(ns, address),
        }
    }));
    let operator = launch.start(&site)?;
    let before = cluster_id(&site, "demo").await?;
    let playing = bucket.pods(&site, &ns, &first, &port).start();
    let clients = members(&site.admin, &ns, &first).await?;
    let Some(its_api) = TenantApi::start(&site.admin, &ns, &first.client_url(0)).await? else {
        return Ok(());
    };
    fill(&its_api.administrator()?).await?;
    let stored = get(&clients[0], PASSWORD).await?.context("no Secret")?;
    ensure!(stored.starts_with(b"k8s:enc:secretbox:v1:k1:"));

    let notes = first.file("until");
    let writer = Writer::start(clients[..1].to_vec(), &notes)?;
    ask_until("acknowledged writes", waiting::PATIENCE, || {
        let lines = std::fs::read_to_string(&notes).map_or(0, |text| text.lines().count());
        std::future::ready(Ok((lines > 50)
            .then_some(())
            .ok_or_else(|| lines.to_string())))
    })
    .await?;
    let wanted = writer.stop().await?;
    let least = u64::try_from(etcd::status(&clients[0]).await?.revision)?;
    // It goes on from here to the end.
    let writer = Writer::start(clients[..1].to_vec(), &first.file("meanwhile"))?;
    ask_until("all of it in the bucket", 3 * PATIENCE, || async {
        let port = port.load(Ordering::Relaxed);
        let report = report::ask(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await;
        let is_there = report.as_ref().is_ok_and(|report| {
            report.durable >= least && report.identity.is_some() && report.verified.is_some()
        });
        Ok(is_there.then_some(()).ok_or_else(|| format!("{report:?}")))
    })
    .await?;
    let was = identity(&site, &ns).await?;

    bucket.lend_recovery_key(&site).await?;
    let mut copy = cluster(&site, "copy", &bucket)?;
    copy.spec.etcd.bootstrap = Bootstrap::Restore;
    copy.spec.etcd.copy_of = Some(uid.clone());
    let copy = site.create_as(&copy).await?;
    let copy_ns = tenant_namespace(&copy);
    let Some(second) = EtcdMembers::start(&site.admin, &copy_ns, &[]).await? else {
        return Ok(());
    };
    let copy_port = Arc::new(AtomicU16::new(unused()?));
    let of_copy = (copy_ns.clone(), Arc::clone(&copy_port));
    status.lock().unwrap().extend([of_copy]);
    ensure!(late.set(second.dial(usual)).is_ok());
    give_account(&site, &copy_ns).await?;
    let also = bucket.pods(&site, &copy_ns, &second, &copy_port).start();
    let restore = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
        "metadata": { "name": "beside", "namespace": site.users },
        "spec": { "clusterName": "copy", "from": { "clusterUID": uid, "clusterID": before } },
    });
    apply(&site.admin, &restore).await?;
    told(
        &site,
        "beside",
        "Possible",
        ("True", Reason::RestorePossible),
    )
    .await?;
    told(&site, "beside", "Restored", ("True", Reason::Restored)).await?;

    let after = cluster_id(&site, "copy").await?;
    ensure!(after != before, "it is the same etcd cluster");
    let its = site.clusters().get("demo").await?.status;
    let of_copy = site.clusters().get("copy").await?.status;
    let (its, of_copy) = (its.context("no status")?, of_copy.context("no status")?);
    ensure!(its.network == of_copy.network, "{:?}", of_copy.network);
    ensure!(its.endpoint != of_copy.endpoint && its.addresses != of_copy.addresses);
    // Every authority and key of its own; of the other one those that Secrets are read with.
    let now = identity(&site, &copy_ns).await?;
    for ((name, was), (_, now)) in was.iter().zip(&now) {
        let (was, now) = (was.as_ref().context("none")?, now.as_ref().context("none")?);
        ensure!(was != now, "{name} is the other one's");
        let own = now.as_object().context("no fields")?;
        let same = own
            .iter()
            .filter(|(field, value)| was[field.as_str()] == **value);
        let same: Vec<_> = same.map(|(field, _)| field.as_str()).collect();
        let may: &[&str] = if name == "encryption" { &["k1"] } else { &[] };
        ensure!(same == may, "{name}: {same:?}");
    }

    let copies = members(&site.admin, &copy_ns, &second).await?;
    has_all(&copies[0], &wanted).await?;
    let stored = get(&copies[0], PASSWORD).await?.context("no Secret")?;
    ensure!(
        stored.starts_with(b"k8s:enc:secretbox:v1:k2:"),
        "it is not the copy's own key"
    );
    let copy_api = TenantApi::start(&site.admin, &copy_ns, &second.client_url(0)).await?;
    let copy_api = copy_api.context("no program")?;
    is_copied(&copy_api.administrator()?).await?;
    refuses(copy_api.administrator_of(&its_api)?).await?;
    refuses(its_api.administrator_of(&copy_api)?).await?;
    // What delegates authentication in there believes the copy's authorities alone.
    let maps: Api<ConfigMap> = Api::namespaced(copy_api.administrator()?, "kube-system");
    let trusts = |map: Option<&ConfigMap>| {
        map.and_then(|map| map.data.clone())
            .is_some_and(|data| data.contains_key("client-ca-file"))
    };
    let trusted = wait_for(
        &maps,
        "extension-apiserver-authentication",
        trusts,
        PATIENCE,
    )
    .await?;
    let trusted = trusted.and_then(|map| map.data).context("no data")?;
    let lines = |text: &str| {
        let lines = text.lines().filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    ensure!(lines(&trusted["client-ca-file"]) == lines(&copy_api.clients()?));

    // The other one went on, and has all that it had.
    let written = writer.end().await?;
    ensure!(written.failed == 0, "{written:?}");
    ensure!(!written.acknowledged.is_empty());
    has_all(&clients[0], &written.acknowledged).await?;
    ensure!(identity(&site, &ns).await? == was, "it has other keys now");
    let secrets: Api<Secret> = Api::namespaced(its_api.administrator()?, "default");
    let mut all = names(&secrets).await?;
    all.sort_unstable();
    ensure!(all == ["password", "token"], "{all:?}");
    let same = cluster_id(&site, "demo").await?;
    ensure!(same == before);
    drop((playing, also));
    bucket.target.remove().await?;
    operator.stop().await
}
