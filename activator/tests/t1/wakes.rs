//! From the operator's ConfigMap to a Lease, and from there to a pod.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use activator::manager::Manager;
use anyhow::{Context as _, Result};
use api::activator::Sleeper;
use api::names::{SLEEPERS, wake_lease};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::jiff::Timestamp;
use kit::admin::Admin;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use rustls_pki_types::ServerName;
use serde_json::json;
use testkit::ManagementApi;
use testkit::fixtures::wait_allowed;
use testkit::waiting::{PATIENCE, ask_until, wait_for};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const UID: &str = "0a1b2c3d-1111-4222-8333-444455556666";

struct World {
    admin: Client,
    user: Client,
    ns: String,
    tasks: JoinSet<()>,
}

impl World {
    /// An API, a namespace, and a user who has the activator's rights there and no others.
    async fn new() -> Result<Option<Self>> {
        kit_client::crypto::install_crypto();
        let Some(management) = ManagementApi::bare().await? else {
            return Ok(None);
        };
        let ns = management.namespace("activator").await?;
        let name = format!("activator-{ns}");
        let admin = management.admin()?;
        let role: Role = serde_json::from_value(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": { "name": "activator" },
            "rules": kit_objects::rbac::render(&activator::rbac::rules()),
        }))?;
        let binding: RoleBinding = serde_json::from_value(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": "activator" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "activator" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name }],
        }))?;
        let params = PostParams::default();
        Api::namespaced(admin.clone(), &ns)
            .create(&params, &role)
            .await?;
        Api::namespaced(admin.clone(), &ns)
            .create(&params, &binding)
            .await?;
        wait_allowed(
            &admin,
            &name,
            "update",
            "coordination.k8s.io/leases",
            Some(&ns),
        )
        .await?;
        Ok(Some(Self {
            user: management.client_as(&name, &[])?,
            admin,
            ns,
            tasks: JoinSet::new(),
        }))
    }

    fn start(&mut self) {
        let manager = Manager::new(self.user.clone(), &self.ns, LOOPBACK, &Admin::new());
        self.tasks.spawn(async move { manager.run().await });
    }

    async fn publish(&self, port: u16, sleeper: &Sleeper) -> Result<()> {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": SLEEPERS },
            "data": { port.to_string(): serde_json::to_string(sleeper)? },
        });
        let api = Api::<ConfigMap>::namespaced(self.admin.clone(), &self.ns);
        let params = PatchParams::apply("test").force();
        api.patch(SLEEPERS, &params, &Patch::Apply(map)).await?;
        Ok(())
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.admin.clone(), &self.ns)
    }
}

fn sleeper(since: Timestamp) -> Sleeper {
    Sleeper {
        uid: UID.to_owned(),
        since,
        server: None,
        source_ranges: vec!["127.0.0.0/8".to_owned()],
    }
}

/// A connection, once the port is open.
async fn connect(port: u16) -> Result<TcpStream> {
    ask_until("the port is open", PATIENCE, || async {
        let connected = TcpStream::connect((LOOPBACK, port)).await;
        Ok(connected.map_err(|error| error.to_string()))
    })
    .await
}

fn hello() -> Result<Vec<u8>> {
    let config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
    let mut client =
        ClientConnection::new(Arc::new(config), ServerName::try_from("demo.example.com")?)?;
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes)?;
    Ok(bytes)
}

/// A pod that answers with what it was sent.
async fn pod(tasks: &mut JoinSet<()>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((LOOPBACK, 0)).await?;
    let address = listener.local_addr()?;
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut read, mut write) = stream.split();
            let _ = tokio::io::copy(&mut read, &mut write).await;
        }
    });
    Ok(address)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_wakes_a_sleeper_once_for_each_sleep_also_after_a_restart() -> Result<()> {
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let port = testkit::ports::unused()?;
    let first = Timestamp::now() - Duration::from_secs(60);
    world.start();
    world.publish(port, &sleeper(first)).await?;
    // Health checks wake nobody: the client after them is the first whose address the Lease has.
    drop(connect(port).await?);
    let mut client = connect(port).await?;
    let sent = hello()?;
    client.write_all(&sent).await?;
    let name = wake_lease(UID);
    let woken = wait_for(&world.leases(), &name, |lease| lease.is_some(), PATIENCE).await?;
    let spec = woken.and_then(|lease| lease.spec).context("no spec")?;
    assert_eq!(spec.holder_identity.as_deref(), Some("127.0.0.1"));
    assert!(spec.renew_time.clone().is_some_and(|time| time.0 > first));
    let address = pod(&mut world.tasks).await?;
    let awake = Sleeper {
        server: Some(address.to_string()),
        ..sleeper(first)
    };
    world.publish(port, &awake).await?;
    let mut answer = vec![0; sent.len()];
    client.read_exact(&mut answer).await?;
    assert_eq!(answer, sent, "every byte, in order");
    drop(client);

    // Another activator, which remembers nothing, and another sleep.
    world.tasks.abort_all();
    while world.tasks.join_next().await.is_some() {}
    let since = Timestamp::now();
    world.publish(port, &sleeper(since)).await?;
    world.start();
    let mut again = connect(port).await?;
    again.write_all(&sent).await?;
    let is_newer = |lease: &Lease| {
        let renewed = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.renew_time.as_ref());
        renewed.is_some_and(|time| time.0 > since)
    };
    let woken = wait_for(
        &world.leases(),
        &name,
        |lease| lease.is_some_and(is_newer),
        PATIENCE,
    )
    .await?;
    let transitions = woken.and_then(|lease| lease.spec?.lease_transitions);
    assert_eq!(transitions, Some(2), "one for each sleep");
    Ok(())
}
