//! The least that so many calls one after another can take on this machine: as many messages there and
//! back over loopback, between two threads that do nothing else, without HTTP/2, gRPC and an answer.
//!
//! Invariant: blocking sockets and the fewest system calls there are, so that nobody who serves calls
//! can be quicker.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

use testkit::figures::spread;

use super::{Certificates, per_call};

/// About what a call and its answer have, with their HTTP/2 frames.
const BYTES: usize = 128;
/// Loops that are measured.
const LOOPS: usize = 20;

/// Milliseconds for `calls` messages there and back.
pub(crate) fn floor(calls: usize, certificates: &Certificates) -> Result<serde_json::Value> {
    let tcp = pair(Ok, Ok)?;
    let (server, client) = configs(certificates)?;
    let name = ServerName::try_from("localhost")?;
    let tls = pair(
        move |stream| {
            let connection = ServerConnection::new(server)?;
            Ok(StreamOwned::new(connection, stream))
        },
        move |stream| {
            let connection = ClientConnection::new(client, name)?;
            Ok(StreamOwned::new(connection, stream))
        },
    )?;
    Ok(serde_json::json!({ "tcp": loops(tcp, calls)?, "tls": loops(tls, calls)? }))
}

/// A connection to a thread that sends everything back.
fn pair<S: Read + Write, C: Read + Write>(
    serve: impl FnOnce(TcpStream) -> Result<S> + Send + 'static,
    connect: impl FnOnce(TcpStream) -> Result<C>,
) -> Result<C> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || -> Result<()> {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let (mut stream, mut message) = (serve(stream)?, [0; BYTES]);
        loop {
            stream.read_exact(&mut message)?;
            stream.write_all(&message)?;
        }
    });
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    connect(stream)
}

fn loops(mut stream: impl Read + Write, calls: usize) -> Result<serde_json::Value> {
    let (mut message, mut times) = ([0; BYTES], Vec::new());
    for number in 0..=LOOPS {
        let begin = Instant::now();
        for _ in 0..calls {
            stream.write_all(&message)?;
            stream.read_exact(&mut message)?;
        }
        // The first one shakes hands.
        if number > 0 {
            times.push(begin.elapsed().as_secs_f64() * 1000.0);
        }
    }
    let times = spread(&times);
    Ok(serde_json::json!({ "ms": times, "call_us": per_call(&times, calls) }))
}

fn configs(certificates: &Certificates) -> Result<(Arc<ServerConfig>, Arc<ClientConfig>)> {
    let provider = || Arc::new(ring::default_provider());
    let (chain, key) = &certificates.server;
    let chain = vec![CertificateDer::from_pem_slice(chain.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let server = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificates.ca.as_bytes())?)?;
    let client = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((Arc::new(server), Arc::new(client)))
}
