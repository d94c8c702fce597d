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
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use super::*;

/// Answers everything with a line and no end, as a watch.
struct Server {
    config: Config,
    connections: Arc<AtomicUsize>,
}

impl Server {
    async fn start(protocols: &[&[u8]]) -> Self {
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
                count.fetch_add(1, Ordering::SeqCst);
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let stream = acceptor.accept(stream).await.expect("a handshake");
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
