//! Against a server on loopback that counts its connections.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream::{self, StreamExt as _};
use http_body_util::StreamBody;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt as _;

use super::*;

/// Answers everything with a line and no end, as a watch.
struct Server {
    config: Config,
    connections: Arc<AtomicUsize>,
}

impl Server {
    async fn start(protocols: &[&[u8]]) -> Self {
        Self::start_leaving(protocols, 0).await
    }

    /// The first connections are left as soon as something is asked.
    async fn start_leaving(protocols: &[&[u8]], leaves: usize) -> Self {
        install_crypto();
        let issued = generate_simple_self_signed(vec!["localhost".to_owned()]);
        let CertifiedKey { cert, signing_key } = issued.expect("a certificate");
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
        let mut tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .expect("a certificate and its key");
        tls.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let stream = acceptor.accept(stream).await.expect("a handshake");
                    if number < leaves {
                        // It ends with the client.
                        return drop(leave(stream).await);
                    }
                    let answer = service_fn(|_| async { Ok::<_, Infallible>(endless()) });
                    let server = auto::Builder::new(TokioExecutor::new());
                    // It ends with the client.
                    let _ = server.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        let url = format!("https://localhost:{port}");
        let mut config = Config::new(url.parse().expect("a URL"));
        config.root_cert = Some(vec![cert.der().to_vec()]);
        Self {
            config,
            connections,
        }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn endless() -> Response<impl HttpBody<Data = Bytes, Error = Infallible>> {
    let line = stream::iter([Ok(Frame::data(Bytes::from_static(b"{}\n")))]);
    Response::new(StreamBody::new(line.chain(stream::pending())))
}

/// Sends requests one after another; gives the answers, whose ends never come.
async fn ask(transport: &mut Transport, times: usize) -> Vec<Response<Box<DynBody>>> {
    let mut answers = Vec::new();
    for _ in 0..times {
        let request = Request::get("/watch").body(Body::empty());
        let ready = transport.ready().await.expect("it is always ready");
        let answer = ready.call(request.expect("a request"));
        answers.push(answer.await.expect("an answer"));
    }
    answers
}

#[tokio::test]
async fn watches_share_connections_and_none_waits_for_another() {
    let server = Server::start(&[b"h2", b"http/1.1"]).await;
    let mut transport = transport(&server.config).expect("a transport");
    let first = ask(&mut transport, MOST_STREAMS).await;
    assert_eq!(server.connections(), 1);
    let more = ask(&mut transport, 2 * MOST_STREAMS).await;
    assert_eq!(server.connections(), 3);
    drop((first, more));
    let _again = ask(&mut transport, 3 * MOST_STREAMS).await;
    assert_eq!(server.connections(), 3);
}

/// Frames of HTTP/2 (RFC 9113 §4.1): the settings of who has none, and GOAWAY of one that took no stream.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const GOAWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// The type of the frame that begins a request.
const HEADERS: u8 = 1;

/// A server that leaves as soon as it is asked, and did nothing.
async fn leave(mut stream: TlsStream<TcpStream>) -> std::io::Result<()> {
    stream.write_all(&SETTINGS).await?;
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await?;
        if head[3] == HEADERS {
            break;
        }
    }
    stream.write_all(&GOAWAY).await?;
    stream.flush().await?;
    // Were it closed with something unread, the client might never read the above.
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(())
}

#[tokio::test]
async fn request_that_a_server_leaves_untouched_is_sent_to_the_next() {
    let server = Server::start_leaving(&[b"h2"], 1).await;
    let mut transport = transport(&server.config).expect("a transport");
    let request = Request::post("/objects").body(Body::from(b"{}".to_vec()));
    let ready = transport.ready().await.expect("it is always ready");
    let answer = ready.call(request.expect("a request")).await;
    assert_eq!(answer.expect("an answer").status(), 200);
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn server_that_always_leaves_is_asked_twice() {
    let server = Server::start_leaving(&[b"h2"], usize::MAX).await;
    let mut transport = transport(&server.config).expect("a transport");
    let request = Request::get("/objects").body(Body::empty());
    let ready = transport.ready().await.expect("it is always ready");
    let answer = ready.call(request.expect("a request")).await;
    assert!(answer.is_err());
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_server_without_http2_is_spoken_to_all_the_same() {
    let server = Server::start(&[b"http/1.1"]).await;
    let mut transport = transport(&server.config).expect("a transport");
    let answers = ask(&mut transport, 3).await;
    assert!(answers.iter().all(|answer| answer.status() == 200));
    assert_eq!(server.connections(), 3);
}

#[test]
fn a_proxy_is_refused_and_not_passed_by() {
    let mut config = Config::new("https://localhost".parse().expect("a URL"));
    config.proxy_url = Some("http://localhost:3128".parse().expect("a URL"));
    let refused = transport(&config).expect_err("proxies are not supported");
    assert!(refused.to_string().contains("proxy-url"), "{refused}");
}
