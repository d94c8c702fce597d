//! Real TLS over loopback: a client, the activator, and a server in the place of a control plane.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::shared::{Limits, Sleepers};
use super::*;
use crate::metrics::Metrics;
use crate::sleepers::Waited;
use crate::wakes::{Error, Outcome, Request};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const NAME: &str = "demo.example.com";

/// Counts wakes, and tells the test.
#[derive(Debug)]
struct Told {
    wakes: mpsc::UnboundedSender<Request>,
    answer: Outcome,
}

impl Waker for Told {
    async fn wake(&self, request: Request) -> Result<Outcome, Error> {
        let _ = self.wakes.send(request);
        Ok(self.answer)
    }
}

struct World {
    port: u16,
    sleepers: watch::Sender<Sleepers>,
    wakes: mpsc::UnboundedReceiver<Request>,
    metrics: Metrics,
    roots: RootCertStore,
    server: TlsAcceptor,
    served: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

fn limits() -> Limits {
    Limits {
        connections: 4,
        pause: Duration::from_millis(5),
        ..Limits::default()
    }
}

impl World {
    async fn new(answer: Outcome, limits: Limits, ranges: &[&str]) -> Self {
        let key = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let certificate = key.cert.der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let secret =
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], secret)
            .unwrap();
        let listener = open(LOOPBACK, 0).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let waited = Waited {
            uid: "0a1b".to_owned(),
            since: Timestamp::UNIX_EPOCH,
            server: None,
            source_ranges: ranges.iter().map(|range| range.parse().unwrap()).collect(),
        };
        let sleepers = watch::Sender::new(Arc::new(BTreeMap::from([(port, waited)])));
        let (sender, wakes) = mpsc::unbounded_channel();
        let metrics = Metrics::default();
        let waker = Told {
            wakes: sender,
            answer,
        };
        let relay = Relay::new(waker, sleepers.subscribe(), limits, metrics.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(relay.accept(listener, port, "0a1b".to_owned()));
        Self {
            port,
            sleepers,
            wakes,
            metrics,
            roots,
            server: TlsAcceptor::from(Arc::new(config)),
            served: Arc::default(),
            tasks,
        }
    }

    /// Starts a control plane that answers each byte with the next one.
    async fn start(&mut self) -> SocketAddr {
        let listener = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (server, served) = (self.server.clone(), Arc::clone(&self.served));
        self.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (server, served) = (server.clone(), Arc::clone(&served));
                connections.spawn(async move {
                    let mut stream = server.accept(stream).await?;
                    served.fetch_add(1, Ordering::Relaxed);
                    while let Ok(byte) = stream.read_u8().await {
                        stream.write_u8(byte.wrapping_add(1)).await?;
                        stream.flush().await?;
                    }
                    io::Result::Ok(())
                });
            }
        });
        address
    }

    fn publish(&self, server: SocketAddr) {
        self.change(|waited| waited.server = Some(server));
    }

    fn change(&self, change: impl FnOnce(&mut Waited)) {
        self.sleepers.send_modify(|sleepers| {
            let mut all = BTreeMap::clone(sleepers);
            change(all.get_mut(&self.port).unwrap());
            *sleepers = Arc::new(all);
        });
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect((LOOPBACK, self.port)).await.unwrap()
    }

    /// One request of a client that tries once.
    fn request(&self, stream: TcpStream) -> impl Future<Output = io::Result<u8>> + Send + use<> {
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        let client = TlsConnector::from(Arc::new(config));
        async move {
            let name = ServerName::try_from(NAME).unwrap();
            let mut stream = client.connect(name, stream).await?;
            stream.write_u8(41).await?;
            stream.flush().await?;
            stream.read_u8().await
        }
    }

    fn count(&self, end: End) -> u64 {
        self.metrics.count(end)
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Until the other end closes; what comes before is not looked at.
async fn closed(mut stream: TcpStream) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
}

#[tokio::test]
async fn the_first_request_of_a_sleeper_succeeds_without_a_second_try() {
    let mut world = World::new(Outcome::Woken, limits(), &["127.0.0.0/8"]).await;
    let stream = world.connect().await;
    let request = tokio::spawn(world.request(stream));
    let woken = world.wakes.recv().await.unwrap();
    assert_eq!(
        (woken.uid.as_str(), woken.client.as_str()),
        ("0a1b", "127.0.0.1")
    );
    let address = world.start().await;
    world.publish(address);
    assert_eq!(request.await.unwrap().unwrap(), 42);
    assert_eq!(world.count(End::Spliced), 1);
    // Who comes later goes straight on, and wakes nobody.
    let stream = world.connect().await;
    assert_eq!(world.request(stream).await.unwrap(), 42);
    assert!(world.wakes.try_recv().is_err());
}

#[tokio::test]
async fn many_first_requests_are_one_wake_and_all_are_answered() {
    let limits = Limits {
        connections: 64,
        ..limits()
    };
    let mut world = World::new(Outcome::Woken, limits, &[]).await;
    let mut requests = JoinSet::new();
    for _ in 0..64 {
        let stream = world.connect().await;
        requests.spawn(world.request(stream));
    }
    world.wakes.recv().await.unwrap();
    // A pod that is said to be ready and does not accept yet.
    let nobody = TcpListener::bind((LOOPBACK, 0))
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    world.publish(nobody);
    let address = world.start().await;
    world.publish(address);
    while let Some(answer) = requests.join_next().await {
        assert_eq!(answer.unwrap().unwrap(), 42);
    }
    assert_eq!(world.served.load(Ordering::Relaxed), 64);
    assert!(world.wakes.try_recv().is_err(), "one wake");
}

#[tokio::test]
async fn whoever_sends_no_hello_wakes_nobody() {
    let mut world = World::new(Outcome::Woken, limits(), &[]).await;
    for _ in 0..10 {
        // A TCP health check.
        drop(world.connect().await);
        let mut http = world.connect().await;
        http.write_all(b"GET /healthz HTTP/1.1\r\n\r\n")
            .await
            .unwrap();
        closed(http).await;
    }
    let mut half = world.connect().await;
    half.write_all(&[22, 3, 1, 2, 0, 1, 0]).await.unwrap();
    half.shutdown().await.unwrap();
    closed(half).await;
    assert!(world.wakes.try_recv().is_err());
    assert_eq!(world.count(End::Spliced), 0);
}

#[tokio::test]
async fn addresses_outside_of_the_ranges_are_closed_before_a_byte_is_read() {
    let mut world = World::new(Outcome::Woken, limits(), &["192.0.2.0/24"]).await;
    let stream = world.connect().await;
    assert!(world.request(stream).await.is_err());
    assert!(world.wakes.try_recv().is_err());
    assert_eq!(world.count(End::Refused), 1);
}

#[tokio::test]
async fn more_than_may_wait_are_closed_and_those_that_wait_are_served() {
    // Each that is held asks for itself.
    let limits = Limits {
        asked: Duration::ZERO,
        ..limits()
    };
    let mut world = World::new(Outcome::Woken, limits, &[]).await;
    let mut requests = JoinSet::new();
    for _ in 0..4 {
        let stream = world.connect().await;
        requests.spawn(world.request(stream));
    }
    for _ in 0..4 {
        world.wakes.recv().await.unwrap();
    }
    let stream = world.connect().await;
    assert!(world.request(stream).await.is_err());
    assert_eq!(world.count(End::Full), 1);
    let address = world.start().await;
    world.publish(address);
    while let Some(answer) = requests.join_next().await {
        assert_eq!(answer.unwrap().unwrap(), 42);
    }
}

#[tokio::test]
async fn a_port_that_goes_to_another_tenant_hands_nobody_over() {
    let mut world = World::new(Outcome::Woken, limits(), &[]).await;
    let stream = world.connect().await;
    let request = tokio::spawn(world.request(stream));
    world.wakes.recv().await.unwrap();
    let address = world.start().await;
    world.change(|waited| {
        waited.uid = "9f8e".to_owned();
        waited.server = Some(address);
    });
    assert!(request.await.unwrap().is_err());
    assert_eq!(world.served.load(Ordering::Relaxed), 0);
    assert_eq!(world.count(End::Gone), 1);
}

#[tokio::test]
async fn who_waits_longer_than_allowed_is_closed() {
    let limits = Limits {
        held: Duration::from_millis(50),
        ..limits()
    };
    let mut world = World::new(Outcome::Asked, limits, &[]).await;
    let stream = world.connect().await;
    assert!(world.request(stream).await.is_err());
    assert!(world.wakes.recv().await.is_some());
    assert_eq!(world.count(End::TimedOut), 1);
}

#[tokio::test]
async fn a_tenant_that_was_woken_too_often_stays_asleep() {
    let until = Timestamp::UNIX_EPOCH;
    let world = World::new(Outcome::TooOften { until }, limits(), &[]).await;
    let stream = world.connect().await;
    assert!(world.request(stream).await.is_err());
    assert_eq!(world.count(End::Refused), 1);
}
