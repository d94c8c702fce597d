//! A virtual machine for tests of the lab itself: Debian's kernel and busybox, in 192 MiB. It takes
//! the address that DHCP gives it and has a shell on port 8. For the lab alone.
//!
//! Invariant: it starts without a disk, so that a test of machines waits for nothing else.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use kit_oci::image::{File, Image, Layer};

use super::system::QEMU;
use crate::{
    cached::{Folder, Key},
    packages::{self, locate},
    progress::Progress,
    worker::{INITRD, KERNEL, cpio::Archive, kernel, tree::TREE},
};

const NAME: &str = "ghcr.io/covey-dev/testmachine:1";
const MODULES: &[&str] = &["virtio_pci", "virtio_net"];

/// The first process.
const INIT: &str = "#!/bin/sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in /modules/*; do insmod $module; done
ip link set lo up
ip link set eth0 up
udhcpc -i eth0 -s /configure -q -O search -O staticroutes
echo ready
while true; do nc -ll -p 8 -e sh; done
";

/// What udhcpc calls with what it was told. Classless routes (RFC 3442) come before the router.
const CONFIGURE: &str = "#!/bin/sh
[ \"$1\" = bound ] || exit 0
ip addr add $ip/$mask dev eth0
{ echo search $search; for server in $dns; do echo nameserver $server; done; } >/etc/resolv.conf
if [ -z \"$staticroutes\" ]; then
    ip route add default via $router
    exit
fi
set -- $staticroutes
while [ $# -gt 1 ]; do
    case $2 in
        0.0.0.0) ip route add $1 dev eth0 ;;
        *) ip route add $1 via $2 ;;
    esac
    shift 2
done
";

/// Raised when the image is made in another way.
const RECIPE: &str = "1";

/// `ghcr.io/covey-dev/testmachine:1` with a kernel and an initrd at the worker image's paths.
///
/// # Errors
/// Debian's packages cannot be had.
pub(crate) fn testmachine(progress: &Progress) -> Result<Image> {
    packages::ensure(&packages::IMAGES, progress)?;
    packages::ensure(&["lz4"], progress)?;
    let busybox = locate("busybox").context("busybox is not installed")?;
    let tree = TREE.ensure(progress)?;
    let mut key = Key::default();
    key.add(RECIPE)
        .add(tree.file_name().unwrap_or_default().as_encoded_bytes());
    key.add(INIT).add(CONFIGURE).add(fs::read(&busybox)?);
    let folder = Folder {
        kind: "kubevirt",
        name: "testmachine",
        key: key.text(),
        doing: "making a virtual machine for tests".to_owned(),
        expect: "",
    };
    let folder = folder.ensure(progress, |into, step| {
        kernel::extract(&tree, &into.join("vmlinux"), step)?;
        Ok(fs::write(
            into.join("initrd.img"),
            initrd(&tree, &busybox)?,
        )?)
    })?;
    let file = |path: &str, name: &str| File::data(path, folder.join(name)).owned_by(QEMU);
    let files = vec![file(KERNEL, "vmlinux"), file(INITRD, "initrd.img")];
    Ok(Image {
        name: NAME.to_owned(),
        layers: vec![Layer::Files(files)],
        entrypoint: Vec::new(),
        command: Vec::new(),
        user: QEMU,
        env: Vec::new(),
    })
}

fn initrd(tree: &Path, busybox: &Path) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "etc", "modules", "proc", "sys", "tmp"] {
        archive.folder(folder);
    }
    archive.character("dev/console", 0o600, 5, 1);
    archive.file("init", 0o755, INIT);
    archive.file("configure", 0o755, CONFIGURE);
    for name in ["busybox", "sh"] {
        archive.file(&format!("bin/{name}"), 0o755, fs::read(busybox)?);
    }
    kernel::add_modules(tree, MODULES, &mut archive)?;
    Ok(archive.finish())
}
