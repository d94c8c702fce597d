//! Archives are deterministic, and the system's `tar` reads in them what was meant.

use std::process::Command;

use super::{split, write};
use crate::image::File;

fn archive(files: &[File]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(files, 0, &mut bytes).unwrap();
    bytes
}

fn error(files: &[File]) -> String {
    format!("{:#}", write(files, 0, &mut Vec::new()).unwrap_err())
}

/// What the system's tar makes of it: an independent reader.
fn listing(files: &[File]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("layer.tar");
    std::fs::write(&path, archive(files)).unwrap();
    let tar = Command::new("tar")
        .args(["--numeric-owner", "--utc", "-tvf"])
        .arg(path)
        .output();
    let tar = tar.unwrap();
    assert!(
        tar.status.success(),
        "{}",
        String::from_utf8_lossy(&tar.stderr)
    );
    String::from_utf8(tar.stdout).unwrap()
}

fn words(listing: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    listing.lines().map(words).collect()
}

#[test]
fn an_archive_is_the_same_whatever_the_order_of_its_files() {
    let (a, b) = (File::text("/etc/a", "1"), File::text("/b", "2"));
    assert_eq!(archive(&[a.clone(), b.clone()]), archive(&[b, a]));
}

#[test]
fn an_archive_does_not_know_when_or_where_its_sources_were_made() {
    let make = || {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        std::fs::write(&path, "same").unwrap();
        let early = std::time::SystemTime::UNIX_EPOCH;
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(early)
            .unwrap();
        archive(&[File::program("/program", &path)])
    };
    assert_eq!(make(), archive(&[File::script("/program", "same")]));
}

#[test]
fn tar_reads_files_directories_and_links() {
    let list = listing(&[
        File::link("/usr/bin/sh", "busybox"),
        File::text("/usr/bin/text", &"x".repeat(513)),
        File::directory("/tmp", 0o1777),
        File::text("/usr/disk", "1").owned_by(107),
    ]);
    assert_eq!(
        words(&list),
        [
            "drwxrwxrwt 0/0 0 1970-01-01 00:00 tmp/",
            "drwxr-xr-x 0/0 0 1970-01-01 00:00 usr/",
            "drwxr-xr-x 0/0 0 1970-01-01 00:00 usr/bin/",
            "lrwxrwxrwx 0/0 0 1970-01-01 00:00 usr/bin/sh -> busybox",
            "-rw-r--r-- 0/0 513 1970-01-01 00:00 usr/bin/text",
            "-rw-r--r-- 107/107 1 1970-01-01 00:00 usr/disk",
        ]
    );
}

#[test]
fn a_capability_is_the_attribute_that_the_kernel_reads() {
    let program = File::script("/bin/program", "1").with_capability(10);
    let bytes = archive(&[program]);
    let keyword = b"SCHILY.xattr.security.capability=";
    let at = bytes
        .windows(keyword.len())
        .position(|part| part == keyword);
    let at = at.unwrap();
    // 57 is the record's length with its own digits and the line's end.
    assert_eq!(bytes[at - 3..at], *b"57 ");
    let value = &bytes[at + keyword.len()..];
    assert_eq!(value[..8], [1, 0, 0, 2, 0, 4, 0, 0]);
    assert_eq!(value[8..21], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'\n']);
}

#[test]
fn tar_takes_an_extended_header_for_what_it_is() {
    let list = listing(&[File::script("/bin/program", "1").with_capability(10)]);
    assert_eq!(words(&list).len(), 2, "{list}");
    assert!(list.contains("bin/program") && !list.contains("PaxHeaders"));
    let error = error(&[File::script("/bin/program", "1").with_capability(40)]);
    assert!(error.contains("first 32"), "{error}");
}

#[test]
fn an_owner_that_no_field_can_hold_is_refused() {
    let error = error(&[File::text("/a", "1").owned_by(u32::MAX)]);
    assert!(error.contains("owner"), "{error}");
}

#[test]
fn a_long_path_is_split_at_a_slash() {
    let long = format!("/{}/{}", "d".repeat(90), "f".repeat(90));
    assert!(listing(&[File::text(&long, "")]).contains(&long[1..]));
    assert_eq!(
        split(&"a".repeat(100)).unwrap(),
        ("", "a".repeat(100).as_str())
    );
    assert!(split(&"a".repeat(101)).is_err());
    assert!(split(&"abc/".repeat(80)).is_err());
}

#[test]
fn an_archive_ends_with_two_empty_blocks_and_has_whole_blocks() {
    let bytes = archive(&[File::text("/a", "1")]);
    assert_eq!(bytes.len(), 4 * 512);
    assert!(bytes[2 * 512..].iter().all(|byte| *byte == 0));
}

#[test]
fn paths_that_would_escape_or_collide_are_refused() {
    assert!(error(&[File::text("a", "")]).contains("not absolute"));
    assert!(error(&[File::text("/../a", "")]).contains("not a plain path"));
    assert!(error(&[File::text("/a", "1"), File::text("/a", "2")]).contains("twice"));
    let below = [File::text("/a", "1"), File::text("/a/b", "2")];
    assert!(error(&below).contains("file"), "{}", error(&below));
}
