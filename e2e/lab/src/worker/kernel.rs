//! The kernel and its initrd, as a virtual machine starts them without a boot loader.
//!
//! The kernel is taken out of Debian's `vmlinuz`: qemu starts an uncompressed one by its PVH entry,
//! and nothing is unpacked under emulation. The initrd holds one program and the modules that it
//! loads. Invariant: same tree and program, same bytes.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use super::cpio::Archive;
use crate::{progress::Step, run};

/// Loaded before the root disk is there: its driver, the other devices', those of disks that are
/// plugged in while the machine runs, which may be before udev does, and what every node's containers
/// and addons use, which would else start modprobe once for each.
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "virtio_rng",
    "virtio_scsi",
    "sd_mod",
    "isofs",
    "overlay",
    "br_netfilter",
    "veth",
    "vxlan",
];

/// The one kernel in a tree, by its version.
pub(super) fn version(tree: &Path) -> Result<String> {
    let modules = tree.join("usr/lib/modules");
    let mut names: Vec<_> = fs::read_dir(&modules)
        .with_context(|| format!("{} cannot be read", modules.display()))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    match (names.pop(), names.is_empty()) {
        (Some(version), true) => Ok(version),
        _ => bail!("{} has not one kernel's modules", modules.display()),
    }
}

/// Writes the uncompressed kernel of `tree` to `to`.
pub(crate) fn extract(tree: &Path, to: &Path, step: &mut Step) -> Result<()> {
    let image = tree
        .join("boot")
        .join(format!("vmlinuz-{}", version(tree)?));
    let image = fs::read(&image).with_context(|| format!("{} cannot be read", image.display()))?;
    let packed = to.with_extension("lz4");
    fs::write(&packed, payload(&image)?)?;
    let mut lz4 = run::command("lz4", ["--decompress", "--force", "--quiet"]);
    run::watched(lz4.arg(&packed).arg(to), step).context("the kernel cannot be unpacked")?;
    fs::remove_file(&packed)?;
    if !fs::read(to)?.starts_with(b"\x7fELF") {
        bail!("the kernel's content is not an ELF program");
    }
    Ok(())
}

/// The packed kernel in a `bzImage` (Linux, `Documentation/arch/x86/boot.rst`), without the length
/// that follows it.
fn payload(image: &[u8]) -> Result<&[u8]> {
    const LZ4_LEGACY: &[u8] = &[0x02, 0x21, 0x4c, 0x18];
    let word = |at: usize| -> Option<usize> {
        let bytes = image.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    if image.get(0x202..0x206) != Some(b"HdrS") {
        bail!("it is no bzImage");
    }
    let (Some(offset), Some(length)) = (word(0x248), word(0x24c)) else {
        bail!("the kernel's header is cut short");
    };
    let sectors = match image[0x1f1] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let begin = (sectors + 1) * 512 + offset;
    let payload = image
        .get(begin..begin + length)
        .context("the kernel is cut short")?;
    if !payload.starts_with(LZ4_LEGACY) {
        bail!("the kernel is not packed with lz4, as Debian 12's for clouds is");
    }
    Ok(&payload[..payload.len().saturating_sub(4)])
}

/// Writes the initrd with `program` as its only one.
pub(super) fn initrd(tree: &Path, program: &Path, to: &Path) -> Result<()> {
    let mut archive = Archive::default();
    archive.folder("dev").folder("modules").folder("root");
    // The kernel opens it before /dev is mounted.
    archive.character("dev/console", 0o600, 5, 1);
    archive.file("init", 0o755, fs::read(program)?);
    add_modules(tree, MODULES, &mut archive)?;
    fs::File::create(to)?.write_all(&archive.finish())?;
    Ok(())
}

/// Adds `wanted` modules and all that they need to `modules/`, by names in the order of loading.
pub(crate) fn add_modules(tree: &Path, wanted: &[&str], archive: &mut Archive) -> Result<()> {
    let folder = tree.join("usr/lib/modules").join(version(tree)?);
    let dependencies = fs::read_to_string(folder.join("modules.dep"))
        .with_context(|| format!("{} has no modules.dep", folder.display()))?;
    for (number, path) in closure(&dependencies, wanted)?.iter().enumerate() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let content = fs::read(folder.join(path))
            .with_context(|| format!("{} cannot be read", path.display()))?;
        archive.file(&format!("modules/{number:02}-{name}"), 0o644, content);
    }
    Ok(())
}

/// The files of `wanted` modules and of all that they need, those that are needed first.
/// `dependencies` is depmod's `modules.dep`.
fn closure(dependencies: &str, wanted: &[&str]) -> Result<Vec<PathBuf>> {
    let mut known = BTreeMap::new();
    for line in dependencies.lines() {
        let Some((path, needs)) = line.split_once(':') else {
            continue;
        };
        // depmod lists what to load last first.
        let needs: Vec<_> = needs.split_whitespace().rev().collect();
        known.insert(module(path), (path, needs));
    }
    let mut order: Vec<PathBuf> = Vec::new();
    for name in wanted {
        let (path, needs) = known
            .get(*name)
            .with_context(|| format!("the kernel has no module {name:?}"))?;
        for path in needs.iter().chain([path]) {
            let path = PathBuf::from(path);
            if !order.contains(&path) {
                order.push(path);
            }
        }
    }
    Ok(order)
}

/// The name of a module's file: its own, with underscores.
fn module(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENCIES: &str = "kernel/a/virtio.ko: kernel/a/virtio_ring.ko\n\
        kernel/a/virtio_ring.ko:\n\
        kernel/b/virtio-rng.ko: kernel/a/virtio.ko kernel/a/virtio_ring.ko\n";

    #[test]
    fn modules_come_after_what_they_need_and_once() {
        let order = closure(DEPENDENCIES, &["virtio", "virtio_rng"]).unwrap();
        let names: Vec<_> = order.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "kernel/a/virtio_ring.ko",
                "kernel/a/virtio.ko",
                "kernel/b/virtio-rng.ko"
            ]
        );
        assert!(closure(DEPENDENCIES, &["nvme"]).is_err());
    }

    fn image(content: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 5 * 512 + 16];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248] = 16;
        image[0x24c] = content.len() as u8;
        image.extend(content);
        image.extend([9; 32]);
        image
    }

    #[test]
    fn the_packed_kernel_is_found_by_the_header() {
        let image = image(b"\x02\x21\x4c\x18packed\x00\x01\x02\x03");
        assert_eq!(payload(&image).unwrap(), b"\x02\x21\x4c\x18packed");
    }

    #[test]
    fn what_is_no_kernel_or_packed_otherwise_is_refused() {
        assert!(payload(b"MZ").is_err());
        assert!(payload(&vec![0; 4096]).is_err());
        let error = payload(&image(b"\xfd7zXZ-------")).unwrap_err().to_string();
        assert!(error.contains("lz4"), "{error}");
        let cut = &image(b"\x02\x21\x4c\x18packed")[..5 * 512];
        assert!(payload(cut).is_err());
    }
}
