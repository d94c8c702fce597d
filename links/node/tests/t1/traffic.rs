//! Packets between nodes and pods of all sites, of all sizes.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use anyhow::Result;
use testkit::waiting::PATIENCE;

use crate::cluster::{Cluster, address, pod};
use crate::sites::{NODES, Sites};

/// Bytes of a stream: many windows.
const MUCH: usize = 4 << 20;
/// IPv4 and UDP.
const HEADERS: usize = 28;

/// Sends much from one node to another and back, by TCP from and to these addresses.
pub(crate) fn stream(sites: &Sites, from: (&str, Ipv4Addr), to: (&str, Ipv4Addr), bytes: usize) {
    let listener = sites.within(to.0, || TcpListener::bind((to.1, 0)).unwrap());
    let target = listener.local_addr().unwrap();
    let echo = thread::spawn(move || {
        let (mut stream, peer) = listener.accept().unwrap();
        let mut came = vec![0; bytes];
        stream.read_exact(&mut came).unwrap();
        stream.write_all(&came).unwrap();
        peer
    });
    let back = sites.within(from.0, || {
        let mut stream = TcpStream::connect_timeout(&target, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let own = stream.local_addr().unwrap();
        let sent: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        stream.write_all(&sent).unwrap();
        let mut came = vec![0; bytes];
        stream.read_exact(&mut came).unwrap();
        assert!(came == sent, "what came back is not what was sent");
        own
    });
    // Nothing on the way changed the source: it is the node's own address.
    let peer = echo.join().unwrap();
    assert_eq!(peer, back, "{from:?} to {to:?}");
}

/// Datagrams of these sizes of the whole packet, one after the other, each answered.
fn datagrams(sites: &Sites, from: (&str, Ipv4Addr), to: (&str, Ipv4Addr), sizes: &[usize]) {
    let open = |name: &str, at: Ipv4Addr| {
        let socket = sites.within(name, || UdpSocket::bind((at, 0)).unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let (here, there) = (open(from.0, from.1), open(to.0, to.1));
    let target = SocketAddr::from((to.1, there.local_addr().unwrap().port()));
    for size in sizes {
        let sent = vec![7_u8; size - HEADERS];
        here.send_to(&sent, target).unwrap();
        let mut came = vec![0; 65_536];
        let (length, back) = there.recv_from(&mut came).unwrap();
        assert_eq!(length, sent.len());
        there.send_to(&came[..length], back).unwrap();
        let (length, _) = here.recv_from(&mut came).unwrap();
        assert_eq!(length, sent.len());
    }
}

/// Packets that a node had to cut in pieces so far (proc_net_snmp: `FragCreates`).
fn fragments(sites: &Sites, node: &str) -> u64 {
    let text = sites.within(node, || {
        std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap()
    });
    let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names
        .split(' ')
        .position(|name| name == "FragCreates")
        .unwrap();
    values.split(' ').nth(place).unwrap().parse().unwrap()
}

/// Pairs that reach each other. a2 and b1 have nothing that the other could dial.
const PAIRS: [(&str, &str); 5] = [
    ("a1", "a2"),
    ("a1", "b1"),
    ("a1", "c1"),
    ("a2", "c1"),
    ("b1", "c1"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_three_sites_with_one_private_range_reach_each_other_and_their_pods() -> Result<()>
{
    let Some(mut cluster) = Cluster::new().await? else {
        return Ok(());
    };
    for node in NODES {
        cluster.start(node).await?;
    }
    cluster.until_connected(&NODES).await?;
    let sites = &cluster.sites;
    // Sizes: 1500 and 1400 below, 80 for the tunnel; the smaller end decides.
    for (node, to, mtu) in [("a1", "b1", 1420), ("a1", "c1", 1320), ("c1", "a1", 1320)] {
        let route = sites.ip_in(node, &format!("route get {}", address(to)));
        assert!(route.contains("dev covey0"), "{route}");
        assert!(route.contains(&format!("mtu {mtu}")), "{route}");
    }
    assert!(sites.ip_in("a1", "link show covey0").contains("mtu 1420"));
    for (one, other) in PAIRS {
        // From the side that can begin, and then from the other.
        for (from, to) in [(one, other), (other, one)] {
            cluster
                .until(from, &format!("has a session with {to}"), |state| {
                    let mut peers = state["peers"].as_array().into_iter().flatten();
                    peers.any(|peer| peer["node"] == to && peer["endpoint"].is_string())
                })
                .await?;
            stream(sites, (from, address(from)), (to, address(to)), MUCH);
            stream(sites, (from, address(from)), (to, pod(to)), 65_536);
        }
    }
    // The whole packet of the overlay's size goes in one piece, one byte more does not. Nothing that was sent
    // so far was cut on any node.
    for (from, to, mtu) in [("a1", "b1", 1420), ("b1", "c1", 1320)] {
        let before = fragments(sites, from);
        datagrams(
            sites,
            (from, address(from)),
            (to, pod(to)),
            &[HEADERS, 64, 576, mtu - 1, mtu],
        );
        assert_eq!(fragments(sites, from), before, "{from} to {to}");
        datagrams(
            sites,
            (from, address(from)),
            (to, pod(to)),
            &[mtu + 1, 3000, 9000],
        );
        assert!(fragments(sites, from) > before);
    }
    // A kernel without WireGuard leaves it to the process, and who carries packets is told.
    let kernel = sites.has_kernel_wireguard();
    let driver = if kernel { "kernel" } else { "process" };
    assert_eq!(cluster.state("a1").unwrap()["driver"], driver);
    // A VXLAN from node to node, as the network plugin has it, is 50 less and loses nothing either.
    let (a1, b1) = (Ipv4Addr::new(172, 31, 0, 1), Ipv4Addr::new(172, 31, 0, 2));
    for (node, other, inner) in [("a1", "b1", a1), ("b1", "a1", b1)] {
        let (local, remote) = (address(node), address(other));
        sites.ip_in(
            node,
            &format!(
                "link add vx0 type vxlan id 7 dstport 8472 local {local} remote {remote} dev covey0"
            ),
        );
        sites.ip_in(node, "link set vx0 mtu 1370 up");
        sites.ip_in(node, &format!("addr add {inner}/24 dev vx0"));
    }
    stream(sites, ("a1", a1), ("b1", b1), MUCH);
    let before = fragments(sites, "a1");
    datagrams(sites, ("a1", a1), ("b1", b1), &[HEADERS, 1369, 1370]);
    assert_eq!(fragments(sites, "a1"), before);
    // Who cannot be reached is told, on both ends.
    for (node, other) in [("a2", "b1"), ("b1", "a2")] {
        let state = cluster.state(node).unwrap();
        assert_eq!(
            state["unreachable"],
            serde_json::json!([other]),
            "{state:#}"
        );
    }
    Ok(())
}
