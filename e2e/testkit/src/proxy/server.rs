//! The proxy's process: TLS towards clients, rules, TLS towards the real server.
//!
//! Invariant: headers by which a client could claim to be somebody else are removed.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::ConfigExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::rules::{Action, Asked};
use super::shared::{Body, Shared, Upstream, whole};
use super::{ADDRESSES, Addresses, Settings, control, events};
use crate::certs::Identity;
use crate::faults::status_response;
use crate::request::RequestInfo;

/// Runs the proxy with the settings of a file until it is killed.
pub async fn run(settings: &Path) -> Result<()> {
    let text = std::fs::read(settings).context("cannot read the settings")?;
    let settings_value: Settings = serde_json::from_slice(&text).context("no settings")?;
    let pair = (&*settings_value.serving.0, &*settings_value.serving.1);
    // Not HTTP/2: a fault that closes a connection must hit one request.
    let tls = crate::tls::server(pair, &settings_value.ca, &["http/1.1"])?;
    let shared = Arc::new(Shared {
        rules: Mutex::default(),
        changed: watch::Sender::new(0),
        closed: watch::Sender::new(0),
        requests: AtomicU64::new(0),
        streams: AtomicU64::new(0),
        events: AtomicU64::new(0),
        base: settings_value
            .upstream
            .parse()
            .context("upstream is no URL")?,
        upstream: upstream(&settings_value)?,
    });
    let proxy = listen().await?;
    let control = listen().await?;
    let addresses = Addresses {
        proxy: proxy.1.to_string(),
        control: control.1.to_string(),
    };
    let addresses = serde_json::to_vec(&addresses).context("cannot write the addresses")?;
    let folder = settings.parent().context("the settings are in no folder")?;
    let half = folder.join("addresses.tmp");
    std::fs::write(&half, addresses).context("cannot write the addresses")?;
    std::fs::rename(&half, folder.join(ADDRESSES)).context("cannot write the addresses")?;
    tokio::spawn(control::serve(control.0, Arc::clone(&shared)));
    let acceptor = TlsAcceptor::from(tls);
    loop {
        let (stream, _) = proxy
            .0
            .accept()
            .await
            .context("cannot accept connections")?;
        tokio::spawn(serve(acceptor.clone(), stream, Arc::clone(&shared)));
    }
}

async fn listen() -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))
        .await
        .context("no free port")?;
    let address = listener.local_addr().context("no free port")?;
    Ok((listener, address))
}

fn upstream(settings: &Settings) -> Result<Upstream> {
    let (cert, key) = settings.identity.clone();
    let config =
        crate::apiserver::config(&settings.upstream, &settings.ca, &Identity { cert, key })?;
    let connector = config
        .rustls_https_connector()
        .context("no TLS to the server")?;
    let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .build::<_, Incoming>(connector);
    Ok(Box::new(move |request| {
        let sent = client.request(request);
        Box::pin(async move { sent.await.map_err(Into::into) })
    }))
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream, shared: Arc<Shared>) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let who = certificates.and_then(|chain| crate::tls::subject(chain.first()?));
    let service = service_fn(|request| handle(request, Arc::clone(&shared), who.clone()));
    let http = hyper::server::conn::http1::Builder::new();
    // An error is a fault that was asked for, or a client that went away.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

/// An error closes the connection without an answer.
async fn handle(
    mut request: Request<Incoming>,
    shared: Arc<Shared>,
    who: Option<(String, Vec<String>)>,
) -> Result<Response<Body>> {
    shared.requests.fetch_add(1, Ordering::SeqCst);
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |p| p.as_str())
        .to_owned();
    let info = RequestInfo::new(request.method(), request.uri());
    let user = who
        .as_ref()
        .map(|(user, _)| user.clone())
        .unwrap_or_default();
    let asked = Asked {
        info,
        path: path.clone(),
        user,
    };
    let actions = shared.rules().for_request(&asked);
    let mut lose = false;
    for action in actions {
        match action {
            Action::Answer {
                status,
                retry_after,
            } => {
                return Ok(status_response(status, retry_after).map(whole));
            }
            Action::Refuse => bail!("refused"),
            Action::LoseReply => lose = true,
            Action::Delay { milliseconds } => {
                tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            }
            // Of events, not of requests.
            _ => {}
        }
    }
    identify(request.headers_mut(), who)?;
    *request.uri_mut() = format!("{}{path}", shared.base.to_string().trim_end_matches('/'))
        .parse()
        .context("not a URL")?;
    let sent = (shared.upstream)(request).await;
    let answer = sent.map_err(|error| anyhow::anyhow!(error))?;
    if lose {
        // The answer begins once the request is carried out; the rest of it is of no interest.
        bail!("the reply is lost");
    }
    let watch = asked.info.verb == "watch" && answer.status().is_success();
    Ok(answer.map(|body| match watch {
        true => events::body(body, asked, shared),
        false => body.map_err(Into::into).boxed_unsync(),
    }))
}

/// Says who asks, in the headers of an authenticating proxy.
fn identify(headers: &mut HeaderMap, who: Option<(String, Vec<String>)>) -> Result<()> {
    let forged: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-remote-"))
        .cloned()
        .collect();
    for name in forged {
        headers.remove(name);
    }
    // Watch events are looked at, so they must come as plain text.
    headers.remove(header::ACCEPT_ENCODING);
    headers.remove(header::HOST);
    if let Some((user, groups)) = who {
        headers.insert(
            "x-remote-user",
            HeaderValue::from_str(&user).context("odd user")?,
        );
        for group in groups {
            let group = HeaderValue::from_str(&group).context("odd group")?;
            headers.append("x-remote-group", group);
        }
    }
    Ok(())
}
