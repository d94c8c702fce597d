//! NetworkPolicies of the lab's agent, enforced by the kernel between real sockets.
//!
//! Every test makes network namespaces wired as the CNI plugin `ptp` wires pods: one for the node,
//! which routes, one for each pod, one outside the cluster. They vanish with the test. Invariant:
//! a refusal is EHOSTUNREACH (EACCES with IPv6), what the kernel makes of "administratively
//! prohibited", and no missing listener gives that; so no test passes for the wrong reason.
//!
//! Needs root, `ip` and `nft` and no lab; says so and passes where these are missing, but not with
//! `COVEY_TEST_REQUIRE=1`.
#![allow(clippy::unwrap_used, reason = "the helpers of a test are the test")]

use std::{
    env,
    fs::{self, File},
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::{fd::AsFd, unix::fs::MetadataExt},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use k8s_openapi::api::networking::v1::NetworkPolicy;
use lab_agent::network::{
    model::Protocol,
    nft,
    pods::{NamedPort, Pod},
    policy,
    render::{Refusal, render},
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

const WEB: &str = "10.77.0.2";
const DB: &str = "10.77.0.3";
const DB_SIX: &str = "fd77::3";
/// Two addresses of the host outside, so that one can be an exception.
const NEAR: &str = "192.0.2.10";
const FAR: &str = "192.0.2.130";
const SERVICE: &str = "10.96.0.1";
/// The node's own address on the links to the pods.
const NODE: &str = "10.77.0.1";
const NODE_SIX: &str = "fd77::1";

/// Long enough for any machine; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    prefix: String,
}

impl World {
    /// Nothing where it cannot be made.
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
        let present = |program: &str| Command::new(program).arg("-V").output().is_ok();
        if !(root && present("ip") && present("nft")) {
            let said = "network policies are only proven as root with ip and nft";
            let required = env::var_os("COVEY_TEST_REQUIRE").is_some_and(|value| value == "1");
            assert!(!required, "{said}");
            eprintln!("SKIPPED: {said}");
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let world = Self {
            prefix: format!("covey-{}-{number}", process::id()),
        };
        for host in ["node", "web", "db", "outside"] {
            world.ip(&format!("netns add {}", world.name(host)));
            world.ip_in(host, "link set lo up");
        }
        world.within("node", || {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        });
        world.attach("web", &[WEB, "fd77::2"]);
        world.attach("db", &[DB, DB_SIX]);
        world.attach("outside", &[NEAR, FAR]);
        Some(world)
    }

    /// As `ptp` does: no shared link, only routes.
    fn attach(&self, host: &str, addresses: &[&str]) {
        let (inside, node) = (self.name(host), self.name("node"));
        self.ip(&format!(
            "link add eth0 netns {inside} type veth peer name to-{host} netns {node}"
        ));
        self.ip_in("node", &format!("link set to-{host} up"));
        self.ip_in(host, "link set eth0 up");
        for address in addresses {
            let (gateway, length, family) = if address.contains(':') {
                (NODE_SIX, 128, "-6")
            } else {
                (NODE, 32, "-4")
            };
            let nodad = if length == 128 { "nodad" } else { "" };
            self.ip_in(
                "node",
                &format!("addr replace {gateway}/{length} dev to-{host} {nodad}"),
            );
            self.ip_in(
                "node",
                &format!("{family} route add {address}/{length} dev to-{host}"),
            );
            self.ip_in(
                host,
                &format!("addr add {address}/{length} dev eth0 {nodad}"),
            );
            self.ip_in(host, &format!("{family} route replace {gateway} dev eth0"));
            self.ip_in(
                host,
                &format!("{family} route replace default via {gateway} dev eth0"),
            );
        }
    }

    fn name(&self, host: &str) -> String {
        format!("{}-{host}", self.prefix)
    }

    fn ip(&self, arguments: &str) {
        let output = Command::new("ip")
            .args(arguments.split_whitespace())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {arguments}: {words}");
    }

    fn ip_in(&self, host: &str, arguments: &str) {
        self.ip(&format!("-n {} {arguments}", self.name(host)));
    }

    /// Runs on a thread inside the host's network. Sockets stay in the network they were made in.
    fn within<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name(host))).unwrap();
        thread::scope(|scope| {
            let worker = scope.spawn(move || {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .unwrap();
                work()
            });
            worker.join().unwrap()
        })
    }

    /// Enforces policies of namespace `a` on the node, through the code the agent runs.
    fn enforce(&self, specs: &[Value]) {
        let policy = |(number, spec): (usize, &Value)| {
            let object = json!({"metadata": {"name": format!("p{number}"), "namespace": "a"},
                "spec": spec});
            serde_json::from_value::<NetworkPolicy>(object).unwrap()
        };
        let policies: Vec<_> = specs.iter().enumerate().map(policy).collect();
        let pods = [
            pod("web", &[WEB, "fd77::2"], 8080),
            pod("db", &[DB, DB_SIX], 9090),
        ];
        let namespaces = [("a".to_owned(), Default::default())].into();
        let compiled = policy::compile(&pods, &namespaces, &policies);
        assert_eq!(compiled.problems, Vec::<String>::new());
        self.nft(&render(&compiled.ruleset, Refusal::Reject));
    }

    fn nft(&self, text: &str) {
        self.within("node", || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(nft(text)).unwrap();
        });
    }

    /// A socket that is bound and listens once this returns.
    fn listen(&self, host: &str, at: &str, port: u16) -> TcpListener {
        self.within(host, || TcpListener::bind((at, port)).unwrap())
    }

    fn connect(&self, host: &str, to: &str, port: u16) -> io::Result<TcpStream> {
        let to = SocketAddr::new(to.parse().unwrap(), port);
        self.within(host, || TcpStream::connect_timeout(&to, PATIENCE))
    }

    #[track_caller]
    fn reaches(&self, host: &str, to: &str, port: u16) {
        let outcome = self.connect(host, to, port);
        assert!(
            outcome.is_ok(),
            "{host} to {to}:{port} must be allowed: {outcome:?}"
        );
    }

    #[track_caller]
    fn is_refused(&self, host: &str, to: &str, port: u16) {
        let outcome = self.connect(host, to, port).map_err(|error| error.kind());
        let six = to.contains(':');
        let kind = if six {
            ErrorKind::PermissionDenied
        } else {
            ErrorKind::HostUnreachable
        };
        assert_eq!(
            outcome.as_ref().err(),
            Some(&kind),
            "{host} to {to}:{port}: {outcome:?}"
        );
    }

    /// Sends one datagram; whether it arrives, or an answer "prohibited" does.
    fn datagram(&self, host: &str, receiver: &UdpSocket) -> bool {
        let to = receiver.local_addr().unwrap();
        let sender = self.within(host, || {
            let any: IpAddr = if to.is_ipv4() { "0.0.0.0" } else { "::" }.parse().unwrap();
            let sender = UdpSocket::bind((any, 0)).unwrap();
            sender.connect(to).unwrap();
            sender
        });
        sender.set_read_timeout(Some(PATIENCE)).unwrap();
        sender.send(b"ping").unwrap();
        // Packets between these namespaces are handled before `send` returns.
        receiver.set_nonblocking(true).unwrap();
        match receiver.recv(&mut [0; 8]) {
            Ok(_) => true,
            Err(_) => {
                let answer = sender.recv(&mut [0; 8]).map_err(|error| error.kind());
                assert_eq!(answer, Err(ErrorKind::HostUnreachable));
                false
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for host in ["web", "db", "outside", "node"] {
            // A world that was only half made has fewer.
            let _ = Command::new("ip")
                .args(["netns", "del", &self.name(host)])
                .output();
        }
    }
}

fn pod(app: &str, addresses: &[&str], http: u16) -> Pod {
    Pod {
        namespace: "a".to_owned(),
        labels: [("app".to_owned(), app.to_owned())].into(),
        addresses: addresses
            .iter()
            .map(|address| address.parse().unwrap())
            .collect(),
        ports: vec![NamedPort {
            name: "http".to_owned(),
            protocol: Protocol::Tcp,
            number: http,
        }],
        local: true,
        created: 0,
    }
}

fn db() -> Value {
    json!({"matchLabels": {"app": "db"}})
}

fn web() -> Value {
    json!({"matchLabels": {"app": "web"}})
}

#[test]
fn without_policies_everything_passes_and_a_missing_listener_answers_otherwise() {
    let Some(world) = World::new() else { return };
    world.enforce(&[]);
    let _db = world.listen("db", DB, 5432);
    world.reaches("web", DB, 5432);
    world.reaches("outside", DB, 5432);
    let closed = world.connect("web", DB, 5433).map_err(|error| error.kind());
    assert!(
        matches!(closed, Err(ErrorKind::ConnectionRefused)),
        "{closed:?}"
    );
}

#[test]
fn default_deny_stops_both_ways_but_not_the_node() {
    let Some(world) = World::new() else { return };
    let _db = world.listen("db", DB, 5432);
    let _outside = world.listen("outside", NEAR, 80);
    let _six = world.listen("db", DB_SIX, 5432);
    world.reaches("web", DB_SIX, 5432);
    world.enforce(&[json!({"podSelector": db(), "policyTypes": ["Ingress", "Egress"]})]);
    world.is_refused("web", DB, 5432);
    world.is_refused("web", DB_SIX, 5432);
    world.is_refused("outside", DB, 5432);
    world.is_refused("db", NEAR, 80);
    world.reaches("web", NEAR, 80);
    world.reaches("node", DB, 5432);
    world.enforce(&[]);
    world.reaches("web", DB, 5432);
    world.reaches("db", NEAR, 80);
}

#[test]
fn egress_policies_hold_for_the_nodes_own_addresses_as_well() {
    let Some(world) = World::new() else { return };
    let _sockets = [6443, 10250].map(|port| world.listen("node", NODE, port));
    let _six = world.listen("node", NODE_SIX, 6443);
    world.nft(&format!(
        "table ip service {{\n chain prerouting {{\n type nat hook prerouting priority dstnat;\n \
         ip daddr {SERVICE} tcp dport 443 dnat to {NODE}:6443\n }}\n}}\n"
    ));
    world.reaches("web", SERVICE, 443);
    world.enforce(&[
        json!({"podSelector": db(), "policyTypes": ["Egress"]}),
        json!({"podSelector": web(), "policyTypes": ["Egress"],
            "egress": [{"ports": [{"port": 6443}]}]}),
    ]);
    world.is_refused("db", SERVICE, 443);
    world.is_refused("db", NODE, 6443);
    world.is_refused("db", NODE_SIX, 6443);
    world.reaches("web", SERVICE, 443);
    world.reaches("web", NODE_SIX, 6443);
    world.is_refused("web", NODE, 10250);
    world.reaches("outside", NODE, 10250);
}

#[test]
fn pod_peer_and_port_let_through_exactly_themselves() {
    let Some(world) = World::new() else { return };
    let _sockets = [5432, 5433].map(|port| world.listen("db", DB, port));
    world.enforce(&[json!({"podSelector": db(), "ingress": [
        {"from": [{"podSelector": web()}], "ports": [{"port": 5432}]}]})]);
    world.reaches("web", DB, 5432);
    world.is_refused("web", DB, 5433);
    world.is_refused("outside", DB, 5432);
}

#[test]
fn sender_and_receiver_must_both_allow() {
    let Some(world) = World::new() else { return };
    let _sockets = [80, 81, 82].map(|port| world.listen("db", DB, port));
    world.enforce(&[
        json!({"podSelector": web(), "policyTypes": ["Egress"],
            "egress": [{"ports": [{"port": 80, "endPort": 81}]}]}),
        json!({"podSelector": db(), "ingress": [{"ports": [{"port": 80}, {"port": 82}]}]}),
    ]);
    world.reaches("web", DB, 80);
    world.is_refused("web", DB, 81);
    world.is_refused("web", DB, 82);
    world.reaches("outside", DB, 82);
}

#[test]
fn udp_is_let_through_and_stopped_alike() {
    let Some(world) = World::new() else { return };
    let [open, shut] =
        [53, 54].map(|port| world.within("db", || UdpSocket::bind((DB, port)).unwrap()));
    assert!(world.datagram("web", &open) && world.datagram("web", &shut));
    world.enforce(&[json!({"podSelector": db(), "ingress": [
        {"ports": [{"port": 53, "protocol": "UDP"}]}]})]);
    assert!(world.datagram("web", &open));
    assert!(!world.datagram("web", &shut));
}

#[test]
fn exception_of_an_ip_block_is_refused() {
    let Some(world) = World::new() else { return };
    let _sockets = [NEAR, FAR].map(|address| world.listen("outside", address, 80));
    world.enforce(&[
        json!({"podSelector": web(), "policyTypes": ["Egress"], "egress": [
        {"to": [{"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"]}}]}]}),
    ]);
    world.reaches("web", NEAR, 80);
    world.is_refused("web", FAR, 80);
}

#[test]
fn named_port_is_the_receiving_pods_number() {
    let Some(world) = World::new() else { return };
    let _web = [8080, 9090].map(|port| world.listen("web", WEB, port));
    let _db = [8080, 9090].map(|port| world.listen("db", DB, port));
    world.enforce(&[json!({"podSelector": {}, "ingress": [{"ports": [{"port": "http"}]}]})]);
    world.reaches("outside", WEB, 8080);
    world.reaches("outside", DB, 9090);
    world.is_refused("outside", WEB, 9090);
    world.is_refused("outside", DB, 8080);
    world.enforce(&[
        json!({"podSelector": web(), "policyTypes": ["Egress"], "egress": [
        {"to": [{"podSelector": {}}], "ports": [{"port": "http"}]}]}),
    ]);
    world.reaches("web", DB, 9090);
    world.is_refused("web", DB, 8080);
}

#[test]
fn service_address_counts_as_the_pod_behind_it() {
    let Some(world) = World::new() else { return };
    let _sockets = [9090, 9091].map(|port| world.listen("db", DB, port));
    world.nft(&format!(
        "table ip service {{\n chain prerouting {{\n type nat hook prerouting priority dstnat;\n \
         ip daddr {SERVICE} tcp dport 80 dnat to {DB}:9090\n \
         ip daddr {SERVICE} tcp dport 81 dnat to {DB}:9091\n }}\n}}\n"
    ));
    world.enforce(&[
        json!({"podSelector": {}, "policyTypes": ["Egress", "Ingress"],
        "egress": [{"to": [{"podSelector": db()}], "ports": [{"port": 9090}]}],
        "ingress": [{"from": [{"podSelector": web()}]}]}),
    ]);
    world.reaches("web", SERVICE, 80);
    world.is_refused("web", SERVICE, 81);
    world.is_refused("outside", SERVICE, 80);
}

#[test]
fn connection_from_before_the_policy_goes_on() {
    let Some(world) = World::new() else { return };
    let listener = world.listen("db", DB, 5432);
    world.enforce(&[json!({"podSelector": db(), "ingress": [{}]})]);
    let mut client = world.connect("web", DB, 5432).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    world.enforce(&[json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})]);
    world.is_refused("web", DB, 5432);
    let mut heard = [0; 4];
    client.write_all(b"ping").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    server.read_exact(&mut heard).unwrap();
    server.write_all(&heard).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"ping");
}

#[test]
fn hundred_pods_and_policies_are_taken_in_one_go() {
    let Some(world) = World::new() else { return };
    let mut pods = Vec::new();
    let mut policies: Vec<NetworkPolicy> = Vec::new();
    for number in 0..100 {
        let app = format!("app-{number}");
        pods.push(pod(&app, &[&format!("10.78.0.{number}")], 8080));
        policies.push(
            serde_json::from_value(json!({
                "metadata": {"name": app, "namespace": "a"},
                "spec": {"podSelector": {"matchLabels": {"app": app}},
                    "policyTypes": ["Ingress", "Egress"],
                    "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": "http"}]}],
                    "egress": [{"to": [
                        {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}]}]},
            }))
            .unwrap(),
        );
    }
    let namespaces = [("a".to_owned(), Default::default())].into();
    let started = Instant::now();
    let compiled = policy::compile(&pods, &namespaces, &policies);
    let text = render(&compiled.ruleset, Refusal::Reject);
    let thought = started.elapsed();
    world.nft(&text);
    println!(
        "100 pods, 100 policies: {thought:?} to render, {:?} in all",
        started.elapsed()
    );
    assert_eq!(
        (
            compiled.ruleset.ingress.len(),
            compiled.ruleset.egress.len()
        ),
        (100, 100)
    );
    let _outside = world.listen("outside", NEAR, 80);
    world.reaches("web", NEAR, 80);
}
