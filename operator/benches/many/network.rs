//! A network of the bench's own, in which the addresses of Services are there, and what stands on them.
//!
//! The operator's program knows nothing of it: it dials the cluster address of a Service, as it does in a
//! cluster; the kernel delivers that to the only listener, which finds the tenant by the address.
//! Invariant: nothing leaves the loopback of this network.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use api::names::LABEL_TENANT_UID;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use tenant_cp::names::API_PORT;
use testkit::TenantApis;
use tokio::io::{AsyncReadExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What a host does for the addresses of Services, before it becomes the program that is named.
const ENTER: &str =
    r#"ip link set lo up && ip route add local 10.96.0.0/12 dev lo && exec "$0" "$@" --inside"#;
/// A Service is dialled sooner than a watch may tell of it.
const UNKNOWN: Duration = Duration::from_secs(5);

/// Becomes this program again, in a network of its own; returns only when that cannot be.
///
/// # Errors
/// Always.
pub(crate) fn enter() -> Result<()> {
    let program = std::env::current_exe().context("which program is this?")?;
    let error = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--", "sh", "-c"])
        .arg(ENTER)
        .arg(program)
        .args(std::env::args_os().skip(1))
        .exec();
    Err(error).context("unshare of util-linux cannot be run")
}

/// Tenant namespaces by the addresses of their Services.
type Addresses = HashMap<IpAddr, String>;

/// What stands before all tenants; it ends when it is dropped.
pub(crate) struct Relay {
    dead: watch::Sender<BTreeSet<String>>,
    tasks: [JoinHandle<()>; 2],
}

impl Relay {
    /// Starts to listen.
    pub(crate) async fn start(client: &Client, tenants: &Arc<TenantApis>) -> Result<Self> {
        let port = u16::try_from(API_PORT)?;
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
        let (known, addresses) = watch::channel(Addresses::new());
        let (dead, dies) = watch::channel(BTreeSet::new());
        let world = World {
            addresses,
            dies,
            tenants: Arc::clone(tenants),
        };
        let tasks = [
            tokio::spawn(learn(client.clone(), known)),
            tokio::spawn(accept(listener, world)),
        ];
        Ok(Self { dead, tasks })
    }

    /// From now on these tenant namespaces say nothing more, on no connection, and close none.
    pub(crate) fn silence(&self, namespaces: impl IntoIterator<Item = String>) {
        self.dead.send_modify(|dead| dead.extend(namespaces));
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn learn(client: Client, known: watch::Sender<Addresses>) {
    let config = Config::default().labels(LABEL_TENANT_UID);
    let services = watcher(Api::<Service>::all(client), config).default_backoff();
    let mut services = services.boxed();
    while let Some(event) = services.next().await {
        // The watcher comes back by itself after an error; no tenant goes here.
        let Ok(Event::Apply(service) | Event::InitApply(service)) = event else {
            continue;
        };
        let Some(address) = address(&service) else {
            continue;
        };
        let namespace = service.namespace().unwrap_or_default();
        known.send_modify(|known| drop(known.insert(address, namespace)));
    }
}

/// The cluster address of a Service that has one.
fn address(service: &Service) -> Option<IpAddr> {
    let spec = service.spec.as_ref()?;
    spec.cluster_ip.as_ref()?.parse().ok()
}

#[derive(Clone)]
struct World {
    addresses: watch::Receiver<Addresses>,
    dies: watch::Receiver<BTreeSet<String>>,
    tenants: Arc<TenantApis>,
}

async fn accept(listener: TcpListener, world: World) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // Without descriptors nothing more can be measured.
            Err(error) => return eprintln!("no more connections to tenants: {error:#}"),
        };
        let world = world.clone();
        tokio::spawn(async move {
            if let Err(error) = world.relay(stream).await {
                eprintln!("a connection to a tenant: {error:#}");
            }
        });
    }
}

impl World {
    async fn relay(self, mut stream: TcpStream) -> Result<()> {
        let Self {
            mut addresses,
            mut dies,
            tenants,
        } = self;
        stream.set_nodelay(true)?;
        let wanted = stream.local_addr()?.ip();
        let known = addresses.wait_for(|known| known.contains_key(&wanted));
        let namespace = match tokio::time::timeout(UNKNOWN, known).await {
            Ok(known) => known?.get(&wanted).cloned().unwrap_or_default(),
            Err(_) => bail!("{wanted} is no tenant's"),
        };
        let is_dead = |dead: &BTreeSet<String>| dead.contains(&namespace);
        let lives = !is_dead(&dies.borrow_and_update());
        // Without a stand-in there is nobody, and the connection is closed.
        let target = tenants.address(&namespace);
        if lives {
            let Some(target) = target else {
                return Ok(());
            };
            tokio::select! {
                () = straight(&mut stream, target) => return Ok(()),
                dead = dies.wait_for(is_dead) => dead.map(drop)?,
            }
        }
        // The end that goes away is no error.
        while matches!(stream.read(&mut [0; 1024]).await, Ok(1..)) {}
        Ok(())
    }
}

/// Hands everything on until one of both ends, which is no error of ours.
async fn straight(stream: &mut TcpStream, target: SocketAddr) {
    if let Ok(mut other) = TcpStream::connect(target).await {
        let _ = other.set_nodelay(true);
        let _ = copy_bidirectional(stream, &mut other).await;
    }
}
