//! What the root disk of a worker holds, beside programs and images.
//!
//! Invariant: the units that a boot starts are the ones in [`WANTS`], no others: whatever Debian's
//! packages want started is taken away, because each start costs a tenth of a second and more under
//! emulation.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::debian::Tree;

/// A file of ours beside this one, and its place.
macro_rules! file {
    ($path:literal) => {
        ($path, include_str!(concat!("root/", $path)))
    };
}

/// Debian's part. What the addons and people at a node's console use is here, too.
pub(crate) const TREE: Tree<'static> = Tree {
    name: "worker",
    packages: &[
        "busybox-static", // the DHCP client
        "ca-certificates",
        "conntrack",
        "dbus",
        "e2fsprogs",
        "ethtool",
        "iproute2",
        "iptables",
        "kmod",
        "linux-image-cloud-amd64",
        "mount",
        "nftables",
        "openssh-server",
        "procps",
        "socat",
        "systemd",
        "systemd-sysv",
        "udev",
        "xfsprogs",
    ],
    without: &[
        "/usr/share/doc/*",
        "/usr/share/info/*",
        "/usr/share/locale/*",
        "/usr/share/man/*",
    ],
};

/// Parts of packages that nothing here uses; a `*` at the end stands for any end of a name.
const REMOVED: &[&str] = &[
    "boot/System.map*",
    "boot/vmlinuz*", // the image has it outside of the disk
    "etc/hostname",
    "etc/resolv.conf",
    // PID 1 runs each of them before anything else.
    "usr/lib/systemd/system-environment-generators/*",
    "usr/lib/systemd/system-generators/*",
    // xfs_scrub's, with all that comes for it.
    "usr/bin/perl5*",
    "usr/bin/python3*",
    "usr/lib/python3*",
    "usr/lib/x86_64-linux-gnu/libicu*",
    "usr/lib/x86_64-linux-gnu/libperl.so*",
    "usr/lib/x86_64-linux-gnu/perl",
    "usr/share/perl",
    "usr/share/perl5",
    "usr/share/python3",
    // Names of hardware that no virtual machine has.
    "usr/lib/udev/hwdb*",
    "usr/lib/klibc*",
    "usr/lib/locale",
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/share/bash-completion",
    "usr/share/bug",
    "usr/share/common-licenses",
    "usr/share/gcc",
    "usr/share/initramfs-tools",
    "usr/share/lintian",
    "usr/share/zsh",
    "var/cache/*",
    "var/log/*",
];

/// Modules that a node may want, below `kernel/` of their folder; a worker has few devices.
const MODULES: &[&str] = &[
    "arch",
    "crypto",
    "drivers/acpi/button.ko",
    "drivers/block/loop.ko",
    "drivers/block/virtio_blk.ko",
    "drivers/cdrom",
    "drivers/char/hw_random",
    "drivers/char/virtio_console.ko", // the way to the guest's agent
    "drivers/input/evdev.ko",
    "drivers/net/dummy.ko",
    "drivers/net/geneve.ko",
    "drivers/net/ipvlan",
    "drivers/net/macvlan.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/tun.ko",
    "drivers/net/veth.ko",
    "drivers/net/virtio_net.ko",
    "drivers/net/vrf.ko",
    "drivers/net/vxlan",
    "drivers/net/wireguard",
    "drivers/scsi/scsi_common.ko",
    "drivers/scsi/scsi_mod.ko",
    "drivers/scsi/sd_mod.ko",
    "drivers/scsi/virtio_scsi.ko",
    "drivers/virtio",
    "fs/autofs", // PID 1 asks for it and complains otherwise
    "fs/configfs",
    "fs/fat",
    "fs/fuse",
    "fs/isofs",
    "fs/nls",
    "fs/overlayfs",
    "fs/xfs",
    "lib",
    "net/8021q",
    "net/bridge",
    "net/core",
    "net/ipv4",
    "net/ipv6",
    "net/key",
    "net/llc",
    "net/netfilter",
    "net/802",
    "net/sched",
    "net/sctp",
    "net/xfrm",
];

/// Files of ours, by their path on the disk.
pub(super) const FILES: &[(&str, &str)] = &[
    ("etc/fstab", ""),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    // Empty: every machine makes one of its own, and not as if it were installed just now.
    ("etc/machine-id", ""),
    file!("etc/containerd/config.toml"),
    file!("etc/containerd/certs.d/_default/hosts.toml"),
    file!("etc/ssh/sshd_config.d/worker.conf"),
    file!("etc/sysctl.d/90-worker.conf"),
    file!("etc/systemd/journald.conf.d/worker.conf"),
    file!("etc/systemd/system.conf.d/worker.conf"),
    file!("etc/systemd/system/containerd.service"),
    file!("etc/systemd/system/kubelet.service"),
    file!("etc/systemd/system/ssh.service.d/keys.conf"),
    file!("etc/systemd/system/worker-console.service"),
    file!("etc/systemd/system/worker-init.service"),
    file!("etc/systemd/system/worker-late.target"),
    file!("etc/systemd/system/worker-late.timer"),
    file!("etc/systemd/system/worker-network.service"),
    file!("etc/systemd/system/worker-power.service"),
    file!("etc/systemd/system/worker-run.service"),
];

/// Who wants what started. Of Debian's own units only what is named here is left.
pub(super) const WANTS: &[(&str, &[&str])] = &[
    (
        "sysinit.target",
        &["systemd-journald.service", "worker-init.service"],
    ),
    (
        "sockets.target",
        &["systemd-journald.socket", "systemd-journald-dev-log.socket"],
    ),
    ("network-online.target", &["worker-network.service"]),
    (
        "multi-user.target",
        &[
            "containerd.service",
            "kubelet.service",
            "worker-late.timer",
            "worker-power.service",
            "worker-run.service",
        ],
    ),
    (
        "worker-late.target",
        &[
            "dbus.socket",
            "kmod-static-nodes.service",
            "ssh.socket",
            "systemd-logind.service",
            "systemd-tmpfiles-setup-dev.service",
            "systemd-udev-trigger.service",
            "systemd-udevd.service",
            "worker-console.service",
        ],
    ),
];

/// Links, by their path: where they lead.
pub(super) const LINKS: &[(&str, &str)] = &[
    ("etc/resolv.conf", "/run/resolv.conf"),
    (
        "etc/systemd/system/default.target",
        "/lib/systemd/system/multi-user.target",
    ),
    ("etc/systemd/system/modprobe@drm.service", "/dev/null"), // logind's; there is no screen
    ("usr/local/sbin/worker-dhcp", "worker-init"),
];

/// Makes a copy of Debian's tree in `root` a worker's.
pub(super) fn trim(root: &Path) -> Result<()> {
    for pattern in REMOVED {
        for path in matching(root, pattern)? {
            remove(&path)?;
        }
    }
    for folder in ["etc/systemd/system", "usr/lib/systemd/system"] {
        for unit in children(&root.join(folder))? {
            let name = unit.to_string_lossy().into_owned();
            if name.ends_with(".wants") || name.ends_with(".requires") {
                remove(&unit)?;
            }
        }
    }
    for (path, text) in FILES {
        let path = root.join(path);
        make_folder(&path)?;
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
    }
    for (path, target) in LINKS {
        link(root, path, target)?;
    }
    for (target, units) in WANTS {
        for unit in *units {
            let ours = root.join("etc/systemd/system").join(unit).exists();
            let folder = if ours {
                "/etc/systemd/system"
            } else {
                "/lib/systemd/system"
            };
            let path = format!("etc/systemd/system/{target}.wants/{unit}");
            link(root, &path, &format!("{folder}/{unit}"))?;
        }
    }
    Ok(())
}

/// Takes away the modules that no worker wants; `modules` is `usr/lib/modules/<version>`.
pub(super) fn trim_modules(modules: &Path) -> Result<()> {
    let kernel = modules.join("kernel");
    let mut open = vec![kernel.clone()];
    while let Some(folder) = open.pop() {
        for path in children(&folder)? {
            let name = path.strip_prefix(&kernel).unwrap_or(&path);
            if MODULES.iter().any(|kept| name.starts_with(kept)) {
                continue;
            }
            let leads_to_kept = MODULES.iter().any(|kept| Path::new(kept).starts_with(name));
            if leads_to_kept {
                open.push(path);
            } else {
                remove(&path)?;
            }
        }
    }
    Ok(())
}

fn link(root: &Path, path: &str, target: &str) -> Result<()> {
    let path = root.join(path);
    make_folder(&path)?;
    if fs::symlink_metadata(&path).is_ok() {
        fs::remove_file(&path)?;
    }
    symlink(target, &path).with_context(|| format!("{} cannot be made", path.display()))
}

fn make_folder(file: &Path) -> Result<()> {
    let folder = file.parent().context("a path without folder")?;
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))
}

fn matching(root: &Path, pattern: &str) -> Result<Vec<PathBuf>> {
    let Some(pattern) = pattern.strip_suffix('*') else {
        return Ok(vec![root.join(pattern)]);
    };
    let (folder, begin) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    let found = children(&root.join(folder))?.into_iter().filter(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(begin))
    });
    Ok(found.collect())
}

/// A folder that is not there has nothing in it.
fn children(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("{} cannot be read", folder.display()))?,
    };
    let paths: std::io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
    Ok(paths?)
}

fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => return Ok(()),
    };
    removed.with_context(|| format!("{} cannot be removed", path.display()))
}

#[cfg(test)]
mod tests;
