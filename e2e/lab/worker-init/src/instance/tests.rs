//! Setting up below a folder of the test.

use super::*;
use crate::user_data::meta_data;

fn data(yaml: &str) -> UserData {
    UserData::parse(&format!("#cloud-config\n{yaml}")).unwrap()
}

fn meta(id: &str) -> MetaData {
    meta_data(&format!("{{instance-id: {id}, local-hostname: w1}}")).unwrap()
}

#[test]
fn one_instance_is_set_up_once() {
    let root = tempfile::tempdir().unwrap();
    let instance = Instance::at(root.path());
    let data = data(
        "write_files:\n- {path: /run/covey/join.yaml, permissions: '0600', content: secret}\n\
         - {path: /run/covey/join.sh, permissions: '0700', content: exit}\n\
         runcmd: [[sh, /run/covey/join.sh]]\nmanage_etc_hosts: localhost\n\
         ssh_authorized_keys: [ssh-ed25519 A]",
    );
    let file = |path: &str| root.path().join(path);
    let mode = |path: &str| file(path).metadata().unwrap().permissions().mode() & 0o777;

    assert!(instance.set_up(&meta("a"), &data).is_empty());
    assert_eq!(fs::read_to_string(file("etc/hostname")).unwrap(), "w1\n");
    assert_eq!(
        fs::read_to_string(file("etc/hosts")).unwrap(),
        "127.0.1.1 w1\n"
    );
    assert_eq!(
        fs::read_to_string(file("run/covey/join.yaml")).unwrap(),
        "secret"
    );
    assert_eq!(
        (mode("run/covey/join.yaml"), mode("run/covey/join.sh")),
        (0o600, 0o700)
    );
    assert_eq!(
        (mode(RUNCMD), mode("root/.ssh/authorized_keys")),
        (0o700, 0o600)
    );
    assert_eq!(fs::read_dir(file("run/covey")).unwrap().count(), 2);

    fs::remove_dir_all(file("run")).unwrap();
    assert!(instance.set_up(&meta("a"), &data).is_empty());
    assert!(!file("run").exists());
    assert_eq!(
        fs::read_to_string(file("etc/hosts")).unwrap(),
        "127.0.1.1 w1\n"
    );

    assert!(instance.set_up(&meta("b"), &data).is_empty());
    assert!(file(RUNCMD).exists());
}

#[test]
fn what_fails_keeps_nothing_else_from_being_done() {
    let root = tempfile::tempdir().unwrap();
    let data = data(
        "hostname: not_a_name\nbootcmd: ['false']\nwrite_files:\n\
         - {path: relative, content: x}\n- {path: /a, owner: bob}\n- {path: /b, encoding: gz}\n\
         - {path: /c, content: x}\nruncmd: ['true']",
    );
    let failures = Instance::at(root.path()).set_up(&meta("a"), &data);
    let said: Vec<_> = failures.iter().map(|error| format!("{error:#}")).collect();
    let begins = [
        "bootcmd",
        "hostname",
        "write_files: relative",
        "write_files: /a",
        "write_files: /b",
    ];
    assert_eq!(said.len(), begins.len(), "{said:?}");
    for (said, begin) in said.iter().zip(begins) {
        assert!(said.starts_with(begin), "{said}");
    }
    assert!(root.path().join("c").exists() && root.path().join(RUNCMD).exists());
}

#[test]
fn appended_content_comes_behind_what_is_there() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), "one\n").unwrap();
    let data = data("write_files: [{path: /a, content: two, append: true}]");
    assert!(
        Instance::at(root.path())
            .set_up(&meta("a"), &data)
            .is_empty()
    );
    assert_eq!(
        fs::read_to_string(root.path().join("a")).unwrap(),
        "one\ntwo"
    );
}

#[test]
fn bootcmd_runs_at_every_boot() {
    let root = tempfile::tempdir().unwrap();
    let data = data("bootcmd: ['echo boot >> boots']");
    let instance = Instance::at(root.path());
    for _ in 0..2 {
        assert!(instance.set_up(&meta("a"), &data).is_empty());
    }
    assert_eq!(
        fs::read_to_string(root.path().join("boots")).unwrap(),
        "boot\nboot\n"
    );
}
