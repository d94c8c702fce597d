//! Real handshakes over loopback.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::routing::get;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertifiedKey as Issued, generate_simple_self_signed};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::shutdown::Shutdown;

struct Pair {
    chain: String,
    key: String,
    der: CertificateDer<'static>,
}

fn pair() -> Pair {
    let Issued { cert, signing_key } = generate_simple_self_signed(["covey.test".into()]).unwrap();
    Pair {
        chain: cert.pem(),
        key: signing_key.serialize_pem(),
        der: cert.der().clone(),
    }
}

fn certificate(pair: &Pair) -> Certificate {
    Certificate::from_pem(pair.chain.as_bytes(), pair.key.as_bytes()).unwrap()
}

async fn start(certificate: &Certificate, settings: Settings, shutdown: &Shutdown) -> Server {
    let router = axum::Router::new().route("/", get(async || "hello"));
    let config = certificate.server_config().unwrap();
    serve(
        ([127, 0, 0, 1], 0).into(),
        config,
        router,
        settings,
        shutdown,
    )
    .await
    .unwrap()
}

/// Connects with HTTP/1.1, trusting only this certificate.
async fn connect(address: SocketAddr, trusted: &Pair) -> std::io::Result<TlsStream<TcpStream>> {
    connect_with(address, trusted, "http/1.1").await
}

/// Connects with one protocol of HTTP (ALPN).
async fn connect_with(
    address: SocketAddr,
    trusted: &Pair,
    protocol: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der.clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.into()];
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("covey.test").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

async fn fetch(stream: &mut TlsStream<TcpStream>) -> String {
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: covey.test\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    let mut buffer = [0; 1024];
    while !answer.ends_with("hello") {
        let count = stream.read(&mut buffer).await.unwrap();
        assert_ne!(count, 0, "the answer ends early: {answer}");
        answer.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    answer
}

#[tokio::test]
async fn a_swapped_certificate_serves_new_connections_and_keeps_the_old_ones() {
    let (old, new) = (pair(), pair());
    let certificate = certificate(&old);
    let shutdown = Shutdown::new();
    let server = start(&certificate, Settings::default(), &shutdown).await;
    let mut first = connect(server.address, &old)
        .await
        .expect("the old one is served");
    assert!(fetch(&mut first).await.starts_with("HTTP/1.1 200"));
    let version = first.get_ref().1.protocol_version();
    assert_eq!(version, Some(rustls::ProtocolVersion::TLSv1_3));

    assert!(
        certificate
            .replace(new.chain.as_bytes(), new.key.as_bytes())
            .unwrap()
    );
    assert!(
        !certificate
            .replace(new.chain.as_bytes(), new.key.as_bytes())
            .unwrap(),
        "the same"
    );
    connect(server.address, &new)
        .await
        .expect("the new one is served");
    connect(server.address, &old)
        .await
        .expect_err("the old one is not");
    assert!(
        fetch(&mut first).await.starts_with("HTTP/1.1 200"),
        "open connections go on"
    );
}

#[test]
fn a_pair_that_does_not_fit_never_replaces_one_that_works() {
    let (good, other) = (pair(), pair());
    let certificate = certificate(&good);
    let before = certificate.get().unwrap();
    let replace = |chain: &str, key: &str| certificate.replace(chain.as_bytes(), key.as_bytes());
    assert!(matches!(
        replace(&other.chain, &good.key),
        Err(Error::Mismatch(_))
    ));
    assert!(matches!(
        replace("", &good.key),
        Err(Error::Certificate(None))
    ));
    assert!(matches!(
        replace(&good.chain, "nonsense"),
        Err(Error::Key(_))
    ));
    assert!(Arc::ptr_eq(&before, &certificate.get().unwrap()));
}

#[tokio::test]
async fn without_a_certificate_handshakes_fail_until_there_is_one() {
    let pair = pair();
    let certificate = Certificate::empty();
    let shutdown = Shutdown::new();
    let server = start(&certificate, Settings::default(), &shutdown).await;
    assert!(!certificate.is_set());
    connect(server.address, &pair)
        .await
        .expect_err("no certificate yet");
    certificate
        .replace(pair.chain.as_bytes(), pair.key.as_bytes())
        .unwrap();
    connect(server.address, &pair)
        .await
        .expect("there is one now");
}

#[tokio::test]
async fn a_peer_that_never_speaks_is_cut_and_gives_its_place_to_the_next() {
    let pair = pair();
    let shutdown = Shutdown::new();
    let handshake = Duration::from_millis(50);
    let settings = Settings {
        connections: 1,
        handshake,
        ..Settings::default()
    };
    let server = start(&certificate(&pair), settings, &shutdown).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    // Comes when all places are taken.
    let mut next = connect(server.address, &pair)
        .await
        .expect("its turn comes");
    assert!(fetch(&mut next).await.ends_with("hello"));
    assert_eq!(
        silent.read(&mut [0; 8]).await.unwrap_or(0),
        0,
        "the silent one is closed"
    );
}

#[tokio::test]
async fn connection_that_waits_for_its_next_request_stays_for_longer_than_clients_keep_it() {
    let pair = pair();
    let shutdown = Shutdown::new();
    let settings = Settings::default();
    let server = start(&certificate(&pair), settings, &shutdown).await;
    let mut kept = connect(server.address, &pair).await.unwrap();
    fetch(&mut kept).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(100)).await;
    tokio::time::resume();
    let ended = tokio::time::timeout(Duration::from_millis(100), kept.read(&mut [0; 8])).await;
    assert!(ended.is_err(), "{ended:?}");
    assert!(fetch(&mut kept).await.ends_with("hello"));

    tokio::time::pause();
    tokio::time::advance(settings.idle).await;
    tokio::time::resume();
    assert_eq!(kept.read(&mut [0; 8]).await.unwrap_or(0), 0);
}

/// Connects with HTTP/2.
async fn connect_h2(
    address: SocketAddr,
    trusted: &Pair,
) -> hyper::client::conn::http2::SendRequest<String> {
    let stream = TokioIo::new(connect_with(address, trusted, "h2").await.unwrap());
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
    let (client, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn a_request_that_waits_holds_up_no_other_of_its_connection() {
    for at_once in [false, true] {
        let pair = pair();
        let gate = Arc::new(tokio::sync::Notify::new());
        let (waits, opens) = (Arc::clone(&gate), gate);
        let late = async move || {
            waits.notified().await;
            "late"
        };
        let open = async move || {
            opens.notify_one();
            "open"
        };
        let router = axum::Router::new()
            .route("/late", get(late))
            .route("/open", get(open));
        let shutdown = Shutdown::new();
        let settings = Settings {
            at_once,
            ..Settings::default()
        };
        let config = certificate(&pair).server_config().unwrap();
        let address = ([127, 0, 0, 1], 0).into();
        let server = serve(address, config, router, settings, &shutdown).await;
        let mut client = connect_h2(server.unwrap().address, &pair).await;
        let mut ask = |path: &str| {
            let uri = format!("https://covey.test{path}");
            let request = http::Request::builder().uri(uri).body(String::new());
            let answer = client.send_request(request.unwrap());
            async { answer.await.unwrap().into_body().collect().await.unwrap() }
        };
        let (late, open) = tokio::join!(ask("/late"), ask("/open"));
        assert_eq!(late.to_bytes(), "late", "{at_once}");
        assert_eq!(open.to_bytes(), "open", "{at_once}");
    }
}

#[tokio::test]
async fn crowds_that_never_finish_a_request_keep_nobody_out() {
    let pair = pair();
    let shutdown = Shutdown::new();
    // No time-out helps here.
    let settings = Settings {
        connections: 8,
        handshake: Duration::from_secs(3600),
        idle: Duration::from_secs(3600),
        ..Settings::default()
    };
    let server = start(&certificate(&pair), settings, &shutdown).await;
    let mut known = connect(server.address, &pair).await.unwrap();
    fetch(&mut known).await;
    let mut crowd = Vec::new();
    for _ in 0..3 * settings.connections {
        // TCP alone, TLS alone, and half a head.
        crowd.push((TcpStream::connect(server.address).await.unwrap(), None));
        let mut stream = connect(server.address, &pair).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        let raw = TcpStream::connect(server.address).await.unwrap();
        crowd.push((raw, Some(stream)));
    }
    assert!(
        fetch(&mut known).await.ends_with("hello"),
        "it keeps its place"
    );
    let mut next = connect(server.address, &pair).await.expect("it comes in");
    assert!(fetch(&mut next).await.ends_with("hello"));
}

#[tokio::test]
async fn a_connection_has_no_more_requests_at_once_than_it_may() {
    let pair = pair();
    let (arrived, gate) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(tokio::sync::Semaphore::new(0)),
    );
    let (counted, waits) = (Arc::clone(&arrived), Arc::clone(&gate));
    let router = axum::Router::new().route(
        "/",
        get(async move || {
            counted.fetch_add(1, Ordering::SeqCst);
            // Each permit lets one pass.
            waits.acquire().await.unwrap().forget();
            "hello"
        }),
    );
    let shutdown = Shutdown::new();
    let settings = Settings {
        streams: 3,
        ..Settings::default()
    };
    let config = certificate(&pair).server_config().unwrap();
    let server = serve(
        ([127, 0, 0, 1], 0).into(),
        config,
        router,
        settings,
        &shutdown,
    )
    .await
    .unwrap();
    let mut client = connect_h2(server.address, &pair).await;
    // With the first answer the client knows what the server allows.
    let ask = |client: &mut hyper::client::conn::http2::SendRequest<String>| {
        let request = http::Request::get("https://covey.test/").body(String::new());
        client.send_request(request.unwrap())
    };
    gate.add_permits(1);
    ask(&mut client).await.unwrap();
    arrived.store(0, Ordering::SeqCst);
    let mut all: futures::stream::FuturesUnordered<_> = (0..10).map(|_| ask(&mut client)).collect();
    // Answers come one by one, and never are more than three being worked on.
    for answered in 0..10 {
        while arrived.load(Ordering::SeqCst) < (answered + 3).min(10) {
            tokio::select! {
                biased;
                answer = all.next() => panic!("{answer:?} before its turn"),
                () = tokio::task::yield_now() => {}
            }
        }
        assert_eq!(arrived.load(Ordering::SeqCst), (answered + 3).min(10));
        gate.add_permits(1);
        all.next().await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn at_shutdown_idle_connections_end_and_the_port_closes() {
    let pair = pair();
    let shutdown = Shutdown::new();
    let server = start(&certificate(&pair), Settings::default(), &shutdown).await;
    let address = server.address;
    let mut idle = connect(address, &pair).await.unwrap();
    fetch(&mut idle).await;
    shutdown.trigger();
    tokio::time::timeout(Duration::from_secs(5), server.ended())
        .await
        .expect("it ends by itself");
    assert_eq!(idle.read(&mut [0; 8]).await.unwrap_or(0), 0);
    TcpStream::connect(address)
        .await
        .expect_err("the port is closed");
}
