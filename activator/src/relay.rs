//! From a connection to a pod: waits for a ClientHello, asks to wake, holds, and hands the bytes on.
//!
//! Invariant: a connection is for the UID that its port was for when it was accepted, and reaches a pod of that one or
//! none; every wait before the pod ends by [`shared::Limits::held`]; a sleeper's clients take no more than its limits, and one that
//! sends nothing takes no place of one that is held.

mod hold;
pub mod shared;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::metrics::{Counted, End};
use crate::plan;
use crate::wakes::Waker;
use shared::{Permits, Port, Relay};

impl<W: Waker> Relay<W> {
    /// Accepts connections of a sleeper for as long as this is polled; those that were accepted go on without it.
    pub async fn accept(self: Arc<Self>, listener: TcpListener, number: u16, uid: String) {
        let port = Arc::new(Port {
            number,
            uid,
            greeting: Arc::new(Semaphore::new(self.limits.connections)),
            held: Arc::new(Semaphore::new(self.limits.connections)),
        });
        let _open = Counted::new(&self.metrics.ports);
        loop {
            match listener.accept().await {
                Ok((stream, client)) => self.accepted(stream, client, &port),
                // Files have run out, or the client went: neither is of this port alone.
                Err(error) => {
                    tracing::warn!(%error, port = number, "accept");
                    tokio::time::sleep(self.limits.pause).await;
                }
            }
        }
    }

    /// Closes it at once, or lets it wait.
    fn accepted(self: &Arc<Self>, stream: TcpStream, client: SocketAddr, port: &Arc<Port>) {
        let client = client.ip().to_canonical();
        let end = match self.admit(client, port) {
            Ok(permits) => {
                let (relay, port) = (Arc::clone(self), Arc::clone(port));
                let connection = Box::pin(async move {
                    let end = hold::serve(&relay, stream, client, &port, permits).await;
                    tracing::debug!(?end, %client, uid = port.uid, "connection");
                });
                drop(tokio::spawn(connection));
                return;
            }
            Err(end) => end,
        };
        self.metrics.ended(end);
    }

    fn admit(&self, client: IpAddr, port: &Port) -> Result<Permits, End> {
        let waited = self.waited(port).ok_or(End::Gone)?;
        if !plan::is_allowed(&waited.source_ranges, client) {
            return Err(End::Refused);
        }
        let permit =
            |of: &Arc<Semaphore>| Arc::clone(of).try_acquire_owned().map_err(|_| End::Full);
        Ok(Permits {
            all: permit(&self.all)?,
            greeting: permit(&port.greeting)?,
        })
    }
}

/// Opens a port.
///
/// # Errors
/// When it is taken.
pub async fn open(address: IpAddr, port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((address, port)).await
}

#[cfg(test)]
mod tests;
