//! Whether a machine can become a node, and if not, how to mend it.
//!
//! Invariant: all problems are said at once, and what is unknown is one.

use std::net::IpAddr;

use api::names;

use super::claim::Owner;
use super::facts::Facts;

/// Least memory: kubelet, runtime and a few pods.
pub const LEAST_MEMORY_MIB: u64 = 2048;
/// Machines of 2 GiB report less, since firmware and kernel have their share.
const MEMORY_SHARE_MIB: u64 = 256;
/// Least room below `/var/lib`: images are pulled there.
pub const LEAST_DISK_MIB: u64 = 10 * 1024;
/// Kernel from which on cgroup v2 is complete for kubelets.
pub const LEAST_KERNEL: (u64, u64) = (5, 15);
/// Tokens and certificates are young: a clock that is further off takes them for not yet valid.
pub const MOST_SKEW_SECONDS: u64 = 30;
/// Where kubelets listen.
const KUBELET_PORT: u16 = 10250;

/// What a pool wants of a machine.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// `amd64` or `arm64`; none: either.
    pub arch: Option<String>,
    /// Nodes speak to each other over WireGuard.
    pub overlay: bool,
    /// The kubelet is configured for swap (NodeSwap).
    pub swap: bool,
    /// The platform lets machines become nodes that have only cgroup v1.
    pub cgroup1: bool,
    /// Programs of a node can be sent to such a machine.
    pub sends_programs: bool,
    /// Who asks; what is ours already is no obstacle.
    pub us: Owner,
    /// SHA-256 of our tenant cluster's authority, in hexadecimal.
    pub ca: String,
    /// By which address the node is to be known; none: that is not asked.
    pub node_address: Option<IpAddr>,
}

/// Why a machine cannot become a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each says in words what it is")]
pub enum Problem {
    #[error(
        "its answer has no {0}: run the check again, and see whether /proc and /sys are mounted"
    )]
    Unknown(&'static str),
    #[error("its processor is {0}: a 64-bit x86 or ARM one is needed")]
    Arch(String),
    #[error(
        "its processor is {found}, and the pool wants {wanted}: change the pool's selector, or take the machine out of it"
    )]
    OtherArch { found: String, wanted: String },
    #[error("its kernel is {0}: install 5.15 or newer, and reboot")]
    Kernel(String),
    #[error(
        "it has no cgroup v2: boot with systemd.unified_cgroup_hierarchy=1, or install a distribution that has it"
    )]
    Cgroup,
    #[error(
        "{0} MiB of swap are on: run swapoff -a and take swap out of /etc/fstab, or configure NodeSwap for the pool"
    )]
    Swap(u64),
    #[error("it has {0} MiB of memory: at least 2048 are needed")]
    Memory(u64),
    #[error("{0} MiB are free below /var/lib: at least 10240 are needed")]
    Disk(u64),
    #[error("/var/lib is read-only: check the filesystem with dmesg and fsck")]
    ReadOnly,
    #[error(
        "/run is no tmpfs: mount one there, since the join's token must be gone after a reboot"
    )]
    Run,
    #[error("its clock is {0} s off: set up chrony or systemd-timesyncd")]
    Clock(u64),
    #[error(
        "its kernel has no {0}: install the modules of the running kernel (on Debian linux-image-$(uname -r)), or run modprobe {0}"
    )]
    Module(&'static str),
    #[error(
        "it has neither WireGuard nor /dev/net/tun, which the pool's overlay needs: run modprobe wireguard"
    )]
    Overlay,
    #[error("programs are missing: {0}; install them")]
    Missing(String),
    #[error("it belongs to {0}: delete that Machine first")]
    Owned(Owner),
    #[error(
        "it is a node already: run kubeadm reset there, or have it taken over as it runs with spec.adopt: true"
    )]
    ForeignKubelet,
    #[error("{0} runs there: remove it, a node has one runtime and one kubelet")]
    ForeignProgram(String),
    #[error(
        "{0} containers run there that are not Kubernetes': stop them, or take another machine"
    )]
    ForeignContainers(u64),
    #[error(
        "none of its interfaces has the address {wanted} by which the node is to be known: set spec.nodeAddress to one \
         that it has ({found})"
    )]
    NodeAddress { wanted: IpAddr, found: String },
    #[error(
        "the node that is to be taken over has no certificate of a kubelet that can be read: see \
         /var/lib/kubelet/pki/kubelet-client-current.pem, or run kubeadm reset there"
    )]
    NodeName,
    #[error(
        "the node that is to be taken over is called {0}, and Machines have names of at most 52 lower-case letters, \
         digits and - that begin with a letter: drain it, and run kubeadm reset there"
    )]
    NodeNameForm(String),
    #[error(
        "which authority the kubelet believes cannot be read: /etc/kubernetes/kubelet.conf has to have it as \
         certificate-authority-data"
    )]
    NodeAuthority,
    #[error("somebody listens on port {0}: find out with ss -ltnp who, and stop it")]
    Port(u16),
}

/// Everything that keeps the machine from becoming a node; none: it is usable.
#[must_use]
pub fn problems(facts: &Facts, needs: &Needs) -> Vec<Problem> {
    let is_ours = facts.owner.as_ref() == Some(&needs.us);
    let is_joined = is_ours && facts.kubelet_ca == needs.ca && !needs.ca.is_empty();
    let mut found = hardware(facts, needs);
    found.extend(software(facts, needs));
    found.extend(others(facts, is_ours, is_joined));
    found.extend(node_address(facts, needs));
    found
}

/// What keeps the operator from taking over the node that runs on it: not what would keep it from becoming one, since
/// it is one.
#[must_use]
pub fn problems_of_node(facts: &Facts, needs: &Needs) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut unless = |is_good: bool, problem: Problem| {
        if !is_good {
            found.push(problem);
        }
    };
    unless(!facts.machine_id.is_empty(), Problem::Unknown("machine-id"));
    unless(facts.writable, Problem::ReadOnly);
    let missing = missing(facts, false);
    unless(missing.is_empty(), Problem::Missing(missing.join(", ")));
    unless(facts.kubelet.is_some(), Problem::Unknown("kubelet version"));
    unless(
        !facts.kubelet_authorities.is_empty(),
        Problem::NodeAuthority,
    );
    match &facts.node_name {
        None => unless(false, Problem::NodeName),
        Some(name) => unless(is_machine_name(name), Problem::NodeNameForm(name.clone())),
    }
    for process in &facts.processes {
        let is_fine = process == "containerd" || process == "kubelet";
        unless(is_fine, Problem::ForeignProgram(process.clone()));
    }
    found.extend(node_address(facts, needs));
    found
}

/// Whether a Machine can be called so.
fn is_machine_name(name: &str) -> bool {
    name.len() <= names::MAX_MACHINE_NAME_LENGTH
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && !name.contains('.')
}

/// The kubelet waits for ever for an address that the machine does not have.
fn node_address(facts: &Facts, needs: &Needs) -> Option<Problem> {
    let wanted = needs.node_address?;
    if facts.addresses.is_empty() {
        return Some(Problem::Unknown("addresses"));
    }
    let of_others = |address: &&IpAddr| {
        let is_link_local = match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        !address.is_loopback() && !is_link_local
    };
    let found = facts.addresses.iter().filter(of_others).take(8);
    let found: Vec<_> = found.map(ToString::to_string).collect();
    (!facts.addresses.contains(&wanted)).then(|| Problem::NodeAddress {
        wanted,
        found: found.join(", "),
    })
}

fn hardware(facts: &Facts, needs: &Needs) -> Vec<Problem> {
    let mut found = Vec::new();
    let arch = match facts.arch.as_str() {
        "" => None,
        "x86_64" | "amd64" => Some("amd64"),
        "aarch64" | "arm64" => Some("arm64"),
        _ => Some(""),
    };
    match (arch, &needs.arch) {
        (None, _) => found.push(Problem::Unknown("processor")),
        (Some(""), _) => found.push(Problem::Arch(facts.arch.clone())),
        (Some(arch), Some(wanted)) if arch != wanted => found.push(Problem::OtherArch {
            found: arch.to_owned(),
            wanted: wanted.clone(),
        }),
        _ => {}
    }
    match facts.memory_mib {
        None => found.push(Problem::Unknown("memory")),
        Some(mib) if mib < LEAST_MEMORY_MIB - MEMORY_SHARE_MIB => found.push(Problem::Memory(mib)),
        _ => {}
    }
    match facts.disk_free_mib {
        None => found.push(Problem::Unknown("free disk")),
        Some(mib) if mib < LEAST_DISK_MIB => found.push(Problem::Disk(mib)),
        _ => {}
    }
    match facts.swap_mib {
        None => found.push(Problem::Unknown("swap")),
        Some(mib) if mib > 0 && !needs.swap => found.push(Problem::Swap(mib)),
        _ => {}
    }
    match facts.clock_skew {
        None => found.push(Problem::Unknown("clock")),
        Some(skew) if skew >= MOST_SKEW_SECONDS => found.push(Problem::Clock(skew)),
        _ => {}
    }
    found
}

fn software(facts: &Facts, needs: &Needs) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut unless = |is_good: bool, problem: Problem| {
        if !is_good {
            found.push(problem);
        }
    };
    match version(&facts.kernel) {
        None => unless(false, Problem::Unknown("kernel version")),
        Some(kernel) => unless(
            kernel >= LEAST_KERNEL,
            Problem::Kernel(facts.kernel.clone()),
        ),
    }
    unless(!facts.machine_id.is_empty(), Problem::Unknown("machine-id"));
    unless(facts.cgroup2 || needs.cgroup1, Problem::Cgroup);
    unless(facts.overlay, Problem::Module("overlay"));
    unless(facts.bridge_filter, Problem::Module("br_netfilter"));
    unless(
        !needs.overlay || facts.wireguard || facts.tun,
        Problem::Overlay,
    );
    unless(facts.writable, Problem::ReadOnly);
    unless(facts.run_is_memory, Problem::Run);
    let missing = missing(facts, needs.sends_programs);
    unless(missing.is_empty(), Problem::Missing(missing.join(", ")));
    found
}

/// What has to be installed: a node's own programs where they are not sent, else what unpacks them.
fn missing(facts: &Facts, sends_programs: bool) -> Vec<String> {
    let of_node = match sends_programs {
        true => &facts.missing_unpackers,
        false => &facts.missing_programs,
    };
    facts.missing.iter().chain(of_node).cloned().collect()
}

fn others(facts: &Facts, is_ours: bool, is_joined: bool) -> Vec<Problem> {
    let mut found = Vec::new();
    if let Some(owner) = &facts.owner
        && !is_ours
    {
        found.push(Problem::Owned(owner.clone()));
    }
    let is_kubelet = facts.kubelet_configured || facts.tasks > 0;
    if is_kubelet && !is_joined {
        found.push(Problem::ForeignKubelet);
    }
    for process in &facts.processes {
        // A runtime without containers is what Covey would install; a kubelet of ours may run before its join.
        let is_fine = process == "containerd" || process == "kubelet" && is_ours;
        if !is_fine {
            found.push(Problem::ForeignProgram(process.clone()));
        }
    }
    if facts.foreign_tasks > 0 {
        found.push(Problem::ForeignContainers(facts.foreign_tasks));
    }
    if facts.ports.contains(&KUBELET_PORT) && !is_ours {
        found.push(Problem::Port(KUBELET_PORT));
    }
    found
}

/// Major and minor of "5.15.0-91-generic".
fn version(kernel: &str) -> Option<(u64, u64)> {
    let mut numbers = kernel.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests;
