//! Two nodes and a stranger, without a network.

use super::*;
use crate::plan::Peer;

const A: &str = "203.0.113.1:51820";
const B: &str = "203.0.113.2:51820";
const ELSEWHERE: &str = "198.51.100.9:4242";

struct Node {
    tunnels: Tunnels,
    key: PublicKey,
    /// What was handed to its device.
    packets: Vec<Vec<u8>>,
    at: SocketAddr,
}

/// Datagrams under way: from, to, bytes.
type Way = Vec<(SocketAddr, SocketAddr, Vec<u8>)>;

fn node(byte: u8, at: &str, own: &str) -> Node {
    let private = StaticSecret::from([byte; 32]);
    let key = PublicKey(DhPublic::from(&private).to_bytes());
    let mut tunnels = Tunnels::new(private, BTreeMap::new());
    tunnels.set_own([own.parse().unwrap()].into());
    Node {
        tunnels,
        key,
        packets: Vec::new(),
        at: at.parse().unwrap(),
    }
}

fn set(key: PublicKey, ranges: &[&str], endpoint: Option<&str>, keepalive: Option<u16>) -> Step {
    let endpoint = endpoint.map(|text| text.parse().unwrap());
    Step::Set {
        key,
        peer: Peer {
            name: "peer".to_owned(),
            ranges: ranges.iter().map(|range| range.parse().unwrap()).collect(),
            endpoint,
            keepalive,
        },
        endpoint,
    }
}

/// An IPv4 packet with some payload.
fn packet(from: &str, to: &str) -> Vec<u8> {
    let mut packet = vec![0_u8; 28];
    packet[0] = 0x45;
    packet[3] = 28;
    let octets = |text: &str| text.parse::<std::net::Ipv4Addr>().unwrap().octets();
    packet[12..16].copy_from_slice(&octets(from));
    packet[16..20].copy_from_slice(&octets(to));
    packet
}

impl Node {
    fn send(&mut self, packet: &[u8], way: &mut Way) {
        let at = self.at;
        self.tunnels
            .outgoing(packet, |output| put(at, output, way, &mut Vec::new()));
    }

    fn receive(&mut self, from: SocketAddr, datagram: &[u8], way: &mut Way) {
        let (at, packets) = (self.at, &mut self.packets);
        self.tunnels
            .incoming(from, datagram, |output| put(at, output, way, packets));
    }

    fn tick(&mut self, way: &mut Way) {
        let at = self.at;
        self.tunnels
            .tick(|output| put(at, output, way, &mut Vec::new()));
    }
}

fn put(at: SocketAddr, output: Output<'_>, way: &mut Way, packets: &mut Vec<Vec<u8>>) {
    match output {
        Output::Network(to, datagram) => way.push((at, to, datagram.to_vec())),
        Output::Device(packet) => packets.push(packet.to_vec()),
    }
}

/// Until nothing is under way.
fn deliver(nodes: &mut [&mut Node], way: &mut Way) {
    while !way.is_empty() {
        for (from, to, datagram) in std::mem::take(way) {
            if let Some(node) = nodes.iter_mut().find(|node| node.at == to) {
                node.receive(from, &datagram, way);
            }
        }
    }
}

/// a has no endpoint, b has one: as behind an address translation.
fn pair() -> (Node, Node) {
    let mut a = node(1, A, "10.200.0.1/32");
    let mut b = node(2, B, "10.200.0.2/32");
    let to_b = set(
        b.key,
        &["10.200.0.2/32", "10.128.2.0/24"],
        Some(B),
        Some(25),
    );
    a.tunnels.carry_out(&to_b);
    b.tunnels
        .carry_out(&set(a.key, &["10.200.0.1/32"], None, None));
    (a, b)
}

#[test]
fn a_peer_that_nobody_can_dial_is_answered_where_it_was_heard() {
    let (mut a, mut b) = pair();
    let mut way = Way::new();
    // Before it was heard, what is for it is let go and not kept.
    b.send(&packet("10.200.0.2", "10.200.0.1"), &mut way);
    assert!(way.is_empty());
    assert_eq!(b.tunnels.dropped().no_endpoint, 1);
    // It begins at once, without anything to send.
    a.tick(&mut way);
    assert_eq!(way.len(), 1);
    deliver(&mut [&mut a, &mut b], &mut way);
    b.send(&packet("10.200.0.2", "10.200.0.1"), &mut way);
    a.send(&packet("10.200.0.1", "10.200.0.2"), &mut way);
    deliver(&mut [&mut a, &mut b], &mut way);
    assert_eq!(a.packets, [packet("10.200.0.2", "10.200.0.1")]);
    assert_eq!(b.packets, [packet("10.200.0.1", "10.200.0.2")]);
    let session = b.tunnels.sessions().remove(&a.key).unwrap();
    assert_eq!(session.endpoint, Some(a.at));
    assert!(
        session.age.is_some() && session.received == 28,
        "{session:?}"
    );
}

#[test]
fn a_peer_that_is_heard_from_inside_of_a_tunnel_is_not_called_there() {
    for inside in ["10.200.0.1:51820", "10.128.7.9:51820", "10.200.0.2:51820"] {
        let (mut a, mut b) = pair();
        let mut way = Way::new();
        b.tunnels
            .carry_out(&set(a.key, &["10.200.0.1/32", "10.128.7.0/24"], None, None));
        let known = a.at;
        a.tick(&mut way);
        deliver(&mut [&mut a, &mut b], &mut way);
        // What b sends there would come back as a packet of its device, to be sent there.
        a.at = inside.parse().unwrap();
        a.send(&packet("10.200.0.1", "10.200.0.2"), &mut way);
        deliver(&mut [&mut a, &mut b], &mut way);
        assert_eq!(b.tunnels.sessions()[&a.key].endpoint, Some(known));
        assert_eq!((b.packets.len(), b.tunnels.dropped().unknown), (0, 1));
    }
}

#[test]
fn a_packet_that_waits_for_a_session_arrives_with_it() {
    let (mut a, mut b) = pair();
    let mut way = Way::new();
    a.send(&packet("10.200.0.1", "10.200.0.2"), &mut way);
    deliver(&mut [&mut a, &mut b], &mut way);
    assert_eq!(b.packets.len(), 1);
}

#[test]
fn an_address_translation_that_changes_is_followed() {
    let (mut a, mut b) = pair();
    let mut way = Way::new();
    a.tick(&mut way);
    deliver(&mut [&mut a, &mut b], &mut way);
    a.at = ELSEWHERE.parse().unwrap();
    a.send(&packet("10.200.0.1", "10.200.0.2"), &mut way);
    deliver(&mut [&mut a, &mut b], &mut way);
    b.send(&packet("10.200.0.2", "10.200.0.1"), &mut way);
    deliver(&mut [&mut a, &mut b], &mut way);
    assert_eq!((a.packets.len(), b.packets.len()), (1, 1));
}

#[test]
fn what_is_not_a_peers_own_is_let_go() {
    let (mut a, mut b) = pair();
    let mut way = Way::new();
    // a says that it is another node, and sends to what is behind b.
    a.send(&packet("10.200.0.7", "10.200.0.2"), &mut way);
    deliver(&mut [&mut a, &mut b], &mut way);
    let wide = set(b.key, &["0.0.0.0/0"], None, None);
    a.tunnels.carry_out(&wide);
    a.send(&packet("10.200.0.1", "192.0.2.1"), &mut way);
    deliver(&mut [&mut a, &mut b], &mut way);
    assert_eq!(b.packets, [[0_u8; 0]; 0]);
    let dropped = b.tunnels.dropped();
    assert_eq!((dropped.source, dropped.destination), (1, 1));
}

#[test]
fn a_stranger_gets_no_session_and_no_room() {
    let (a, mut b) = pair();
    let mut stranger = node(9, ELSEWHERE, "10.200.0.9/32");
    let to_b = set(b.key, &["10.200.0.2/32"], Some(B), None);
    stranger.tunnels.carry_out(&to_b);
    let mut way = Way::new();
    stranger.send(&packet("10.200.0.1", "10.200.0.2"), &mut way);
    let (from, _, datagram) = way.remove(0);
    for _ in 0..3 {
        b.receive(from, &datagram, &mut way);
    }
    assert!(way.is_empty());
    for length in [0, 1, 4, 31, 32, 92, 147, 148, 200] {
        for kind in 0..6 {
            let mut datagram = vec![0_u8; length];
            if let Some(first) = datagram.first_mut() {
                *first = kind;
            }
            b.receive(from, &datagram, &mut way);
        }
    }
    assert!(way.is_empty());
    assert_eq!(b.packets.len(), 0);
    assert!(b.tunnels.dropped().unknown > 3);
    assert_eq!(b.tunnels.sessions()[&a.key].endpoint, None);
}

#[test]
fn a_flood_of_handshakes_is_answered_with_cookies_and_moves_no_peer() {
    let (mut a, mut b) = pair();
    let mut way = Way::new();
    a.tick(&mut way);
    deliver(&mut [&mut a, &mut b], &mut way);
    let mut stranger = node(9, ELSEWHERE, "10.200.0.9/32");
    stranger
        .tunnels
        .carry_out(&set(b.key, &["10.200.0.2/32"], Some(B), None));
    stranger.send(&packet("10.200.0.9", "10.200.0.2"), &mut way);
    let (from, _, begin) = way.remove(0);
    for _ in 0..HANDSHAKES + 1 {
        b.receive(from, &begin, &mut way);
    }
    assert!(!way.is_empty());
    assert!(
        way.iter()
            .all(|(_, _, reply)| reply.first() == Some(&COOKIE_REPLY))
    );
    assert_eq!(b.tunnels.sessions()[&a.key].endpoint, Some(a.at));
}

#[test]
fn a_peer_that_is_removed_is_a_stranger() {
    let (mut a, mut b) = pair();
    let mut way = Way::new();
    a.tick(&mut way);
    deliver(&mut [&mut a, &mut b], &mut way);
    b.tunnels.carry_out(&Step::Remove(a.key));
    a.send(&packet("10.200.0.1", "10.200.0.2"), &mut way);
    deliver(&mut [&mut a, &mut b], &mut way);
    b.send(&packet("10.200.0.2", "10.200.0.1"), &mut way);
    assert_eq!((way.len(), b.packets.len()), (0, 0));
    assert_eq!(b.tunnels.dropped().no_peer, 1);
    assert!(b.tunnels.sessions().is_empty());
}

#[test]
fn keepalives_keep_a_translation_open() {
    let (mut a, mut b) = pair();
    let mut way = Way::new();
    a.tick(&mut way);
    deliver(&mut [&mut a, &mut b], &mut way);
    let mut sent = 0;
    for _ in 0..25 * TICKS_A_SECOND {
        a.tick(&mut way);
        sent += way.len();
        way.clear();
        b.tick(&mut way);
        assert!(way.is_empty(), "b has nothing to keep open");
    }
    assert_eq!(sent, 1);
}

#[test]
fn ranges_move_to_whom_they_are_given() {
    let (mut a, b) = pair();
    let c = node(3, ELSEWHERE, "10.200.0.3/32");
    let mut way = Way::new();
    a.tunnels
        .carry_out(&set(b.key, &["10.200.0.2/32"], None, Some(25)));
    let to_c = set(
        c.key,
        &["10.200.0.3/32", "10.128.2.0/24"],
        Some(ELSEWHERE),
        None,
    );
    a.tunnels.carry_out(&to_c);
    a.send(&packet("10.200.0.1", "10.128.2.7"), &mut way);
    assert_eq!(way[0].1, c.at);
    // What was told of b's endpoint before still holds.
    a.send(&packet("10.200.0.1", "10.200.0.2"), &mut way);
    assert_eq!(way[1].1, b.at);
}

#[test]
fn a_peer_that_cannot_be_dialled_is_called_where_it_was_heard_before_a_restart() {
    let (mut a, mut b) = pair();
    let mut way = Way::new();
    a.tick(&mut way);
    deliver(&mut [&mut a, &mut b], &mut way);
    let heard = [(a.key, a.at)].into();
    b.tunnels = Tunnels::new(StaticSecret::from([2; 32]), heard);
    b.tunnels.set_own(["10.200.0.2/32".parse().unwrap()].into());
    b.tunnels
        .carry_out(&set(a.key, &["10.200.0.1/32"], None, None));
    b.tick(&mut way);
    deliver(&mut [&mut a, &mut b], &mut way);
    // a, which knew nothing of the restart, has the new session.
    a.send(&packet("10.200.0.1", "10.200.0.2"), &mut way);
    deliver(&mut [&mut a, &mut b], &mut way);
    assert_eq!(b.packets.len(), 1);
}
