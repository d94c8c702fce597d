//! What a machine is, as the script `facts` says.
//!
//! Invariant: a number that is missing or none is unknown, and never zero.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::claim::Owner;
use crate::answer::Answer;

/// What a machine is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `/etc/machine-id`.
    pub machine_id: String,
    /// As `uname -m` says: `x86_64`, `aarch64`.
    pub arch: String,
    /// Processors.
    pub cpus: Option<u64>,
    /// Memory in MiB.
    pub memory_mib: Option<u64>,
    /// Swap in MiB.
    pub swap_mib: Option<u64>,
    /// Free below `/var/lib`, in MiB.
    pub disk_free_mib: Option<u64>,
    /// Name and version of the distribution.
    pub os: String,
    /// As `uname -r` says.
    pub kernel: String,
    /// Its clock, in seconds since 1970.
    pub clock: Option<u64>,
    /// By how many seconds it is off for certain, see [`Self::asked_between`]; none: nobody knows.
    pub clock_skew: Option<u64>,
    /// cgroup v2 alone.
    pub cgroup2: bool,
    /// `/dev/net/tun`.
    pub tun: bool,
    /// WireGuard in the kernel.
    pub wireguard: bool,
    /// overlayfs.
    pub overlay: bool,
    /// Bridged packets through iptables.
    pub bridge_filter: bool,
    /// `/var/lib` can be written.
    pub writable: bool,
    /// `/run` is memory, so what is there is gone after a reboot.
    pub run_is_memory: bool,
    /// Programs that the scripts need and that are not there.
    pub missing: Vec<String>,
    /// Programs of a node that are not there.
    pub missing_programs: Vec<String>,
    /// Programs that unpack what is sent and that are not there.
    pub missing_unpackers: Vec<String>,
    /// Running programs that matter: `kubelet`, `containerd`, `dockerd`, `crio`, `k3s`, `k0s`.
    pub processes: Vec<String>,
    /// Ports of a node on which somebody listens.
    pub ports: Vec<u16>,
    /// Addresses of its interfaces, by its own word: good for saying what is in the way, and for nothing else.
    pub addresses: Vec<IpAddr>,
    /// Containers that belong to no Kubernetes.
    pub foreign_tasks: u64,
    /// Containers of Kubernetes.
    pub tasks: u64,
    /// Version of the kubelet that is installed; none: none is, or it does not say.
    pub kubelet: Option<String>,
    /// There is a kubelet.conf.
    pub kubelet_configured: bool,
    /// SHA-256 of the authority that the kubelet believes, in hexadecimal; empty: none.
    pub kubelet_ca: String,
    /// SHA-256 of each certificate (DER, in hexadecimal) of that authority, at most eight.
    pub kubelet_authorities: Vec<String>,
    /// The node whose certificate the kubelet has.
    pub node_name: Option<String>,
    /// Whose machine it is; none: nobody's.
    pub owner: Option<Owner>,
    /// How long ago its owner looked at it, in seconds by its own clock; none: nobody knows.
    pub owner_looked: Option<u64>,
}

impl Facts {
    /// Reads an answer; texts are cut, lists bounded.
    #[must_use]
    pub fn read(answer: &Answer) -> Self {
        let list =
            |name| -> Vec<String> { answer.list(name).take(32).map(str::to_owned).collect() };
        Self {
            machine_id: answer.words("machineID"),
            arch: answer.words("arch"),
            cpus: answer.number("cpus"),
            memory_mib: answer.number("memoryMiB"),
            swap_mib: answer.number("swapMiB"),
            disk_free_mib: answer.number("diskFreeMiB"),
            os: answer.words("os").trim().to_owned(),
            kernel: answer.words("kernel"),
            clock: answer.number("clock"),
            clock_skew: None,
            cgroup2: answer.is("cgroup2"),
            tun: answer.is("tun"),
            wireguard: answer.is("wireguard"),
            overlay: answer.is("overlay"),
            bridge_filter: answer.is("bridgeFilter"),
            writable: answer.is("writable"),
            run_is_memory: answer.is("runIsMemory"),
            missing: list("missing"),
            missing_programs: list("missingPrograms"),
            missing_unpackers: list("missingUnpackers"),
            processes: list("processes"),
            ports: answer
                .list("ports")
                .filter_map(|port| port.parse().ok())
                .take(32)
                .collect(),
            addresses: answer
                .list("addresses")
                .filter_map(|address| address.parse().ok())
                .take(64)
                .collect(),
            // Not said: as if there were some.
            foreign_tasks: answer.number("foreignTasks").unwrap_or(1),
            tasks: answer.number("tasks").unwrap_or(1),
            kubelet: Some(answer.words("kubeletVersion")).filter(|version| !version.is_empty()),
            kubelet_configured: answer.get("kubeletConfigured") != "false",
            kubelet_ca: answer.words("kubeletCA"),
            kubelet_authorities: list("kubeletAuthorities")
                .into_iter()
                .filter(|text| is_digest(text))
                .take(8)
                .collect(),
            node_name: node_of(answer.get("kubeletCertificate")),
            owner: (answer.get("owned") != "false").then(|| {
                Owner::read(
                    answer,
                    ["ownerInstallation", "ownerTenantCluster", "ownerMachine"],
                )
            }),
            owner_looked: answer.number("ownerLooked"),
        }
    }

    /// With what the answer says of the machine's clock. It was read at some moment between the question and the end of the
    /// answer, which may be a minute later on a slow machine: only what is outside of that is skew.
    #[must_use]
    pub fn asked_between(mut self, asked: Timestamp, answered: Timestamp) -> Self {
        let seconds = |time: Timestamp| u64::try_from(time.as_second()).unwrap_or_default();
        let (first, last) = (seconds(asked), seconds(answered));
        self.clock_skew = self.clock.map(|clock| match clock < first {
            true => first - clock,
            false => clock.saturating_sub(last),
        });
        self
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The node that a kubelet's certificate (DER in base64) is for. It is not verified here: whoever is root on the
/// machine could write any. What counts is the Node that the tenant cluster knows.
fn node_of(certificate: &str) -> Option<String> {
    let der = STANDARD.decode(certificate).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    let node = name.strip_prefix("system:node:")?;
    let is_name = !node.is_empty()
        && node.len() <= 253
        && node
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.');
    is_name.then(|| node.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn certificate(common_name: &str) -> String {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        let key = KeyPair::generate().unwrap();
        STANDARD.encode(params.self_signed(&key).unwrap().der())
    }

    #[test]
    fn an_empty_answer_is_no_good_news() {
        let facts = Facts::read(&Answer::default());
        assert_eq!(facts.memory_mib, None);
        assert!(facts.kubelet_configured && facts.owner.is_some());
        assert!(facts.foreign_tasks > 0 && !facts.writable && !facts.cgroup2);
    }

    #[test]
    fn clock_is_off_by_what_no_slow_answer_explains() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let skew = |clock: Option<u64>| {
            let facts = Facts {
                clock,
                ..Facts::default()
            };
            facts.asked_between(at(1000), at(1053)).clock_skew
        };
        assert_eq!(skew(None), None);
        for clock in [1000, 1018, 1053] {
            assert_eq!(skew(Some(clock)), Some(0), "{clock}");
        }
        assert_eq!((skew(Some(965)), skew(Some(1090))), (Some(35), Some(37)));
    }

    #[test]
    fn the_node_stands_in_the_certificate_and_nothing_else_is_taken_for_one() {
        let node = |text: &str| node_of(text);
        assert_eq!(
            node(&certificate("system:node:w-1")),
            Some("w-1".to_owned())
        );
        assert_eq!(node(&certificate("admin")), None);
        assert_eq!(node(&certificate("system:node:../x")), None);
        assert_eq!(node("bm90IGEgY2VydGlmaWNhdGU="), None);
        assert_eq!(node(""), None);
    }
}
