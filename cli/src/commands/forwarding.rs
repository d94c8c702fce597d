//! Ports of this machine that lead to a pod of the management cluster, for as long as a command runs.
//!
//! Invariant: only programs of this machine reach them, and what is sent through them is not looked at.

use std::io;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kit_client::errors::chain;
use kube::api::Api;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::exit::{Exit, Failure};
use crate::output::say;

/// Connections that are forwarded at once.
const AT_ONCE: usize = 32;

/// Listens on a port of 127.0.0.1 (0: one that is free), and says which it is.
pub(super) async fn listen(port: u16) -> Result<(TcpListener, u16), Failure> {
    let failed = |error: io::Error| {
        let (what, mend) = match error.kind() {
            io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => (
                format!("cannot listen on 127.0.0.1:{port}: {error}"),
                "choose another `--port`, or none",
            ),
            _ => (
                format!("cannot listen on 127.0.0.1: {error}"),
                "look at the limits of this process: `ulimit -a`",
            ),
        };
        Failure::new(Exit::Failed, &what, mend)
    };
    let listener = TcpListener::bind(("127.0.0.1", port))
        .await
        .map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    Ok((listener, port))
}

/// A port of this machine that leads to one of a pod.
pub(super) struct Forward {
    pub(super) listener: TcpListener,
    pub(super) pods: Api<Pod>,
    pub(super) pod: String,
    pub(super) port: u16,
}

impl Forward {
    /// Forwards connections until nobody can listen any more.
    pub(super) async fn run(self) {
        let room = Arc::new(Semaphore::new(AT_ONCE));
        loop {
            let Ok(place) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            let Ok((stream, _)) = self.listener.accept().await else {
                return;
            };
            let (pods, pod, port) = (self.pods.clone(), self.pod.clone(), self.port);
            tokio::spawn(async move {
                if let Err(error) = one(&pods, &pod, port, stream).await {
                    say(&format!(
                        "a connection by way of pod {pod} was lost: {}",
                        chain(&error)
                    ));
                }
                drop(place);
            });
        }
    }
}

async fn one(
    pods: &Api<Pod>,
    pod: &str,
    port: u16,
    mut stream: TcpStream,
) -> Result<(), kube::Error> {
    let mut forwarder = pods.portforward(pod, &[port]).await?;
    if let Some(mut there) = forwarder.take_stream(port) {
        // Either end may go at any time, which is how connections end.
        let _ = copy_bidirectional(&mut stream, &mut there).await;
    }
    forwarder.abort();
    Ok(())
}
