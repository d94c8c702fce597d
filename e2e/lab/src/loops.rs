//! The loop devices of a lab's volumes: they belong to the machine, so they outlive the lab's processes.
//!
//! Nothing names the lab in them: one is the file with all volumes, others are files of the filesystem
//! in it, and the kubelet holds a loop device of a loop device for each block volume that is in use.
//! Invariant: only what stands, at whatever distance, on the file below `.lab/` is found.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rustix::fs::{major, minor};
use serde::Deserialize;

use crate::{layout::Layout, run};

/// What a device or a file is known by: the device that it is on, and its number there.
type Place = (String, u64);

#[derive(Debug, Default, Deserialize)]
struct Listed {
    loopdevices: Vec<Loop>,
}

#[derive(Clone, Debug, Deserialize)]
struct Loop {
    name: PathBuf,
    #[serde(rename = "maj:min")]
    number: String,
    #[serde(rename = "back-maj:min")]
    on: String,
    #[serde(rename = "back-ino")]
    inode: u64,
    #[serde(rename = "back-file")]
    file: Option<String>,
}

/// The loop devices of the lab, those first on which others stand.
pub(crate) fn of(layout: &Layout) -> Result<Vec<PathBuf>> {
    if !layout.blocks().is_dir() {
        return Ok(Vec::new());
    }
    let columns = "NAME,MAJ:MIN,BACK-MAJ:MIN,BACK-INO,BACK-FILE";
    let list = ["--list", "--json", "--output", columns];
    let listed = run::output(&mut run::command("losetup", list))?;
    let all = match listed.trim() {
        "" => Listed::default(),
        listed => serde_json::from_str(listed).context("losetup was not understood")?,
    };
    let files = fs::read_dir(layout.blocks())?.flatten();
    let files: Vec<_> = files.filter_map(|file| place(&file.path())).collect();
    let below = format!("{}/", layout.blocks().display());
    let of_lab = |one: &Loop| {
        files.contains(&(one.on.trim().to_owned(), one.inode))
            || one
                .file
                .as_ref()
                .is_some_and(|file| file.starts_with(&below))
    };
    Ok(standing(&all.loopdevices, of_lab, place))
}

/// Detaches the loop devices of the lab; one that is still in use goes with its last user.
pub(crate) fn detach(layout: &Layout) -> Result<()> {
    for device in of(layout)?.iter().rev() {
        run::output(run::command("losetup", ["--detach"]).arg(device))?;
    }
    Ok(())
}

/// The devices that `of_lab` holds for, and all that stand on them.
fn standing(
    all: &[Loop],
    of_lab: impl Fn(&Loop) -> bool,
    node: impl Fn(&Path) -> Option<Place>,
) -> Vec<PathBuf> {
    let (mut found, mut rest): (Vec<_>, Vec<_>) = all.iter().partition(|one| of_lab(one));
    let mut looked_at = 0;
    while let Some(below) = found.get(looked_at) {
        looked_at += 1;
        let (number, node) = (below.number.trim(), node(&below.name));
        let (more, others) = rest.into_iter().partition(|one: &&Loop| {
            let file_in_it = one.on.trim() == number;
            file_in_it || node == Some((one.on.trim().to_owned(), one.inode))
        });
        rest = others;
        found.extend::<Vec<_>>(more);
    }
    found.into_iter().map(|one| one.name.clone()).collect()
}

fn place(path: &Path) -> Option<Place> {
    let meta = fs::metadata(path).ok()?;
    let device = meta.dev();
    Some((format!("{}:{}", major(device), minor(device)), meta.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As losetup lists them: the second is a file in the first, the third is of the second's device,
    /// the fourth somebody else's.
    const LISTED: &str = r#"{"loopdevices": [
        {"name": "/dev/loop2", "maj:min": "  7:2", "back-maj:min": "  0:6", "back-ino": 95, "back-file": "/"},
        {"name": "/dev/loop1", "maj:min": "  7:1", "back-maj:min": "  7:0", "back-ino": 12, "back-file": "/vol"},
        {"name": "/dev/loop0", "maj:min": "  7:0", "back-maj:min": "254:0", "back-ino": 7, "back-file": "/x/pool.img"},
        {"name": "/dev/loop3", "maj:min": "  7:3", "back-maj:min": "254:0", "back-ino": 8, "back-file": null}]}"#;

    #[test]
    fn what_stands_on_the_lab_is_found_at_any_distance_and_nothing_else() {
        let listed: Listed = serde_json::from_str(LISTED).unwrap();
        let nodes = |path: &Path| {
            let number = path.to_str()?.strip_prefix("/dev/loop")?.parse::<u64>();
            Some(("0:6".to_owned(), 94 + number.ok()?))
        };
        let of_lab = |one: &Loop| one.on.trim() == "254:0" && one.inode == 7;
        let found = standing(&listed.loopdevices, of_lab, nodes);
        let names: Vec<_> = found.iter().filter_map(|path| path.to_str()).collect();
        assert_eq!(names, ["/dev/loop0", "/dev/loop1", "/dev/loop2"]);
        assert!(standing(&listed.loopdevices, |_| false, nodes).is_empty());
    }
}
