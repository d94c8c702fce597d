//! The kernel's WireGuard, by generic netlink (`linux/wireguard.h`).
//!
//! Invariants: the device and its sessions outlive this process, so what it has is read before it is told
//! anything. Which addresses of this node a peer's packets are for the kernel does not ask.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow, bail};
use boringtun::x25519::StaticSecret;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use genetlink::GenetlinkHandle;
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_generic::GenlMessage;
use netlink_packet_wireguard::{
    WireguardAddressFamily, WireguardAllowedIp, WireguardAllowedIpAttr, WireguardAttribute,
    WireguardCmd, WireguardMessage, WireguardPeer, WireguardPeerAttribute, WireguardPeerFlags,
};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::Device;
use crate::key::PublicKey;
use crate::netlink::Netlink;
use crate::plan::Peer;
use crate::plan::change::Step;
use crate::tunnels::{Dropped, Session};

/// The device.
pub struct Kernel {
    index: u32,
    handle: GenetlinkHandle,
    connection: JoinHandle<()>,
    gone: Arc<Gone>,
}

/// That the device is there no more, and how that was seen.
#[derive(Default)]
struct Gone {
    why: Mutex<Option<String>>,
    seen: Notify,
}

impl Kernel {
    /// Makes the device, or takes the one that is there. None where the kernel has no WireGuard.
    ///
    /// # Errors
    /// When the name is another device's, the port is taken, or there is no right to it.
    pub async fn open(
        netlink: &Netlink,
        name: &str,
        port: u16,
        private: &StaticSecret,
    ) -> Result<Option<Self>> {
        if !netlink.add_wireguard(name).await? {
            return Ok(None);
        }
        let index = netlink.index(name).await?;
        let (connection, handle, _) = genetlink::new_connection().context("open netlink")?;
        let kernel = Self {
            index,
            handle,
            connection: tokio::spawn(connection),
            gone: Arc::default(),
        };
        let attributes = vec![
            WireguardAttribute::IfIndex(index),
            WireguardAttribute::PrivateKey(private.to_bytes()),
            WireguardAttribute::ListenPort(port),
        ];
        let set = kernel.set(attributes).await;
        set.with_context(|| format!("give the device {name} its key and UDP port {port}"))?;
        Ok(Some(kernel))
    }

    async fn set(&self, attributes: Vec<WireguardAttribute>) -> Result<()> {
        let flags = NLM_F_REQUEST | NLM_F_ACK;
        self.request(WireguardCmd::SetDevice, attributes, flags)
            .await?;
        Ok(())
    }

    /// What the device has of each peer.
    async fn peers(&self) -> Result<BTreeMap<PublicKey, Vec<WireguardPeerAttribute>>> {
        let device = vec![WireguardAttribute::IfIndex(self.index)];
        let flags = NLM_F_REQUEST | NLM_F_DUMP;
        let read = self.request(WireguardCmd::GetDevice, device, flags).await;
        let messages = read.inspect_err(|error| {
            let mut why = self.gone.why.lock().unwrap_or_else(PoisonError::into_inner);
            *why = Some(format!("the device does not answer: {error:#}"));
            self.gone.seen.notify_one();
        })?;
        Ok(by_key(messages))
    }

    async fn request(
        &self,
        cmd: WireguardCmd,
        attributes: Vec<WireguardAttribute>,
        flags: u16,
    ) -> Result<Vec<WireguardMessage>> {
        let message = GenlMessage::from_payload(WireguardMessage { cmd, attributes });
        let mut message = NetlinkMessage::from(message);
        message.header.flags = flags;
        let mut handle = self.handle.clone();
        let answers = handle.request(message).await;
        let mut answers = answers.map_err(|error| anyhow!("ask the kernel: {error}"))?;
        let mut all = Vec::new();
        while let Some(answer) = answers.next().await {
            let answer = answer.map_err(|error| anyhow!("read the kernel's answer: {error}"))?;
            match answer.payload {
                NetlinkPayload::Error(error) if error.code.is_some() => bail!(error.to_io()),
                NetlinkPayload::InnerMessage(message) => all.push(message.payload),
                _ => {}
            }
        }
        Ok(all)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Device for Kernel {
    fn driver(&self) -> &'static str {
        "kernel"
    }

    fn index(&self) -> u32 {
        self.index
    }

    fn held(&self) -> BoxFuture<'_, Result<BTreeMap<PublicKey, Peer>>> {
        Box::pin(async move {
            let peers = self.peers().await?.into_iter();
            Ok(peers.map(|(key, has)| (key, peer(&has))).collect())
        })
    }

    fn carry_out<'a>(&'a self, steps: &'a [Step], _: BTreeSet<IpNet>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            for step in steps {
                let attributes = vec![
                    WireguardAttribute::IfIndex(self.index),
                    WireguardAttribute::Peers(vec![WireguardPeer(attributes(step))]),
                ];
                self.set(attributes).await.context("set a peer")?;
            }
            Ok(())
        })
    }

    fn sessions(&self) -> BoxFuture<'_, Result<BTreeMap<PublicKey, Session>>> {
        Box::pin(async move {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let now = now.unwrap_or_default();
            let peers = self.peers().await?.into_iter();
            Ok(peers.map(|(key, has)| (key, session(&has, now))).collect())
        })
    }

    fn dropped(&self) -> Dropped {
        // The kernel counts them for nobody.
        Dropped::default()
    }

    fn broken(&self) -> BoxFuture<'_, anyhow::Error> {
        Box::pin(async move {
            self.gone.seen.notified().await;
            let why = self.gone.why.lock().unwrap_or_else(PoisonError::into_inner);
            anyhow!(why.clone().unwrap_or_default())
        })
    }
}

/// Peers of all messages: one that has many ranges comes in several.
fn by_key(messages: Vec<WireguardMessage>) -> BTreeMap<PublicKey, Vec<WireguardPeerAttribute>> {
    let mut peers = BTreeMap::<_, Vec<_>>::new();
    for attribute in messages.into_iter().flat_map(|message| message.attributes) {
        let WireguardAttribute::Peers(all) = attribute else {
            continue;
        };
        for peer in all {
            let key = peer.0.iter().find_map(|attribute| match attribute {
                WireguardPeerAttribute::PublicKey(key) => Some(PublicKey(*key)),
                _ => None,
            });
            if let Some(key) = key {
                peers.entry(key).or_default().extend(peer.0);
            }
        }
    }
    peers
}

fn peer(has: &[WireguardPeerAttribute]) -> Peer {
    let mut peer = Peer {
        name: String::new(),
        ranges: BTreeSet::new(),
        endpoint: None,
        keepalive: None,
    };
    for attribute in has {
        match attribute {
            WireguardPeerAttribute::Endpoint(at) => peer.endpoint = Some(*at),
            WireguardPeerAttribute::PersistentKeepalive(0) => peer.keepalive = None,
            WireguardPeerAttribute::PersistentKeepalive(each) => peer.keepalive = Some(*each),
            WireguardPeerAttribute::AllowedIps(all) => {
                peer.ranges.extend(all.iter().filter_map(range));
            }
            _ => {}
        }
    }
    peer
}

fn range(has: &WireguardAllowedIp) -> Option<IpNet> {
    let (mut address, mut prefix) = (None, None);
    for attribute in &has.0 {
        match attribute {
            WireguardAllowedIpAttr::IpAddr(ip) => address = Some(*ip),
            WireguardAllowedIpAttr::Cidr(length) => prefix = Some(*length),
            _ => {}
        }
    }
    IpNet::new(address?, prefix?).ok()
}

fn session(has: &[WireguardPeerAttribute], now: Duration) -> Session {
    let mut session = Session {
        endpoint: None,
        age: None,
        sent: 0,
        received: 0,
    };
    for attribute in has {
        match attribute {
            WireguardPeerAttribute::Endpoint(at) => session.endpoint = Some(*at),
            WireguardPeerAttribute::TxBytes(bytes) => session.sent = *bytes,
            WireguardPeerAttribute::RxBytes(bytes) => session.received = *bytes,
            WireguardPeerAttribute::LastHandshake(at) => {
                // 0 is never.
                let at = u64::try_from(at.seconds).ok().filter(|at| *at > 0);
                session.age = at.map(|at| now.saturating_sub(Duration::from_secs(at)));
            }
            _ => {}
        }
    }
    session
}

fn attributes(step: &Step) -> Vec<WireguardPeerAttribute> {
    match step {
        Step::Remove(key) => vec![
            WireguardPeerAttribute::PublicKey(key.0),
            WireguardPeerAttribute::Flags(WireguardPeerFlags::RemoveMe),
        ],
        Step::Set {
            key,
            peer,
            endpoint,
        } => {
            let mut all = vec![
                WireguardPeerAttribute::PublicKey(key.0),
                WireguardPeerAttribute::Flags(WireguardPeerFlags::ReplaceAllowedIps),
                WireguardPeerAttribute::PersistentKeepalive(peer.keepalive.unwrap_or(0)),
            ];
            all.extend(endpoint.map(WireguardPeerAttribute::Endpoint));
            let ranges = peer.ranges.iter().map(|range| {
                let family = match range.addr() {
                    IpAddr::V4(_) => WireguardAddressFamily::Ipv4,
                    IpAddr::V6(_) => WireguardAddressFamily::Ipv6,
                };
                WireguardAllowedIp(vec![
                    WireguardAllowedIpAttr::Family(family),
                    WireguardAllowedIpAttr::IpAddr(range.addr()),
                    WireguardAllowedIpAttr::Cidr(range.prefix_len()),
                ])
            });
            all.push(WireguardPeerAttribute::AllowedIps(ranges.collect()));
            all
        }
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{Emitable as _, NlaBuffer, Parseable as _};

    use super::*;

    fn some(endpoint: Option<&str>) -> Peer {
        Peer {
            name: String::new(),
            ranges: ["10.200.0.2/32", "10.128.2.0/24", "fd00:1::/64"]
                .map(|range| range.parse().unwrap())
                .into(),
            endpoint: endpoint.map(|at| at.parse().unwrap()),
            keepalive: Some(25),
        }
    }

    /// As the kernel would read it, and tell it again.
    fn sent(step: &Step) -> WireguardPeer {
        let peer = WireguardPeer(attributes(step));
        let mut bytes = vec![0; peer.buffer_len()];
        peer.emit(&mut bytes);
        WireguardPeer::parse(&NlaBuffer::new(&bytes)).unwrap()
    }

    #[test]
    fn what_is_sent_for_a_peer_is_that_peer() {
        for endpoint in ["203.0.113.2:51820", "[2001:db8::2]:51820"] {
            let wanted = some(Some(endpoint));
            let step = Step::Set {
                key: PublicKey([7; 32]),
                peer: wanted.clone(),
                endpoint: wanted.endpoint,
            };
            let sent = sent(&step);
            assert_eq!(peer(&sent.0), wanted);
            assert!(sent.0.contains(&WireguardPeerAttribute::Flags(
                WireguardPeerFlags::ReplaceAllowedIps
            )));
            let told = WireguardMessage {
                cmd: WireguardCmd::GetDevice,
                attributes: vec![WireguardAttribute::Peers(vec![sent])],
            };
            let keys: Vec<_> = by_key(vec![told]).into_keys().collect();
            assert_eq!(keys, [PublicKey([7; 32])]);
        }
    }

    #[test]
    fn where_a_peer_was_heard_is_not_sent() {
        let step = Step::Set {
            key: PublicKey([7; 32]),
            peer: some(Some("203.0.113.2:51820")),
            endpoint: None,
        };
        assert_eq!(peer(&sent(&step).0).endpoint, None);
    }

    #[test]
    fn a_peer_that_is_removed_is_named_and_nothing_more() {
        let sent = sent(&Step::Remove(PublicKey([7; 32])));
        let wanted = [
            WireguardPeerAttribute::PublicKey([7; 32]),
            WireguardPeerAttribute::Flags(WireguardPeerFlags::RemoveMe),
        ];
        assert_eq!(sent.0, wanted);
    }

    #[test]
    fn a_handshake_that_never_was_has_no_age() {
        let at = |seconds| {
            let time = netlink_packet_wireguard::WireguardTimeSpec {
                seconds,
                nano_seconds: 0,
            };
            session(
                &[WireguardPeerAttribute::LastHandshake(time)],
                Duration::from_secs(100),
            )
        };
        assert_eq!(at(0).age, None);
        assert_eq!(at(40).age, Some(Duration::from_secs(60)));
        // A clock that was set back.
        assert_eq!(at(140).age, Some(Duration::ZERO));
    }
}
