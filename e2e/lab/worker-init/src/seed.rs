//! Finds what a machine is told, and reads it (cloud-init's data source NoCloud: a folder of the root disk, or a
//! disk named `cidata`).
//!
//! Invariant: the folder goes before any disk, as cloud-init has it; the disk is mounted read-only, nowhere else
//! than in our folder, and not for longer than it is read.

use std::{
    fs::{self, File},
    io::{ErrorKind, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// The name of a disk in ISO 9660: sector 16 is the primary volume descriptor, its bytes 40 to 71.
const ISO_NAME: u64 = 16 * 2048 + 40;
const MOUNT: &str = "/run/worker-init/seed";
/// Where a root disk has it that needs no other: of a machine that is played by a host.
pub(crate) const FOLDER: &str = "/var/lib/cloud/seed/nocloud";

/// What is on the disk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seed {
    pub(crate) meta_data: String,
    pub(crate) user_data: String,
    pub(crate) has_network_config: bool,
}

/// Reads `folder`; nothing where it is not there.
pub(crate) fn in_folder(folder: &Path) -> Result<Option<Seed>> {
    match folder.is_dir() {
        true => files(folder).map(Some),
        false => Ok(None),
    }
}

/// Reads the first disk of `block` that is a NoCloud disk.
pub(crate) fn read(devices: &Path, block: &Path) -> Result<Option<Seed>> {
    let mut names: Vec<_> = fs::read_dir(block)
        .with_context(|| format!("{} cannot be listed", block.display()))?
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .collect();
    names.sort();
    let disk = names
        .into_iter()
        .map(|name| devices.join(name))
        .find(|device| is_seed(device));
    disk.map(|disk| mounted(&disk)).transpose()
}

/// A disk that cannot be read (an empty drive) is none of ours.
fn is_seed(device: &Path) -> bool {
    name(device).is_ok_and(|name| name.eq_ignore_ascii_case("cidata"))
}

fn name(device: &Path) -> std::io::Result<String> {
    let mut file = File::open(device)?;
    file.seek(SeekFrom::Start(ISO_NAME))?;
    let mut name = [0; 32];
    file.read_exact(&mut name)?;
    Ok(String::from_utf8_lossy(&name).trim_end().to_owned())
}

fn mounted(device: &Path) -> Result<Seed> {
    let at = PathBuf::from(MOUNT);
    fs::create_dir_all(&at)?;
    mount(device, &at, "iso9660", MountFlags::RDONLY, None)
        .with_context(|| format!("{} cannot be mounted", device.display()))?;
    let seed = files(&at);
    unmount(&at, UnmountFlags::empty()).context("the disk cannot be unmounted")?;
    seed
}

fn files(folder: &Path) -> Result<Seed> {
    let text = |name: &str| match fs::read_to_string(folder.join(name)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.with_context(|| format!("{name} cannot be read")),
    };
    Ok(Seed {
        meta_data: text("meta-data")?,
        user_data: text("user-data")?,
        has_network_config: folder.join("network-config").exists(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(folder: &Path, name: &str, label: &[u8]) {
        let mut bytes = vec![0; 40_000];
        let at = ISO_NAME as usize;
        bytes[at..at + label.len()].copy_from_slice(label);
        fs::write(folder.join(name), bytes).unwrap();
    }

    #[test]
    fn only_a_disk_of_that_name_is_one() {
        let folder = tempfile::tempdir().unwrap();
        disk(folder.path(), "vda", b"DEBIAN                          ");
        disk(folder.path(), "vdb", b"cidata                          ");
        fs::write(folder.path().join("vdc"), "short").unwrap();
        let seeds = ["vda", "vdb", "vdc", "vdd"].map(|name| is_seed(&folder.path().join(name)));
        assert_eq!(seeds, [false, true, false, false]);
    }

    #[test]
    fn without_a_disk_there_is_nothing_to_set_up() {
        let folder = tempfile::tempdir().unwrap();
        disk(folder.path(), "vda", b"other");
        assert_eq!(read(folder.path(), folder.path()).unwrap(), None);
    }

    #[test]
    fn a_folder_that_is_there_is_read_as_a_disk_is() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("nocloud");
        assert_eq!(in_folder(&folder).unwrap(), None);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("meta-data"), "{}").unwrap();
        fs::write(folder.join("user-data"), "#cloud-config\n").unwrap();
        let seed = in_folder(&folder).unwrap().unwrap();
        assert_eq!(seed, files(&folder).unwrap());
        assert_eq!(seed.meta_data, "{}");
        assert_eq!(seed.user_data, "#cloud-config\n");
    }

    #[test]
    fn files_that_are_missing_are_empty() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("user-data"), "#cloud-config\n").unwrap();
        let seed = files(folder.path()).unwrap();
        assert_eq!(seed.meta_data, "");
        assert_eq!(seed.user_data, "#cloud-config\n");
        assert!(!seed.has_network_config);
    }
}
