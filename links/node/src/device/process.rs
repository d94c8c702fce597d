//! A TUN device, a UDP socket and the sessions between them, in this process: for machines whose kernel has no
//! WireGuard.
//!
//! Invariants: nothing waits for a full device or socket: what does not go at once is let go, as on any
//! network. The device goes with the process.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, anyhow};
use futures::future::BoxFuture;
use ipnet::IpNet;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tun_rs::{AsyncDevice, DeviceBuilder};

use super::Device;
use crate::entries::canonical;
use crate::key::PublicKey;
use crate::plan::Peer;
use crate::plan::change::Step;
use crate::settings::Family;
use crate::tunnels::{BUFFER, Dropped, Output, Session, TICK, Tunnels};

/// Bytes that wait for this process in the socket at most.
const QUEUE: usize = 1 << 21;

/// The device.
pub struct Process {
    index: u32,
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
    end: watch::Receiver<Option<String>>,
}

struct Shared {
    tun: AsyncDevice,
    socket: UdpSocket,
    /// Never held over an await.
    tunnels: Mutex<Tunnels>,
}

impl Process {
    /// Makes the device and opens the port.
    ///
    /// # Errors
    /// When there is no `/dev/net/tun`, the name or the port is taken, or there is no right to it.
    pub async fn open(name: &str, port: u16, endpoints: Family, tunnels: Tunnels) -> Result<Self> {
        let tun = DeviceBuilder::new().name(name).enable(true).build_async();
        let tun = tun.with_context(|| format!("make the device {name} by /dev/net/tun"))?;
        let index = tun.if_index().context("read the device's number")?;
        let socket = bind(port, endpoints).await;
        let socket = socket.with_context(|| format!("listen on UDP port {port}"))?;
        // More than the default, and less where the machine does not allow it.
        let queues = set_socket_recv_buffer_size(&socket, QUEUE)
            .and_then(|()| set_socket_send_buffer_size(&socket, QUEUE));
        if let Err(error) = queues {
            tracing::debug!(%error, "cannot make the socket's queues longer");
        }
        let shared = Arc::new(Shared {
            tun,
            socket,
            tunnels: Mutex::new(tunnels),
        });
        let (broken, end) = watch::channel(None);
        let broken = Arc::new(broken);
        let tasks = vec![
            tokio::spawn(ended(Arc::clone(&broken), outgoing(Arc::clone(&shared)))),
            tokio::spawn(ended(broken, incoming(Arc::clone(&shared)))),
            tokio::spawn(ticks(Arc::clone(&shared))),
        ];
        Ok(Self {
            index,
            shared,
            tasks,
            end,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Device for Process {
    fn driver(&self) -> &'static str {
        "process"
    }

    fn index(&self) -> u32 {
        self.index
    }

    fn held(&self) -> BoxFuture<'_, Result<BTreeMap<PublicKey, Peer>>> {
        // It begins with nothing.
        Box::pin(std::future::ready(Ok(BTreeMap::new())))
    }

    fn carry_out<'a>(
        &'a self,
        steps: &'a [Step],
        own: BTreeSet<IpNet>,
    ) -> BoxFuture<'a, Result<()>> {
        let mut tunnels = self.shared.tunnels();
        tunnels.set_own(own);
        for step in steps {
            tunnels.carry_out(step);
        }
        // At once, and not at the next turn of the clock: a peer that is new is greeted now.
        tunnels.tick(|output| self.shared.put(output));
        Box::pin(std::future::ready(Ok(())))
    }

    fn sessions(&self) -> BoxFuture<'_, Result<BTreeMap<PublicKey, Session>>> {
        let sessions = self.shared.tunnels().sessions();
        Box::pin(std::future::ready(Ok(sessions)))
    }

    fn dropped(&self) -> Dropped {
        self.shared.tunnels().dropped()
    }

    fn broken(&self) -> BoxFuture<'_, anyhow::Error> {
        let mut end = self.end.clone();
        Box::pin(async move {
            let why = end.wait_for(Option::is_some).await;
            let why = why.ok().and_then(|why| why.clone());
            anyhow!(why.unwrap_or_else(|| "its tasks ended".to_owned()))
        })
    }
}

impl Shared {
    fn tunnels(&self) -> MutexGuard<'_, Tunnels> {
        self.tunnels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, output: Output<'_>) {
        let put = match output {
            Output::Network(to, datagram) => {
                let to = self.dialled(to);
                self.socket.try_send_to(datagram, to)
            }
            Output::Device(packet) => self.tun.try_send(packet),
        };
        if let Err(error) = put {
            // Full, or no way there just now.
            tracing::trace!(%error, "a packet is let go");
        }
    }

    /// A socket of IPv6 sends to IPv4 by addresses that say so.
    fn dialled(&self, to: SocketAddr) -> SocketAddr {
        let six = self.socket.local_addr().is_ok_and(|own| own.is_ipv6());
        match to {
            SocketAddr::V4(four) if six => {
                SocketAddr::new(four.ip().to_ipv6_mapped().into(), four.port())
            }
            to => to,
        }
    }
}

async fn bind(port: u16, endpoints: Family) -> io::Result<UdpSocket> {
    if endpoints == Family::Any {
        match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)).await {
            // No IPv6 on this machine.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {}
            bound => return bound,
        }
    }
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).await
}

async fn ended(broken: Arc<watch::Sender<Option<String>>>, work: impl Future<Output = io::Error>) {
    let error = work.await;
    broken.send_replace(Some(error.to_string()));
}

/// Packets of the device. Ends when there is no device any more.
async fn outgoing(shared: Arc<Shared>) -> io::Error {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = match shared.tun.recv(&mut buffer).await {
            Ok(length) => length,
            Err(error) => return error,
        };
        let Some(packet) = buffer.get(..length) else {
            continue;
        };
        shared
            .tunnels()
            .outgoing(packet, |output| shared.put(output));
    }
}

/// Datagrams of the network. Ends when there is no socket any more.
async fn incoming(shared: Arc<Shared>) -> io::Error {
    let mut buffer = vec![0; BUFFER];
    loop {
        let (length, from) = match shared.socket.recv_from(&mut buffer).await {
            Ok(came) => came,
            // What the network says of a datagram that was sent is no fault of the socket.
            Err(error) if is_of_network(&error) => continue,
            Err(error) => return error,
        };
        let Some(datagram) = buffer.get(..length) else {
            continue;
        };
        shared
            .tunnels()
            .incoming(canonical(from), datagram, |output| shared.put(output));
    }
}

fn is_of_network(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::Interrupted
    )
}

async fn ticks(shared: Arc<Shared>) {
    let mut clock = tokio::time::interval(TICK);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        shared.tunnels().tick(|output| shared.put(output));
    }
}
