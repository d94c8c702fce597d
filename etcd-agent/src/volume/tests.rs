//! Folders with links, pipes and too much in them.

use std::fs as files;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use super::*;

fn there<T>(found: io::Result<Found<T>>) -> Option<T> {
    match found.unwrap() {
        Found::There(found) => Some(found),
        Found::Absent | Found::Other => None,
    }
}

#[test]
fn links_lead_nowhere() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    files::write(outside.path().join("file"), "secret").unwrap();
    symlink(outside.path(), dir.path().join("folder")).unwrap();
    symlink(outside.path().join("file"), dir.path().join("file")).unwrap();
    symlink("nowhere", dir.path().join("broken")).unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    assert!(matches!(folder.folder("folder"), Ok(Found::Other)));
    for name in ["file", "broken"] {
        assert!(matches!(folder.head(name, 10), Ok(Found::Other)), "{name}");
    }
}

#[test]
fn only_regular_files_are_read_and_only_their_heads() {
    let dir = tempfile::tempdir().unwrap();
    files::write(dir.path().join("file"), "0123456789").unwrap();
    files::create_dir(dir.path().join("folder")).unwrap();
    let pipe = dir.path().join("pipe");
    fs::mknodat(fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let _socket = UnixListener::bind(dir.path().join("socket")).unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    assert_eq!(there(folder.head("file", 4)), Some(b"0123".to_vec()));
    assert_eq!(
        there(folder.head("file", 40)).map(|head| head.len()),
        Some(10)
    );
    for name in ["folder", "pipe", "socket"] {
        assert!(matches!(folder.head(name, 4), Ok(Found::Other)), "{name}");
    }
    assert!(matches!(folder.head("absent", 4), Ok(Found::Absent)));
    assert!(matches!(folder.folder("file"), Ok(Found::Other)));
    assert_eq!(
        folder.names().unwrap(),
        ["file", "folder", "pipe", "socket"]
    );
}

#[test]
fn a_folder_with_too_many_entries_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..MOST_ENTRIES {
        files::write(dir.path().join(number.to_string()), "").unwrap();
    }
    let folder = Folder::open(dir.path()).unwrap();
    assert_eq!(folder.names().unwrap().len(), MOST_ENTRIES);
    files::write(dir.path().join("last"), "").unwrap();
    assert!(folder.names().is_err());
}

#[test]
fn writing_replaces_a_link_and_not_what_it_leads_to() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = outside.path().join("target");
    files::write(&target, "theirs").unwrap();
    symlink(&target, dir.path().join("marker")).unwrap();
    symlink(&target, dir.path().join(".marker.new")).unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    folder.write("marker", b"ours").unwrap();
    assert_eq!(files::read_to_string(target).unwrap(), "theirs");
    let written = dir.path().join("marker");
    assert!(written.symlink_metadata().unwrap().is_file());
    assert_eq!(files::read_to_string(&written).unwrap(), "ours");
    assert_eq!(folder.names().unwrap(), ["marker"]);
    // The next pod may have another user and the same group.
    let mode = files::metadata(written).unwrap().permissions().mode();
    assert_eq!(mode & 0o607, 0o600);
}
