//! Gives a new cluster what all of its version begin with: restores a golden file beside the data directory, and puts it
//! in its place as a whole (docs/adr/0023-golden-start.md).
//!
//! Invariant: it is asked only where [`super::plan`] lets a member start for the first time. A data directory is there
//! whole or not at all, and what could not be made is gone before etcd starts without it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use backup_format::Digest;

use super::identity::Golden;
use super::observe::Volume;
use super::plan::Data;
use crate::ids::MemberIds;
use crate::volume::Folder;

/// Where it is made, on the volume.
const FOLDER: &str = "covey-golden";
/// Its data directory in there.
const DATA: &str = "data";
/// Most bytes of a golden file, which has less than one MiB.
const MOST_BYTES: u64 = 64 << 20;
/// Bytes of what `etcdutl` says that are passed on.
const MOST_SAID: usize = 300;

/// Where its parts are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// The data directory, whose folder is the volume.
    pub(super) data_dir: &'a Path,
    /// The member's name.
    pub(super) member: &'a str,
    /// Folder with golden files.
    pub(super) files: &'a Path,
    /// The program `etcdutl`.
    pub(super) etcdutl: &'a Path,
}

/// What became of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    /// The data directory is there, and this is whose it is.
    Data(MemberIds),
    /// It could not be made, and nothing of it is left: etcd starts without data. A sentence says why.
    Nothing(String),
}

/// Removes what an attempt that was broken off left beside the data directory.
///
/// # Errors
/// When it cannot be removed.
pub(super) fn clear(place: Place<'_>) -> io::Result<()> {
    let (root, folder) = (volume(place)?, folder(place)?);
    if !root.has(FOLDER)? {
        return Ok(());
    }
    fs::remove_dir_all(folder)?;
    root.sync()
}

/// Makes the data directory of a golden file.
///
/// # Errors
/// When the volume cannot be read or written; what is left then is no data directory, and [`clear`] removes it.
pub(super) fn give(place: Place<'_>, golden: &Golden) -> io::Result<Outcome> {
    let made = make(place, golden)?;
    if let Outcome::Nothing(_) = made {
        clear(place)?;
    }
    Ok(made)
}

fn make(place: Place<'_>, golden: &Golden) -> io::Result<Outcome> {
    let file = match checked(place.files, golden) {
        Ok(file) => file,
        Err(why) => return Ok(Outcome::Nothing(why)),
    };
    let root = volume(place)?;
    root.make(FOLDER)?;
    let folder = folder(place)?;
    let data = folder.join(DATA);
    if let Err(why) = restore(place, golden, &file, &data) {
        return Ok(Outcome::Nothing(why));
    }
    let ids = match Volume::open(&data)?.data()? {
        Data::Log {
            ids,
            has_database: true,
        } => ids,
        other => {
            let why = format!(
                "what was made of golden file {} is no etcd's data: {other:?}",
                golden.file
            );
            return Ok(Outcome::Nothing(why));
        }
    };
    // All of it first: a name that is there is a promise that what is behind it is whole.
    sync(&data)?;
    let inside = Folder::open(&folder)?;
    inside.sync()?;
    let Some(name) = place.data_dir.file_name().and_then(|name| name.to_str()) else {
        return Err(no_volume(place.data_dir));
    };
    match inside.rename(DATA, &root, name) {
        Ok(()) => {}
        // Somebody keeps something there that etcd does not count.
        Err(error) if is_taken(&error) => {
            return Ok(Outcome::Nothing(
                "there is a data directory already".to_owned(),
            ));
        }
        Err(error) => return Err(error),
    }
    // What is left is empty, and whoever starts next does not look at it.
    let _ = fs::remove_dir(&folder);
    Ok(Outcome::Data(ids))
}

/// The golden file, once it is known to be the one that is meant; or why it is not.
fn checked(files: &Path, golden: &Golden) -> Result<PathBuf, String> {
    let name = &golden.file;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_name) {
        return Err("the golden file has a name that is none".to_owned());
    }
    let path = files.join(name);
    let mut content = Vec::new();
    let read =
        File::open(&path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut content));
    match read {
        Ok(_) if content.len() as u64 > MOST_BYTES => {
            return Err(format!(
                "golden file {name} has more than {MOST_BYTES} bytes"
            ));
        }
        Ok(_) => {}
        Err(error) => return Err(format!("golden file {name} cannot be read: {error}")),
    }
    let found = Digest::of(&content).to_string();
    match found == golden.sha256 {
        true => Ok(path),
        false => Err(format!(
            "golden file {name} has SHA-256 {found}, and the operator's configuration says {}",
            golden.sha256
        )),
    }
}

/// `etcdutl snapshot restore`, which gives the data a cluster and a member of its own.
fn restore(place: Place<'_>, golden: &Golden, file: &Path, data: &Path) -> Result<(), String> {
    let Golden {
        file: name,
        sha256: _,
        token,
        peer_url,
    } = golden;
    let member = place.member;
    let mut command = Command::new(place.etcdutl);
    command.args(["snapshot", "restore"]).arg(file);
    command.arg("--data-dir").arg(data);
    command.args(["--name", member]);
    command.args(["--initial-cluster", &format!("{member}={peer_url}")]);
    command.args(["--initial-cluster-token", token]);
    command.args(["--initial-advertise-peer-urls", peer_url]);
    let output = command.stdin(Stdio::null()).output();
    let output =
        output.map_err(|error| format!("{} cannot be run: {error}", place.etcdutl.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    let from = said.ceil_char_boundary(said.len().saturating_sub(MOST_SAID));
    Err(format!(
        "etcdutl could not restore golden file {name} ({}): {}",
        output.status,
        &said[from..]
    ))
}

/// Has all files and folders of a tree on the disk. Whoever has many etcds on one file system does not want all of it
/// written for each.
fn sync(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            sync(&entry?.path())?;
        }
    }
    File::open(path)?.sync_all()
}

fn is_taken(error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::AlreadyExists,
        io::ErrorKind::DirectoryNotEmpty,
        io::ErrorKind::NotADirectory,
    ];
    kinds.contains(&error.kind())
}

fn volume(place: Place<'_>) -> io::Result<Folder> {
    Folder::open(
        place
            .data_dir
            .parent()
            .ok_or_else(|| no_volume(place.data_dir))?,
    )
}

fn folder(place: Place<'_>) -> io::Result<PathBuf> {
    let root = place.data_dir.parent();
    Ok(root.ok_or_else(|| no_volume(place.data_dir))?.join(FOLDER))
}

fn no_volume(data_dir: &Path) -> io::Error {
    let wrong = format!("{} is no directory of a volume", data_dir.display());
    io::Error::new(io::ErrorKind::InvalidInput, wrong)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A volume, a folder with the golden file `a.db`, and a program in the place of `etcdutl`.
    struct Scene {
        dir: tempfile::TempDir,
        golden: Golden,
    }

    impl Scene {
        fn new(etcdutl: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for folder in ["volume", "files"] {
                fs::create_dir(dir.path().join(folder)).unwrap();
            }
            fs::write(dir.path().join("files/a.db"), "golden").unwrap();
            let program = dir.path().join("etcdutl");
            fs::write(&program, format!("#!/bin/sh\n{etcdutl}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            let golden = Golden {
                file: "a.db".to_owned(),
                sha256: Digest::of(b"golden").to_string(),
                token: "t".to_owned(),
                peer_url: "https://etcd-0:2380".to_owned(),
            };
            Self { dir, golden }
        }

        fn given(&self) -> io::Result<Outcome> {
            let [data_dir, files, etcdutl] =
                ["volume/data", "files", "etcdutl"].map(|path| self.dir.path().join(path));
            let place = Place {
                data_dir: &data_dir,
                member: "etcd-0",
                files: &files,
                etcdutl: &etcdutl,
            };
            clear(place)?;
            give(place, &self.golden)
        }

        /// Why nothing was given.
        #[track_caller]
        fn refused(&self) -> String {
            match self.given().unwrap() {
                Outcome::Nothing(why) => why,
                Outcome::Data(ids) => panic!("given: {ids:?}"),
            }
        }

        fn left(&self) -> Vec<String> {
            let entries = fs::read_dir(self.dir.path().join("volume")).unwrap();
            let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
            let names = entries.map(name);
            names.map(|name| name.into_string().unwrap()).collect()
        }
    }

    /// What `etcdutl` leaves where it is killed half-way.
    const HALF: &str = "mkdir -p \"$5/member/snap\" && echo db > \"$5/member/snap/db\"";

    #[test]
    fn file_that_is_not_there_or_another_or_has_no_name_is_not_used_and_nothing_is_left() {
        let mut scene = Scene::new("exit 99");
        scene.golden.sha256 = Digest::of(b"another").to_string();
        assert!(scene.refused().contains("has SHA-256"));
        for name in ["", "../files/a.db", ".a.db", "/etc/passwd", "b\n.db"] {
            scene.golden.file = name.to_owned();
            assert!(scene.refused().contains("a name that is none"), "{name}");
        }
        scene.golden.file = "b.db".to_owned();
        assert!(scene.refused().contains("cannot be read"));
        assert!(scene.left().is_empty());
    }

    #[test]
    fn what_was_half_made_is_gone_before_anybody_starts_without_it() {
        for (etcdutl, said) in [
            (format!("{HALF}; echo no space >&2; exit 1"), "no space"),
            (HALF.to_owned(), "no etcd's data"),
            ("exit 0".to_owned(), "no etcd's data"),
        ] {
            let scene = Scene::new(&etcdutl);
            let why = scene.refused();
            assert!(why.contains(said), "{why}");
            assert!(scene.left().is_empty(), "{etcdutl}: {:?}", scene.left());
        }
        let scene = Scene::new("");
        fs::remove_file(scene.dir.path().join("etcdutl")).unwrap();
        assert!(scene.refused().contains("cannot be run"));
        assert!(scene.left().is_empty());
    }

    #[test]
    fn what_an_attempt_left_that_was_killed_is_made_anew() {
        // It makes nothing whole where something is left.
        let scene = Scene::new("test ! -e \"$5\" || echo left >&2; exit 1");
        let left = scene.dir.path().join("volume/covey-golden/data/member/wal");
        fs::create_dir_all(&left).unwrap();
        let why = scene.refused();
        assert!(!why.contains("left"), "{why}");
        assert!(scene.left().is_empty());
    }
}
