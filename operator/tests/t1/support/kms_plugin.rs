//! A plugin of KMS v2 for tests: the three calls of `v2.KeyManagementService` over a socket, with a "key" that is one byte.
//!
//! Messages are written and read by hand, because they have nothing but texts and bytes
//! (`k8s.io/kms/apis/v2/api.proto`, 1.34).
//! Invariant: what it encrypted it opens again, whatever plugin of this kind did it.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use anyhow::Result;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tenant_cp::kms::SOCKET;
use tokio::net::UnixListener;
use tokio::task::{JoinHandle, JoinSet};

/// What it calls its key.
const KEY: &str = "key-1";
/// The key.
const MASK: u8 = 0x5a;
/// Bytes before a message of gRPC: whether it is compressed, and its length.
const FRAME: usize = 5;

/// One that runs; dropped, its KMS is away.
pub(crate) struct KmsPlugin {
    task: JoinHandle<()>,
    socket: PathBuf,
}

impl KmsPlugin {
    /// Listens in the folder of its name.
    pub(crate) fn start(sockets: &Path, name: &str) -> Result<Self> {
        let folder = sockets.join(name);
        std::fs::create_dir_all(&folder)?;
        let socket = folder.join(SOCKET);
        let listener = UnixListener::bind(&socket)?;
        let task = tokio::spawn(serve(listener));
        Ok(Self { task, socket })
    }
}

impl Drop for KmsPlugin {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.socket);
    }
}

async fn serve(listener: UnixListener) {
    // They end with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(async move {
            let server = http2::Builder::new(TokioExecutor::new());
            let connection = server.serve_connection(TokioIo::new(stream), service_fn(answer));
            let _ = connection.await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let call = request.uri().path().to_owned();
    let body = request.into_body().collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let asked = body.get(FRAME..).unwrap_or_default();
    // The first field of both is what is to be encrypted, or opened.
    let turned: Vec<u8> = first_field(asked).iter().map(|byte| byte ^ MASK).collect();
    let mut told = Vec::new();
    match call.as_str() {
        "/v2.KeyManagementService/Status" => {
            put(&mut told, 1, b"v2");
            put(&mut told, 2, b"ok");
            put(&mut told, 3, KEY.as_bytes());
        }
        "/v2.KeyManagementService/Encrypt" => {
            put(&mut told, 1, &turned);
            put(&mut told, 2, KEY.as_bytes());
        }
        _ => put(&mut told, 1, &turned),
    }
    let length = u32::try_from(told.len()).unwrap_or_default();
    let mut framed = vec![0];
    framed.extend(length.to_be_bytes());
    framed.extend(told);
    let trailers = HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-status"),
        HeaderValue::from_static("0"),
    )]);
    let body = Full::new(Bytes::from(framed));
    let body = body.with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut response = Response::new(body.boxed());
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        HeaderValue::from_static("application/grpc"),
    );
    Ok(response)
}

/// Adds a field of text or bytes.
fn put(message: &mut Vec<u8>, number: u8, value: &[u8]) {
    message.push(number << 3 | 2);
    let mut length = value.len();
    while length >= 0x80 {
        message.push(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
        length >>= 7;
    }
    message.push(u8::try_from(length).unwrap_or_default());
    message.extend(value);
}

/// The bytes of the field 1; nothing where a message does not begin with it.
fn first_field(message: &[u8]) -> &[u8] {
    let Some((&0x0a, mut rest)) = message.split_first() else {
        return &[];
    };
    let (mut length, mut shift) = (0_usize, 0);
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        length |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 || shift > 28 {
            break;
        }
    }
    rest.get(..length).unwrap_or_default()
}
