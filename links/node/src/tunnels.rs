//! WireGuard sessions with all peers, between packets of the device and datagrams of one socket. No I/O: it is
//! handed what came, and hands back what goes.
//!
//! Invariants: what comes from a peer is handed to the device only from that peer's own ranges and only to
//! this node's; where a peer is, is learnt from what only that peer can have sent, and is never inside a
//! tunnel. Nothing here grows with what strangers send.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use boringtun::noise::errors::WireGuardError;
use boringtun::noise::handshake::parse_handshake_anon;
use boringtun::noise::rate_limiter::RateLimiter;
use boringtun::noise::{Packet, Tunn, TunnResult};
use boringtun::x25519::{PublicKey as DhPublic, StaticSecret};
use ipnet::IpNet;

use crate::key::PublicKey;
use crate::plan::change::Step;
use crate::ranges::Ranges;

/// How often [`Tunnels::tick`] is to be called.
pub const TICK: Duration = Duration::from_millis(250);
const TICKS_A_SECOND: u32 = 4;
/// The largest datagram and packet, in bytes.
pub const BUFFER: usize = 65_536;
/// Handshakes a second from which on senders have to show that they are where they say they are. Each is
/// counted twice, because it is looked at before it is known whose it is.
const HANDSHAKES: u64 = 2 * 100;
/// Type of a cookie reply (the protocol's section 5.4.7), the one answer to who is not known.
const COOKIE_REPLY: u8 = 3;
/// A session's number is these many bits below its peer's.
const SESSION_BITS: u32 = 8;
/// Numbers of peers (24 bits).
const PEERS: u32 = 1 << 24;

/// Where something goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Output<'a> {
    /// A datagram.
    Network(SocketAddr, &'a [u8]),
    /// A packet for this node.
    Device(&'a [u8]),
}

/// What was let go, counted since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Dropped {
    /// Packets of the device to addresses that no peer has.
    pub no_peer: u64,
    /// Packets to peers that were not heard yet and have no endpoint.
    pub no_endpoint: u64,
    /// Datagrams that no peer can have sent.
    pub unknown: u64,
    /// Packets of a peer from an address that is not its own.
    pub source: u64,
    /// Packets of a peer to an address that is not this node's.
    pub destination: u64,
}

/// How it stands with one peer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Session {
    /// Where it was heard last, or is looked for.
    pub endpoint: Option<SocketAddr>,
    /// Since when there is a session.
    pub age: Option<Duration>,
    /// Bytes that were sent inside, in this session and those before.
    pub sent: u64,
    /// Bytes that came inside.
    pub received: u64,
}

struct Tunnel {
    key: PublicKey,
    tunn: Tunn,
    endpoint: Option<SocketAddr>,
    keepalive: Option<u32>,
    /// Ticks until the next keepalive.
    due: u32,
    /// Nothing was said to it yet.
    fresh: bool,
}

/// All sessions.
pub struct Tunnels {
    private: StaticSecret,
    public: DhPublic,
    limiter: Arc<RateLimiter>,
    peers: BTreeMap<u32, Tunnel>,
    numbers: HashMap<PublicKey, u32>,
    ranges: Ranges,
    own: BTreeSet<IpNet>,
    /// Where peers were heard before this start.
    heard: BTreeMap<PublicKey, SocketAddr>,
    next: u32,
    buffer: Vec<u8>,
    dropped: Dropped,
}

impl Tunnels {
    /// No peers yet. `heard` is where those were that nobody can dial: their address translations are still
    /// open for a while.
    #[must_use]
    pub fn new(private: StaticSecret, heard: BTreeMap<PublicKey, SocketAddr>) -> Self {
        let public = DhPublic::from(&private);
        Self {
            limiter: Arc::new(RateLimiter::new(&public, HANDSHAKES)),
            private,
            public,
            peers: BTreeMap::new(),
            numbers: HashMap::new(),
            ranges: Ranges::default(),
            own: BTreeSet::new(),
            heard,
            next: 0,
            buffer: vec![0; BUFFER],
            dropped: Dropped::default(),
        }
    }

    /// What packets of peers may be for: this node's address and its pods.
    pub fn set_own(&mut self, own: BTreeSet<IpNet>) {
        self.own = own;
    }

    /// Carries out a step.
    pub fn carry_out(&mut self, step: &Step) {
        match step {
            Step::Remove(key) => {
                if let Some(number) = self.numbers.remove(key) {
                    self.peers.remove(&number);
                    self.ranges.remove(number);
                }
            }
            Step::Set {
                key,
                peer,
                endpoint,
            } => {
                let Some(number) = self.number(*key) else {
                    return;
                };
                let tunnel = self.peers.entry(number).or_insert_with(|| Tunnel {
                    key: *key,
                    tunn: Tunn::new(
                        self.private.clone(),
                        DhPublic::from(key.0),
                        None,
                        None,
                        number,
                        Some(Arc::clone(&self.limiter)),
                    ),
                    endpoint: self.heard.get(key).copied(),
                    keepalive: None,
                    due: 0,
                    fresh: true,
                });
                tunnel.keepalive = peer.keepalive.map(u32::from);
                if endpoint.is_some() {
                    tunnel.endpoint = *endpoint;
                    tunnel.fresh = true;
                }
                self.ranges.remove(number);
                for range in &peer.ranges {
                    self.ranges.insert(*range, number);
                }
            }
        }
    }

    /// The peer's number, a free one if it has none. None only when all are taken.
    fn number(&mut self, key: PublicKey) -> Option<u32> {
        if let Some(number) = self.numbers.get(&key) {
            return Some(*number);
        }
        let candidates = (0..PEERS).map(|offset| (self.next + offset) % PEERS);
        let mut free = candidates.filter(|number| !self.peers.contains_key(number));
        let number = free.next()?;
        self.next = (number + 1) % PEERS;
        self.numbers.insert(key, number);
        Some(number)
    }

    /// A packet of the device, to be sent to whoever has its destination.
    pub fn outgoing(&mut self, packet: &[u8], mut put: impl FnMut(Output<'_>)) {
        let number = Tunn::dst_address(packet).and_then(|address| self.ranges.find(address));
        let Some(tunnel) = number.and_then(|number| self.peers.get_mut(&number)) else {
            self.dropped.no_peer += 1;
            return;
        };
        let Some(endpoint) = tunnel.endpoint else {
            self.dropped.no_endpoint += 1;
            return;
        };
        if let TunnResult::WriteToNetwork(datagram) =
            tunnel.tunn.encapsulate(packet, &mut self.buffer)
        {
            put(Output::Network(endpoint, datagram));
        }
    }

    /// A datagram of the network.
    pub fn incoming(&mut self, from: SocketAddr, datagram: &[u8], mut put: impl FnMut(Output<'_>)) {
        // What comes through a tunnel is no tunnel's: answers would go into it, and round and round.
        if self.is_inside(from.ip()) {
            self.dropped.unknown += 1;
            return;
        }
        let mut cookie = [0; 64];
        let verified = self
            .limiter
            .verify_packet(Some(from.ip()), datagram, &mut cookie);
        let (number, proves) = match verified {
            Ok(Packet::HandshakeInit(begin)) => (self.initiator(&begin), true),
            Ok(Packet::HandshakeResponse(answer)) => (number_of(answer.receiver_idx), true),
            Ok(Packet::PacketData(data)) => (number_of(data.receiver_idx), true),
            // Whoever saw a handshake can have made it.
            Ok(Packet::PacketCookieReply(reply)) => (number_of(reply.receiver_idx), false),
            Err(TunnResult::WriteToNetwork(reply)) => {
                put(Output::Network(from, reply));
                return;
            }
            Err(_) => (None, false),
        };
        let Some((number, tunnel)) =
            number.and_then(|number| Some((number, self.peers.get_mut(&number)?)))
        else {
            self.dropped.unknown += 1;
            return;
        };
        let result = tunnel
            .tunn
            .decapsulate(Some(from.ip()), datagram, &mut self.buffer);
        match result {
            TunnResult::Err(_) => {
                self.dropped.unknown += 1;
                return;
            }
            TunnResult::WriteToNetwork(reply) => {
                put(Output::Network(from, reply));
                if reply.first() == Some(&COOKIE_REPLY) {
                    return;
                }
                while let TunnResult::WriteToNetwork(queued) =
                    tunnel.tunn.decapsulate(None, &[], &mut self.buffer)
                {
                    put(Output::Network(from, queued));
                }
            }
            TunnResult::WriteToTunnelV4(packet, source) => {
                let may = may_pass(&self.ranges, &self.own, number, source.into(), packet);
                match may {
                    Ok(()) => put(Output::Device(packet)),
                    Err(counter) => *counter(&mut self.dropped) += 1,
                }
            }
            TunnResult::WriteToTunnelV6(packet, source) => {
                let may = may_pass(&self.ranges, &self.own, number, source.into(), packet);
                match may {
                    Ok(()) => put(Output::Device(packet)),
                    Err(counter) => *counter(&mut self.dropped) += 1,
                }
            }
            TunnResult::Done => {}
        }
        if proves {
            tunnel.endpoint = Some(from);
            // It was spoken to.
            tunnel.fresh = false;
        }
    }

    /// Whether packets to this address go through a tunnel, or are this node's own of one.
    fn is_inside(&self, address: IpAddr) -> bool {
        let own = self.own.iter().any(|range| range.contains(&address));
        own || self.ranges.find(address).is_some()
    }

    /// Who began a handshake.
    fn initiator(&self, begin: &boringtun::noise::HandshakeInit<'_>) -> Option<u32> {
        let half = parse_handshake_anon(&self.private, &self.public, begin).ok()?;
        self.numbers
            .get(&PublicKey(half.peer_static_public))
            .copied()
    }

    /// What the time brings: new keys, keepalives, tries of peers that did not answer. To be called every
    /// [`TICK`].
    pub fn tick(&mut self, mut put: impl FnMut(Output<'_>)) {
        self.limiter.reset_count();
        for tunnel in self.peers.values_mut() {
            let Some(endpoint) = tunnel.endpoint else {
                // Timers go on, so that keys of a session end in time.
                let _ = tunnel.tunn.update_timers(&mut self.buffer);
                continue;
            };
            // At once, so that the first packet finds a session and an address translation an entry.
            let result = if std::mem::take(&mut tunnel.fresh) {
                tunnel
                    .tunn
                    .format_handshake_initiation(&mut self.buffer, false)
            } else {
                tunnel.tunn.update_timers(&mut self.buffer)
            };
            match result {
                TunnResult::WriteToNetwork(datagram) => {
                    put(Output::Network(endpoint, datagram));
                }
                // It gave up after 90 s. A peer that waits for us to begin would wait for ever.
                TunnResult::Err(WireGuardError::ConnectionExpired)
                    if tunnel.keepalive.is_some() =>
                {
                    tunnel.fresh = true;
                }
                _ => {}
            }
            if let Some(seconds) = tunnel.keepalive {
                tunnel.due = tunnel.due.saturating_add(1);
                if tunnel.due >= seconds.saturating_mul(TICKS_A_SECOND) {
                    tunnel.due = 0;
                    if let TunnResult::WriteToNetwork(datagram) =
                        tunnel.tunn.encapsulate(&[], &mut self.buffer)
                    {
                        put(Output::Network(endpoint, datagram));
                    }
                }
            }
        }
    }

    /// How it stands with each peer.
    #[must_use]
    pub fn sessions(&self) -> BTreeMap<PublicKey, Session> {
        let session = |tunnel: &Tunnel| {
            let (age, sent, received, _, _) = tunnel.tunn.stats();
            Session {
                endpoint: tunnel.endpoint,
                age,
                sent: u64::try_from(sent).unwrap_or(u64::MAX),
                received: u64::try_from(received).unwrap_or(u64::MAX),
            }
        };
        let peers = self.peers.values();
        peers.map(|tunnel| (tunnel.key, session(tunnel))).collect()
    }

    /// What was let go.
    #[must_use]
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }
}

/// The peer of a session's number.
fn number_of(receiver: u32) -> Option<u32> {
    Some(receiver >> SESSION_BITS)
}

/// Whether a peer's packet is handed on, or what counts that it was not.
fn may_pass(
    ranges: &Ranges,
    own: &BTreeSet<IpNet>,
    peer: u32,
    source: IpAddr,
    packet: &[u8],
) -> Result<(), fn(&mut Dropped) -> &mut u64> {
    if ranges.find(source) != Some(peer) {
        return Err(|dropped| &mut dropped.source);
    }
    let destination = Tunn::dst_address(packet);
    let ours = destination.is_some_and(|to| own.iter().any(|range| range.contains(&to)));
    if ours {
        Ok(())
    } else {
        Err(|dropped| &mut dropped.destination)
    }
}

#[cfg(test)]
mod tests;
