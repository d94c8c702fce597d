//! The root disk: a tree becomes an ext4 file system in a qcow2 file, without a mount.
//!
//! Invariant: what the tree does not fill costs nothing in the file.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

use crate::{progress::Step, run};

/// What pods and their images find: the file grows with what is written.
const SIZE: &str = "8G";
/// One per 32 KiB: images are many files, but not as many as ext4 takes them for.
const BYTES_PER_INODE: &str = "32768";
/// A disk that is the same every time has the same name and the same order of folders.
const UUID: &str = "5d4b1f3e-0c1b-4c57-9a53-6f7d1c0a0b01";

/// Packs `tree` into `to`.
pub(super) fn pack(tree: &Path, to: &Path, step: &mut Step) -> Result<()> {
    let raw = to.with_extension("raw");
    let mut mke2fs = run::command(
        "mke2fs",
        [
            "-q",
            "-t",
            "ext4",
            "-L",
            "root",
            "-U",
            UUID,
            "-i",
            BYTES_PER_INODE,
            "-m",
            "0",
        ],
    );
    mke2fs
        // The disk ends with its virtual machine; nothing is left to be done after a start.
        .args(["-O", "^has_journal,^metadata_csum"])
        .args([
            "-E",
            &format!("lazy_itable_init=0,hash_seed={UUID},root_owner=0:0"),
        ])
        .arg("-d")
        .arg(tree)
        .arg(&raw)
        .arg(SIZE)
        .env("E2FSPROGS_FAKE_TIME", "1");
    run::watched(&mut mke2fs, step).context("the file system cannot be made")?;
    let mut convert = run::command("qemu-img", ["convert", "-f", "raw", "-O", "qcow2"]);
    convert
        .args(["-c", "-o", "compression_type=zstd"])
        .arg(&raw)
        .arg(to);
    run::watched(&mut convert, step).context("the disk cannot be packed")?;
    fs::remove_file(&raw)?;
    Ok(())
}
