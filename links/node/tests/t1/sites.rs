//! Three sites, in network namespaces: home and branch have the same private range behind address translations,
//! cloud is where it is.
//! Nobody says that a packet was too large: routers drop ICMP.

//  a1 10.0.0.11 ─┐                                  ┌─ b1 10.0.0.11
//  a2 10.0.0.12 ─┴─ nata 203.0.113.10 ── internet ── natb 203.0.113.20
//                   51820 → a1             │
//                                   c1 203.0.113.30, MTU 1400

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process, thread};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// All nodes.
pub(crate) const NODES: [&str; 4] = ["a1", "a2", "b1", "c1"];
/// All namespaces.
const ALL: [&str; 7] = ["internet", "nata", "natb", "a1", "a2", "b1", "c1"];

/// The namespaces.
pub(crate) struct Sites {
    prefix: String,
    /// Removes them when this process ends, however it does.
    guard: Child,
}

impl Sites {
    /// Nothing where they cannot be made.
    pub(crate) fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
        let present = |program: &str| Command::new(program).arg("-V").output().is_ok();
        let tun = File::options().read(true).write(true).open("/dev/net/tun");
        if !(root && present("ip") && present("nft") && tun.is_ok()) {
            let said = "the overlay is only proven as root with ip, nft and /dev/net/tun";
            let required = env::var_os("COVEY_TEST_REQUIRE").is_some_and(|value| value == "1");
            assert!(!required, "{said}");
            eprintln!("SKIPPED: {said}");
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("covey-{}-{number}", process::id());
        let names = ALL.map(|name| format!("{prefix}-{name}"));
        let script = "read -r _; for name; do ip netns del \"$name\" 2>/dev/null; done";
        let guard = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(&names)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let sites = Self { prefix, guard };
        for name in ALL {
            sites.ip(&format!("netns add {}", sites.name(name)));
            sites.ip_in(name, "link set lo up");
        }
        sites.wire();
        Some(sites)
    }

    fn wire(&self) {
        self.ip_in("internet", "link add br0 type bridge");
        self.ip_in("internet", "link set br0 up");
        for (router, number) in [("nata", 10), ("natb", 20)] {
            self.attach(router, "wan", "internet", &format!("203.0.113.{number}/24"));
            self.ip_in(router, "link add br0 type bridge");
            self.ip_in(router, "link set br0 up");
            self.ip_in(router, "addr add 10.0.0.1/24 dev br0");
            self.forward(router);
        }
        self.attach("c1", "eth0", "internet", "203.0.113.30/24");
        self.ip_in("c1", "link set eth0 mtu 1400");
        self.ip_in("c1", "route add default via 203.0.113.1 dev eth0");
        for (node, router, number) in [("a1", "nata", 11), ("a2", "nata", 12), ("b1", "natb", 11)] {
            self.attach(node, "eth0", router, &format!("10.0.0.{number}/24"));
            self.ip_in(node, "route add default via 10.0.0.1 dev eth0");
        }
        let rules = |more: &str| {
            format!(
                "table ip t {{
                   chain forwarded {{
                     type filter hook forward priority 0
                     ip protocol icmp drop
                   }}
                   chain own {{
                     type filter hook output priority 0
                     ip protocol icmp drop
                   }}
                   chain translated {{
                     type nat hook postrouting priority 100
                     oif wan masquerade
                   }}
                   {more}
                 }}"
            )
        };
        let publish = "chain published {
                         type nat hook prerouting priority -100
                         iif wan udp dport 51820 dnat to 10.0.0.11:51820
                       }";
        self.nft("nata", &rules(publish));
        self.nft("natb", &rules(""));
        for (number, node) in (1..).zip(NODES) {
            // A pod's address, on the node itself.
            self.ip_in(node, "link add cni0 type bridge");
            self.ip_in(node, "link set cni0 up");
            self.ip_in(node, &format!("addr add 10.128.{number}.1/24 dev cni0"));
        }
    }

    /// A cable from a namespace to the bridge of another.
    fn attach(&self, name: &str, device: &str, bridge: &str, address: &str) {
        let (inside, outside) = (self.name(name), self.name(bridge));
        self.ip(&format!(
            "link add {device} netns {inside} type veth peer name to-{name} netns {outside}"
        ));
        self.ip_in(bridge, &format!("link set to-{name} master br0 up"));
        self.ip_in(name, &format!("link set {device} up"));
        self.ip_in(name, &format!("addr add {address} dev {device}"));
    }

    fn forward(&self, router: &str) {
        self.within(router, || {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        });
    }

    fn nft(&self, name: &str, rules: &str) {
        let output = Command::new("ip")
            .args(["netns", "exec", &self.name(name), "nft", rules])
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{rules}: {words}");
    }

    /// Name of the namespace.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    fn ip(&self, arguments: &str) -> String {
        let output = Command::new("ip")
            .args(arguments.split_whitespace())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {arguments}: {words}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What `ip` says inside.
    pub(crate) fn ip_in(&self, name: &str, arguments: &str) -> String {
        self.ip(&format!("-n {} {arguments}", self.name(name)))
    }

    /// Whether the kernel has WireGuard of its own.
    pub(crate) fn has_kernel_wireguard(&self) -> bool {
        let internet = self.name("internet");
        let add = ["-n", &internet, "link", "add", "probe", "type", "wireguard"];
        let output = Command::new("ip").args(add).output().unwrap();
        output.status.success()
    }

    /// Runs on a thread inside the network. Sockets stay in the network they were made in.
    pub(crate) fn within<T: Send>(&self, name: &str, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name(name))).unwrap();
        thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), network).unwrap();
                work()
            });
            worker.join().unwrap()
        })
    }
}

impl Drop for Sites {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}
