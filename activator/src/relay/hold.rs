//! One connection, from its first byte to its last.
//!
//! Invariant: nothing more is read of a client once its ClientHello is whole, until there is who may have it; so what is
//! held of it is at most [`hello::MOST`] bytes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::shared::{Permits, Port, Relay};
use crate::hello::{self, Hello};
use crate::metrics::{Counted, End};
use crate::wakes::{Outcome, Waker};

/// What is made room for at first: what clients of Kubernetes send is a few hundred bytes.
const ROOM: usize = 1024;

/// Serves it to its end; gives what was counted.
pub(super) async fn serve<W: Waker>(
    relay: &Relay<W>,
    mut client: TcpStream,
    address: IpAddr,
    port: &Port,
    Permits {
        all: _all,
        greeting,
    }: Permits,
) -> End {
    // Small messages go back and forth in a handshake.
    let _ = client.set_nodelay(true);
    let deadline = Instant::now() + relay.limits.held;
    let reached = async {
        let hello = timeout(relay.limits.hello, read_hello(&mut client)).await;
        let hello = hello.ok().flatten().ok_or(End::NoHello)?;
        drop(greeting);
        let place = Arc::clone(&port.held).try_acquire_owned();
        let place = place.map_err(|_| End::Full)?;
        let _held = Counted::new(&relay.metrics.held);
        let began = Instant::now();
        let pod = tokio::select! {
            pod = timeout_at(deadline, reach(relay, address, port)) => pod.map_err(|_| End::TimedOut)??,
            () = left(&client) => return Err(End::Left),
        };
        relay.metrics.waited.observe(began.elapsed().as_secs_f64());
        drop(place);
        Ok((hello, pod))
    };
    let (hello, mut pod) = match reached.await {
        Ok(reached) => reached,
        Err(end) => {
            relay.metrics.ended(end);
            return end;
        }
    };
    relay.metrics.ended(End::Spliced);
    let _spliced = Counted::new(&relay.metrics.spliced);
    let _ = pod.set_nodelay(true);
    if pod.write_all(&hello).await.is_ok() {
        drop(hello);
        // Either end may go at any time, and says so to the other.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut pod).await;
    }
    End::Spliced
}

/// What came of a client once it is a whole ClientHello; none when it is none or the client went.
async fn read_hello(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(ROOM);
    loop {
        match hello::read(&bytes) {
            Hello::Whole => return Some(bytes),
            Hello::Not(_) => return None,
            Hello::Partial { .. } => {}
        }
        // `needed` is never more than this, so there is room.
        let room = u64::try_from(hello::MOST - bytes.len()).unwrap_or(0);
        match (&mut *client).take(room).read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// A connection to a pod of whom the port is for.
async fn reach<W: Waker>(relay: &Relay<W>, client: IpAddr, port: &Port) -> Result<TcpStream, End> {
    let mut sleepers = relay.sleepers.clone();
    loop {
        sleepers.borrow_and_update();
        let waited = relay.waited(port).ok_or(End::Gone)?;
        let Some(pod) = waited.server else {
            match relay.wake(&waited, client).await {
                Outcome::Woken | Outcome::Asked => {}
                Outcome::TooOften { .. } => return Err(End::Refused),
            }
            // Told again when somebody is there; asked again when nobody is for long.
            if let Ok(Err(_)) = timeout(relay.limits.again, sleepers.changed()).await {
                return Err(End::Gone);
            }
            continue;
        };
        if let Some(pod) = connect(relay, pod).await {
            return Ok(pod);
        }
        let _ = timeout(relay.limits.pause, sleepers.changed()).await;
    }
}

async fn connect<W: Waker>(relay: &Relay<W>, pod: SocketAddr) -> Option<TcpStream> {
    let connected = timeout(relay.limits.connect, TcpStream::connect(pod)).await;
    match connected {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%error, %pod, "connect");
            None
        }
        Err(_) => None,
    }
}

/// Resolves when the client closes its end while it is held. One that sends more is not looked at any further, as what
/// it sent lies in front of its end.
async fn left(client: &TcpStream) {
    let mut byte = [0];
    match client.peek(&mut byte).await {
        Ok(0) | Err(_) => {}
        Ok(_) => std::future::pending().await,
    }
}
