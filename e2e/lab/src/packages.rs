//! Which Debian packages are missing, and how they come onto the machine.
//!
//! Invariant: installing a package starts no service: the machine is a developer's, and the lab
//! runs its own processes.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::cache::cache_dir;
use crate::progress::Progress;

/// What the lab's hosts need while they run: `nft` (kube-proxy in nftables mode and the portmap
/// plugin's nftables backend; neither asks for iptables or conntrack), `ip`, `nsenter`, `unshare`,
/// `mount`, `losetup`, `mkfs.xfs` and `sysctl`. runc is static and needs no library.
pub const RUNTIME: [&str; 6] = [
    "iproute2",
    "mount",
    "nftables",
    "procps",
    "util-linux",
    "xfsprogs",
];

/// What the images of the e2e suites take files from.
pub const IMAGES: [&str; 1] = ["busybox-static"];

/// What images of the conformance tests take files from.
pub const CONFORMANCE: [&str; 2] = ["busybox-static", "bash-static"];

/// What the image of flannel takes files from besides: it does not start without an iptables to
/// clean up after, although it uses nftables.
pub const FLANNEL: [&str; 2] = ["busybox-static", "iptables"];

/// What tests of filesystems on loop devices need, and what the image of the CSI driver takes files
/// from.
pub const FILESYSTEMS: [&str; 4] = ["e2fsprogs", "mount", "util-linux", "xfsprogs"];

/// What makes keys of hosts that are reached by SSH.
pub const SSH_CLIENT: [&str; 1] = ["openssh-client"];

/// What tests of machines that are reached by SSH start servers of, and play scripts with.
pub const SSH: [&str; 2] = ["busybox-static", "openssh-server"];

/// What proves a package on a system without dpkg: commands on the `PATH`, or files.
const WITNESSES: [(&str, &[&str]); 21] = [
    ("binutils", &["strip"]),
    ("busybox-static", &["busybox"]),
    (
        "debian-archive-keyring",
        &["/usr/share/keyrings/debian-archive-keyring.gpg"],
    ),
    ("e2fsprogs", &["mke2fs"]),
    ("gcc", &["gcc"]),
    ("iproute2", &["ip"]),
    ("iptables", &["iptables", "ip6tables"]),
    ("kmod", &["depmod"]),
    ("libc6-dev", &["/usr/include/stdlib.h"]),
    ("libseccomp-dev", &["/usr/include/seccomp.h"]),
    ("lz4", &["lz4"]),
    ("mmdebstrap", &["mmdebstrap"]),
    ("mount", &["losetup", "mount", "umount"]),
    ("nftables", &["nft"]),
    ("openssh-client", &["ssh-keygen"]),
    ("openssh-server", &["/usr/sbin/sshd"]),
    ("pkg-config", &["pkg-config"]),
    ("procps", &["ps", "sysctl"]),
    ("qemu-utils", &["qemu-img"]),
    ("util-linux", &["nsenter", "unshare"]),
    ("xfsprogs", &["mkfs.xfs", "xfs_growfs"]),
];

const POLICY: &str = "/usr/sbin/policy-rc.d";
/// Ours is known by its text, so that one left by a killed run is taken away by the next.
const POLICY_TEXT: &str =
    "#!/bin/sh\n# While covey's lab installs packages: start nothing.\nexit 101\n";

/// Which of `packages` (Debian's names) are not installed, in the order given.
///
/// # Errors
/// `dpkg-query` is there and cannot be run.
pub fn missing(packages: &[&str]) -> anyhow::Result<Vec<String>> {
    if packages.is_empty() {
        return Ok(Vec::new());
    }
    if !on_path("dpkg-query") {
        let lacks = |package: &&&str| !witnesses(package).iter().all(|witness| exists(witness));
        return Ok(packages
            .iter()
            .filter(lacks)
            .map(|package| (*package).to_owned())
            .collect());
    }
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${Package} ${db:Status-Status}\n"])
        .args(packages)
        .stderr(Stdio::null()) // it complains about each one that it does not know
        .output()
        .context("`dpkg-query` cannot be run")?;
    Ok(lacking(packages, &String::from_utf8_lossy(&output.stdout)))
}

/// Those of `packages` that dpkg's listing does not call installed.
fn lacking(packages: &[&str], listing: &str) -> Vec<String> {
    let installed = |package: &&&str| {
        listing
            .lines()
            .any(|line| line.split_once(' ') == Some((**package, "installed")))
    };
    packages
        .iter()
        .filter(|package| !installed(package))
        .map(|p| (*p).to_owned())
        .collect()
}

/// Installs what is missing of `packages` (Debian's names), and says so.
///
/// # Errors
/// Something is missing and this is not root, has no apt, or apt failed. The error says what to
/// install by hand.
pub fn ensure(packages: &[&str], progress: &Progress) -> anyhow::Result<()> {
    let missing = missing(packages)?;
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if !on_path("apt-get") {
        let wanted: Vec<_> = missing
            .iter()
            .flat_map(|package| witnesses(package))
            .collect();
        bail!("this system has no apt: install {wanted:?} its own way (Debian's names: {names})");
    }
    if !is_root()? {
        bail!("run `sudo apt-get install --no-install-recommends {names}`, then this again");
    }
    let _lock = lock()?;
    let _policy = Policy::forbid_starts(Path::new(POLICY))?;
    let step = progress.step(format!("installing the Debian packages {names}"));
    step.finish(install(&missing))
        .with_context(|| format!("{names} could not be installed"))
}

fn install(packages: &[String]) -> anyhow::Result<()> {
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(packages.iter().map(String::as_str));
    if has_lists(Path::new("/var/lib/apt/lists")) && apt_get(&arguments).is_ok() {
        return Ok(());
    }
    // No lists, or lists so old that they name packages that are gone.
    apt_get(&["update"])?;
    apt_get(&arguments)
}

fn apt_get(arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("apt-get")
        .arg("--quiet")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .context("`apt-get` cannot be run")?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("`apt-get {}` failed: {}", arguments.join(" "), why.trim());
    }
    Ok(())
}

fn has_lists(lists: &Path) -> bool {
    std::fs::read_dir(lists).is_ok_and(|mut items| {
        items.any(|item| item.is_ok_and(|i| i.file_name().to_string_lossy().contains("_Packages")))
    })
}

/// While it lives, packages' scripts start no service (Debian policy, invoke-rc.d). A policy that
/// the machine has already is left alone.
struct Policy {
    file: Option<PathBuf>,
}

impl Policy {
    fn forbid_starts(file: &Path) -> anyhow::Result<Self> {
        let mut options = File::options();
        match options.write(true).create_new(true).mode(0o755).open(file) {
            Ok(mut new) => {
                let policy = Self {
                    file: Some(file.to_owned()),
                };
                new.write_all(POLICY_TEXT.as_bytes())
                    .with_context(|| format!("{} cannot be written", file.display()))?;
                Ok(policy)
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let ours = std::fs::read_to_string(file).is_ok_and(|text| text == POLICY_TEXT);
                Ok(Self {
                    file: ours.then(|| file.to_owned()),
                })
            }
            Err(error) => Err(error).with_context(|| format!("{} cannot be made", file.display())),
        }
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Gone already is as good.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Two labs that install at once would take each other's policy away.
fn lock() -> anyhow::Result<File> {
    let path = cache_dir()?.join("packages.lock");
    std::fs::create_dir_all(cache_dir()?)?;
    let file = File::create(&path).with_context(|| format!("{} cannot be made", path.display()))?;
    file.lock()
        .with_context(|| format!("{} cannot be locked", path.display()))?;
    Ok(file)
}

fn is_root() -> anyhow::Result<bool> {
    let output = Command::new("id")
        .arg("-u")
        .output()
        .context("`id -u` cannot be run")?;
    Ok(output.stdout.trim_ascii() == b"0")
}

fn witnesses(package: &str) -> Vec<String> {
    let known = WITNESSES.iter().find(|(name, _)| *name == package);
    let all = known.map_or_else(|| vec![package], |(_, witnesses)| witnesses.to_vec());
    all.into_iter().map(str::to_owned).collect()
}

fn exists(witness: &str) -> bool {
    if witness.starts_with('/') {
        Path::new(witness).exists()
    } else {
        on_path(witness)
    }
}

fn on_path(command: &str) -> bool {
    locate(command).is_some()
}

/// A command's file. Also where root's commands are: a user's `PATH` often lacks those.
pub(crate) fn locate(command: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(more)
        .map(|dir| dir.join(command))
        .find(|p| p.is_file())
}

#[cfg(test)]
mod tests;
