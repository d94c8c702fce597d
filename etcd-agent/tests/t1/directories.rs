//! Directories that no etcd made, and volumes and files that are not what they should be.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::support::{gate, listing, new_cluster, running_cluster};

/// Whether a volume with this in its data directory counts as empty.
fn with(paths: &[&str]) -> super::support::Answer {
    let volume = tempfile::tempdir().unwrap();
    for path in paths {
        let path = volume.path().join(path);
        if path.to_string_lossy().ends_with('/') {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
    }
    let before = listing(volume.path());
    let answer = gate(volume.path(), "etcd-0", "new", &new_cluster(1));
    assert_eq!(listing(volume.path()), before);
    answer
}

#[test]
fn what_file_systems_and_first_starts_leave_behind_is_not_data() {
    for paths in [
        &["data/"][..],
        &["lost+found/x", "data/lost+found/x"],
        &[
            "data/.touch",
            "data/member/.touch",
            "data/.nfs0001",
            ".snapshot/x",
        ],
        &["data/member/wal/", "data/member/snap/"],
        &["data/member/wal.tmp/0000000000000000-0000000000000000.wal"],
        &["data/member/snap/tmp123"],
    ] {
        with(paths).is(0, "Start");
    }
}

#[test]
fn what_nobody_leaves_behind_by_chance_is_not_an_empty_directory() {
    for path in [
        "data/PG_VERSION",
        "data/member/x",
        "data/member/wal/0.tmp",
        "data/member/wal.broken.20260102.030405/x",
        "data/member/snap/0000000000000001-0000000000000001.snap",
        "data",
        "data/member",
        "data/member/wal",
        "data/member/snap",
    ] {
        with(&[path]).is(14, "Damaged");
    }
    // Whoever chose such a name does not choose the lines of a log.
    let answer = with(&["data/a\nStart: b"]);
    answer.is(14, "Damaged");
    assert!(answer.line.contains(r"a\nStart: b"), "{answer:?}");
}

#[test]
fn a_data_directory_that_is_a_link_is_refused() {
    let (volume, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(outside.path(), volume.path().join("data")).unwrap();
    gate(volume.path(), "etcd-0", "new", &new_cluster(1)).is(14, "Damaged");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn what_the_operator_does_not_say_is_no_leave() {
    let volume = tempfile::tempdir().unwrap();
    for identity in [
        serde_json::json!({}),
        serde_json::json!({"members": []}),
        new_cluster(0),
        serde_json::json!("x".repeat(100_000)),
    ] {
        let answer = gate(volume.path(), "etcd-0", "new", &identity);
        answer.is(15, "IdentityUnusable");
    }
    gate(volume.path(), "etcd-3", "new", &new_cluster(3)).is(15, "IdentityUnusable");
    // It says who the member is, and not that it may begin.
    let silent = running_cluster(1, &[2]);
    gate(volume.path(), "etcd-0", "new", &silent).is(10, "VolumeLost");
    assert!(listing(volume.path()).is_empty());
    assert!(!volume.path().join("covey-etcd-member.json").exists());
}

#[test]
fn a_volume_that_is_not_there_is_not_an_empty_one() {
    let volume = tempfile::tempdir().unwrap();
    let absent = volume.path().join("absent");
    gate(&absent, "etcd-0", "new", &new_cluster(1)).is(16, "VolumeUnreadable");
    let file = volume.path().join("file");
    fs::write(&file, "").unwrap();
    gate(&file, "etcd-0", "new", &new_cluster(1)).is(16, "VolumeUnreadable");
}

#[test]
fn a_marker_that_cannot_be_written_keeps_a_member_from_starting() {
    let volume = tempfile::tempdir().unwrap();
    // What the new one would be written to first is in its way.
    fs::create_dir(volume.path().join(".covey-etcd-member.json.new")).unwrap();
    gate(volume.path(), "etcd-0", "new", &new_cluster(1)).is(16, "VolumeUnreadable");
}

#[test]
fn a_wrong_command_line_is_no_decision() {
    for flags in [&[][..], &["gate"], &["gate", "--initial-cluster-state=old"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_etcd-agent"));
        let status = command.args(flags).output().unwrap().status;
        assert_eq!(status.code(), Some(2), "{flags:?}");
    }
}
