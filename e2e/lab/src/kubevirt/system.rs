//! The file system of virt-launcher and virt-handler: Debian's libvirt and qemu, with the changes
//! that KubeVirt needs, each of which something fails without.
//!
//! Invariant: everything is in two layers that both images share.

use std::path::Path;

use anyhow::Result;
use kit_oci::image::{File, Layer};

use crate::{debian::Tree, programs::Bins, progress::Progress};

/// KubeVirt's user, number 107 everywhere.
pub(super) const QEMU: u32 = 107;
/// Where the libvirt daemon is under the name that KubeVirt looks for among processes.
const DAEMON: &str = "/usr/libexec/kubevirt/virtqemud";

pub(crate) const TREE: Tree<'static> = Tree {
    name: "virt-launcher",
    packages: &[
        "acl",
        "bash",
        "ca-certificates",
        "ethtool",
        "findutils",
        "iproute2",
        "kmod",
        "libvirt-clients",
        "libvirt-daemon",
        "libvirt-daemon-driver-qemu",
        "mount",
        "nftables",
        "procps",
        "qemu-system-x86",
        "qemu-utils",
        "seabios",
        "tar",
        "util-linux",
        "xorriso",
    ],
    without: &[
        "/usr/share/doc/*",
        "/usr/share/info/*",
        "/usr/share/locale/*",
        "/usr/share/man/*",
    ],
};

/// Debian 12 ships the monolithic libvirtd only. It is asked for as virtqemud, and its sockets have
/// other names than those that KubeVirt connects to.
const VIRTQEMUD: &str = "#!/bin/sh
folder=\"${XDG_RUNTIME_DIR:-/run}/libvirt\"
mkdir -p \"$folder\"
for kind in sock sock-ro admin-sock; do
    ln -sfn \"libvirt-$kind\" \"$folder/virtqemud-$kind\"
done
exec DAEMON \"$@\"
";

const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash
qemu:x:107:107:qemu:/home/qemu:/bin/bash
libvirt-qemu:x:64055:64055:compiled into Debian's libvirt:/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
";
const GROUP: &str = "root:x:0:
tty:x:5:
disk:x:6:
kvm:x:104:
qemu:x:107:
libvirt-qemu:x:64055:
nogroup:x:65534:
";

/// Lowest first.
pub(super) fn layers(bins: &Bins, progress: &Progress) -> Result<Vec<Layer>> {
    let tree = TREE.ensure(progress)?;
    let archive = TREE.archive(progress)?;
    Ok(vec![
        Layer::Archive(archive),
        Layer::Files(changes(bins, &tree)?),
    ])
}

fn changes(bins: &Bins, tree: &Path) -> Result<Vec<File>> {
    let from_kubevirt =
        |path: &str, name: &str| Ok::<_, anyhow::Error>((path.to_owned(), bins.path(name)?));
    let mut files = vec![
        File::text("/etc/passwd", PASSWD),
        File::text("/etc/group", GROUP),
        File::directory("/home/qemu", 0o755).owned_by(QEMU),
        // virt-handler opens /proc/PID/root/var/run/…: an absolute link would lead out of there.
        File::link("/var/run", "../run"),
        File::program(DAEMON, tree.join("usr/sbin/libvirtd")),
        File::script("/usr/sbin/virtqemud", &VIRTQEMUD.replace("DAEMON", DAEMON)),
        // In Debian it comes with a package that would also start services.
        File::text("/etc/libvirt/virtlogd.conf", ""),
        File::directory("/usr/lib64/qemu-kvm", 0o755),
        File::directory("/var/log/libvirt/qemu", 0o755),
    ];
    for (path, name) in [
        ("/etc/libvirt/qemu.conf", "qemu.conf"),
        ("/etc/libvirt/virtqemud.conf", "virtqemud.conf"),
        ("/etc/nsswitch.conf", "nsswitch.conf"),
    ] {
        let (path, from) = from_kubevirt(path, name)?;
        files.push(File::data(path, from));
    }
    // From 1.9 virt-launcher, which is not root, puts a program in the hook's place.
    files.push(File::directory("/etc/libvirt/hooks", 0o755).owned_by(QEMU));
    let (path, from) = from_kubevirt("/etc/libvirt/hooks/qemu", "qemu.hook")?;
    files.push(File::program(path, from));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_keeps_the_name_that_is_looked_for() {
        assert!(DAEMON.ends_with("/virtqemud"));
        assert!(VIRTQEMUD.starts_with("#!/bin/sh\n"));
        assert!(VIRTQEMUD.contains("exec DAEMON \"$@\""));
    }

    #[test]
    fn users_that_libvirt_and_kubevirt_look_up_exist() {
        for list in [PASSWD, GROUP] {
            assert!(list.lines().any(|line| line.starts_with("qemu:x:107:")));
            assert!(list.lines().any(|line| line.starts_with("libvirt-qemu:x:")));
        }
    }
}
