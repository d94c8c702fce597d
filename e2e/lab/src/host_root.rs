//! What hosts are made of that see nothing of the machine: Debian with OpenRC instead of systemd, and the programs of
//! a node.
//!
//! All hosts of a version share their trees; what one of them writes lies above. Invariant: nothing secret is in
//! what is shared, and a host can replace every file, as on a disk of its own.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    cached::{Folder, Key},
    cgroups::Cgroups,
    debian::Tree,
    host::{
        Host,
        spec::{HostSpec, kubelet_sysctls},
    },
    network::REGISTRY_FOR_MACHINES,
    packages,
    programs::{self, Bins, Program, kubernetes::KubernetesVersion},
    progress::Progress,
    slot::addresses::Slot,
};

/// What an init does before all else, and containerd where it is installed.
pub(crate) const BOOT: &str = include_str!("host_root/boot.sh");

/// A file of ours beside this one, and its place.
macro_rules! file {
    ($path:literal, $mode:literal) => {
        ($path, $mode, include_str!(concat!("host_root/", $path)))
    };
}

/// Debian's part. Without systemd, which has to be the first process: services are started as OpenRC does it, for
/// kubeadm and people alike.
const TREE: Tree<'static> = Tree {
    name: "host",
    packages: &[
        "conntrack",
        "ethtool",
        "iproute2",
        "iptables",
        "kmod",
        "mount",
        "nftables",
        "openrc",
        "openssh-server",
        "procps",
    ],
    without: &[
        "/usr/share/doc/*",
        "/usr/share/info/*",
        "/usr/share/locale/*",
        "/usr/share/man/*",
    ],
};

/// Files of a host with programs of a node: path, mode, content.
const FILES: &[(&str, u32, &str)] = &[
    file!("etc/containerd/config.toml", 0o644),
    file!("etc/init.d/containerd", 0o755),
    file!("etc/init.d/kubelet", 0o755),
];

/// Flags of a kubelet whose disk is the machine's: how full others keep that is no reason to evict pods and to throw
/// images away again and again. Quoted, because OpenRC evaluates them as a shell does.
const DISK_IS_SHARED: &str = "--eviction-hard='memory.available<100Mi,nodefs.available<500Mi,imagefs.available<500Mi' \
                              --image-gc-high-threshold=100";

/// What one host's disk consists of.
#[derive(Clone, Debug)]
pub struct Disk {
    /// The uppermost first.
    pub(crate) trees: Vec<PathBuf>,
    /// Version of the kubelet in it.
    pub(crate) version: Option<KubernetesVersion>,
}

impl Disk {
    /// Whether a host with it may become a node.
    pub(crate) fn is_of_node(&self) -> bool {
        self.version.is_some()
    }
}

/// Makes what hosts of a version share, unless it is there: Debian in about a minute, programs as `lab up` does.
///
/// # Errors
/// When something cannot be had.
pub fn prepare(version: Option<KubernetesVersion>, progress: &Progress) -> Result<Disk> {
    packages::ensure(&packages::RUNTIME, progress)?;
    packages::ensure(&packages::SSH_CLIENT, progress)?;
    let mut trees = vec![TREE.ensure(progress)?];
    if let Some(version) = version {
        let bins = programs::ensure(&wanted(version), progress)?;
        let layer = layer(&bins, version)?;
        let built = layer.ensure(progress, |into, _| install(&bins, version, into))?;
        trees.insert(0, built);
    }
    Ok(Disk { trees, version })
}

/// Whether all of it is there, for tests that skip loudly.
///
/// # Errors
/// When something is missing; the message says what.
pub fn is_prepared(version: KubernetesVersion) -> Result<()> {
    let bins = programs::find(&wanted(version))?;
    let missing = packages::missing(&[&packages::RUNTIME[..], &packages::SSH_CLIENT].concat())?;
    let has_trees = TREE.place()?.is_dir() && layer(&bins, version)?.place()?.is_dir();
    if !missing.is_empty() || !has_trees {
        bail!("hosts are not prepared: `cargo xtask lab host add` does that the first time")
    }
    Ok(())
}

fn wanted(version: KubernetesVersion) -> [Program; 4] {
    [
        Program::CONTAINERD,
        Program::RUNC,
        Program::CNI_PLUGINS,
        Program::kubernetes(version),
    ]
}

fn layer<'a>(bins: &Bins, version: KubernetesVersion) -> Result<Folder<'a>> {
    let mut key = Key::default();
    for (path, mode, text) in FILES {
        key.add(path).add(mode.to_string()).add(text);
    }
    for program in wanted(version) {
        let folder = bins.dir(program)?.file_name();
        key.add(folder.unwrap_or_default().as_encoded_bytes());
    }
    Ok(Folder {
        kind: "hosts",
        name: version.full(),
        key: key.text(),
        doing: format!("collecting the programs of a node of Kubernetes {version}"),
        expect: "",
    })
}

fn install(bins: &Bins, version: KubernetesVersion, into: &Path) -> Result<()> {
    for (path, mode, text) in FILES {
        write(into, path, *mode, text)?;
    }
    let mut programs = Vec::new();
    for name in ["kubelet", "kubeadm"] {
        programs.push((bins.kubernetes(name, version)?, "usr/local/bin"));
    }
    for name in ["containerd", "containerd-shim-runc-v2", "ctr", "runc"] {
        programs.push((bins.path(name)?, "usr/local/bin"));
    }
    for plugin in fs::read_dir(bins.dir(Program::CNI_PLUGINS)?)? {
        programs.push((plugin?.path(), "opt/cni/bin"));
    }
    for (program, folder) in programs {
        let to = into
            .join(folder)
            .join(program.file_name().unwrap_or_default());
        make_folders(into, &to)?;
        // A copy all the same: a host that changes one must not change the lab's.
        fs::copy(&program, &to).with_context(|| format!("{}: not copied", program.display()))?;
    }
    Ok(())
}

/// The file `/etc/default/kubelet`; `more` are further flags, each after a blank.
pub(crate) fn kubelet_arguments(has_cgroup_v2: bool, more: &str) -> String {
    // The kubelet refuses cgroup v1 unless it is told otherwise; flags go before its configuration.
    let cgroups = match has_cgroup_v2 {
        true => "",
        false => " --fail-cgroupv1=false",
    };
    format!("KUBELET_EXTRA_ARGS=\"{DISK_IS_SHARED}{cgroups}{more}\"\n")
}

/// Who a host is.
#[derive(Clone, Debug)]
pub(crate) struct Identity<'a> {
    pub(crate) name: &'a str,
    pub(crate) machine_id: &'a str,
    /// What its user shows to log in: a line of `authorized_keys`.
    pub(crate) login: &'a str,
    /// Resolves names for it.
    pub(crate) name_server: std::net::Ipv4Addr,
    pub(crate) has_cgroup_v2: bool,
}

impl Identity<'_> {
    /// The files that are its own: path, mode, content.
    pub(crate) fn files(&self) -> BTreeMap<&'static str, (u32, String)> {
        let Self {
            name,
            machine_id,
            login,
            name_server,
            ..
        } = self;
        let kubelet = kubelet_arguments(self.has_cgroup_v2, "");
        let registry = format!(
            "server = \"http://{REGISTRY_FOR_MACHINES}:5000\"\n\n[host.\"http://{REGISTRY_FOR_MACHINES}:5000\"]\n\
             capabilities = [\"pull\", \"resolve\"]\n"
        );
        let sshd = "HostKey /etc/ssh/ssh_host_ed25519_key\nPasswordAuthentication no\n\
                    PermitRootLogin prohibit-password\nUsePAM no\n";
        BTreeMap::from([
            (
                "etc/containerd/certs.d/_default/hosts.toml",
                (0o644, registry),
            ),
            ("etc/default/kubelet", (0o644, kubelet)),
            ("etc/hostname", (0o644, format!("{name}\n"))),
            (
                "etc/hosts",
                (
                    0o644,
                    format!("127.0.0.1 localhost {name}\n::1 localhost\n"),
                ),
            ),
            ("etc/machine-id", (0o444, format!("{machine_id}\n"))),
            (
                "etc/resolv.conf",
                (0o644, format!("nameserver {name_server}\n")),
            ),
            ("etc/ssh/sshd_config.d/lab.conf", (0o644, sshd.to_owned())),
            ("root/.ssh/authorized_keys", (0o600, format!("{login}\n"))),
        ])
    }
}

/// Writes a file below `root`; its folders are root's and readable by all, as Debian has them.
pub(crate) fn write(root: &Path, path: &str, mode: u32, text: &str) -> Result<()> {
    let file = root.join(path);
    make_folders(root, &file)?;
    fs::write(&file, text).with_context(|| format!("{}: not writable", file.display()))?;
    Ok(fs::set_permissions(file, fs::Permissions::from_mode(mode))?)
}

/// Makes the folders of `file`, which is below `root`.
pub(crate) fn make_folders(root: &Path, file: &Path) -> Result<()> {
    let folder = file.parent().context("a path without folder")?;
    fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    // Whatever the umask: a folder here covers the one below.
    for folder in folder
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
    {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// A host with a root of its own, in a network of its own, whose top group is that of `groups`.
pub(crate) fn spec(name: &str, folder: &Path, trees: &[PathBuf], groups: &Cgroups) -> HostSpec {
    // overlayfs cannot lie on overlayfs, so containerd's layers are on the checkout's disk.
    let mut binds = vec![
        (folder.join("containerd"), "/var/lib/containerd".into()),
        (folder.join("kubelet"), "/var/lib/kubelet".into()),
    ];
    let modules = Path::new("/lib/modules");
    if modules.is_dir() {
        binds.push((modules.into(), "/usr/lib/modules".into()));
    }
    HostSpec {
        hostname: name.to_owned(),
        folder: folder.to_path_buf(),
        root: trees.to_vec(),
        network: None,
        copy_on_write: Vec::new(),
        in_memory: vec!["/run".into()],
        binds,
        keep: Vec::new(),
        pretended_sysctls: kubelet_sysctls(),
        network_sysctls: BTreeMap::new(),
        cgroup_join: groups.join_files(),
    }
}

/// Takes the process that waits for a host's first one out of the host's groups: it is no part of the host, whose
/// top group is for the groups below it.
pub(crate) fn move_keeper(host: &Host, slot: Slot) -> Result<()> {
    for file in Cgroups::of_slot(slot.number())?.join_files() {
        fs::write(&file, host.keeper.pid.to_string())
            .with_context(|| format!("{}: cannot be joined", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(has_cgroup_v2: bool) -> BTreeMap<&'static str, (u32, String)> {
        let identity = Identity {
            name: "edge",
            machine_id: "0123456789abcdef0123456789abcdef",
            login: "ssh-ed25519 AAAA",
            name_server: std::net::Ipv4Addr::new(172, 22, 0, 10),
            has_cgroup_v2,
        };
        identity.files()
    }

    #[test]
    fn a_host_lets_nobody_in_but_with_the_labs_key() {
        let files = files(true);
        assert_eq!(
            files["root/.ssh/authorized_keys"],
            (0o600, "ssh-ed25519 AAAA\n".to_owned())
        );
        let (_, sshd) = &files["etc/ssh/sshd_config.d/lab.conf"];
        assert!(sshd.contains("PasswordAuthentication no"), "{sshd}");
        assert!(sshd.contains("ssh_host_ed25519_key"), "{sshd}");
    }

    #[test]
    fn cgroup_v1_is_allowed_only_where_there_is_no_other() {
        for has_cgroup_v2 in [false, true] {
            let kubelet = &files(has_cgroup_v2)["etc/default/kubelet"].1;
            assert!(kubelet.contains("--eviction-hard="), "{kubelet}");
            let is_told = kubelet.contains(" --fail-cgroupv1=false\"");
            assert_eq!(is_told, !has_cgroup_v2, "{kubelet}");
        }
    }

    #[test]
    fn folders_can_be_read_whatever_the_umask_and_files_have_their_mode() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "etc/x/y", 0o600, "z").unwrap();
        let mode = |path: &str| {
            let meta = fs::metadata(root.path().join(path)).unwrap();
            meta.permissions().mode() & 0o777
        };
        assert_eq!(
            (mode("etc"), mode("etc/x"), mode("etc/x/y")),
            (0o755, 0o755, 0o600)
        );
    }
}
