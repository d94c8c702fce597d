//! What user data mean, by the examples of cloud-init's own documentation.

use super::*;

fn parse(yaml: &str) -> UserData {
    UserData::parse(&format!("#cloud-config\n{yaml}")).unwrap()
}

#[test]
fn the_disks_name_is_the_machines_unless_the_user_says_another() {
    let meta = meta_data(r#"{"instance-id":"a.b","local-hostname":"demo-workers-abcde"}"#).unwrap();
    assert_eq!(meta.instance_id, "a.b");
    let name = |yaml: &str| parse(yaml).hostname(&meta);
    assert_eq!(name("{}").unwrap(), "demo-workers-abcde");
    assert_eq!(name("hostname: mine").unwrap(), "mine");
    assert_eq!(name("fqdn: mine.example.com").unwrap(), "mine");
    assert_eq!(name("preserve_hostname: true"), None);
    assert_eq!(parse("{}").hostname(&MetaData::default()), None);
    assert_eq!(meta_data("").unwrap(), MetaData::default());
}

#[test]
fn permissions_are_octal_also_without_quotes() {
    let mode = |text: &str| {
        let data = parse(&format!("write_files: [{{path: /a, permissions: {text}}}]"));
        data.write_files[0].mode()
    };
    assert_eq!(mode("'0600'").unwrap(), 0o600);
    assert_eq!(mode("'755'").unwrap(), 0o755);
    assert_eq!(mode("0640").unwrap(), 0o640);
    assert_eq!(mode("0o640").unwrap(), 0o640);
    assert_eq!(mode("420").unwrap(), 0o644);
    assert!(mode("rwx").is_err());
    let data = parse("write_files: [{path: /a}]");
    assert_eq!(data.write_files[0].mode().unwrap(), 0o644);
}

#[test]
fn content_may_be_packed_in_base64_and_nothing_else() {
    let bytes = |yaml: &str| parse(&format!("write_files: [{yaml}]")).write_files[0].bytes();
    assert_eq!(bytes("{path: /a, content: x}").unwrap(), b"x");
    let packed = "{path: /a, encoding: b64, content: \"aGVs\\nbG8=\"}";
    assert_eq!(bytes(packed).unwrap(), b"hello");
    let error = bytes("{path: /a, encoding: gz+b64, content: x}").unwrap_err();
    assert!(error.to_string().contains("gz+b64"));
}

#[test]
fn only_roots_files_can_be_written() {
    let roots = |owner: &str| {
        parse(&format!("write_files: [{{path: /a, owner: '{owner}'}}]")).write_files[0].is_roots()
    };
    assert!(roots("root:root") && roots("root") && roots("0:0"));
    assert!(!roots("debian:debian"));
}

#[test]
fn what_is_not_known_is_named() {
    let data = parse("packages: [vim]\nusers: [default, {name: bob}, {name: root}]\nntp: {a: [1]}");
    assert_eq!(data.unknown, ["ntp", "packages", "user bob"]);
    assert!(parse("{}").unknown.is_empty());
}

#[test]
fn keys_are_roots() {
    let data = parse(
        "ssh_authorized_keys: [ssh-ed25519 A]\n\
         users: [{name: root, ssh_authorized_keys: [ssh-ed25519 B]}, {name: bob, \
         ssh_authorized_keys: [ssh-ed25519 C]}]",
    );
    assert_eq!(data.keys(), ["ssh-ed25519 A", "ssh-ed25519 B"]);
}

#[test]
fn user_data_without_content_ask_for_nothing() {
    for text in [
        "",
        "\n",
        "#cloud-config",
        "#cloud-config\n",
        "#cloud-config\n{}\n",
    ] {
        assert_eq!(
            UserData::parse(text).unwrap(),
            UserData::default(),
            "{text:?}"
        );
    }
}

#[test]
fn other_kinds_of_user_data_are_refused_with_a_way_out() {
    for text in [
        "#!/bin/sh\ntrue\n",
        "Content-Type: multipart/mixed\n",
        "#include\nhttp://x\n",
    ] {
        let error = UserData::parse(text).unwrap_err().to_string();
        assert!(error.contains("take an image with cloud-init"), "{error}");
    }
    assert!(UserData::parse("#cloud-config\nruncmd: [").is_err());
}

#[test]
fn hosts_are_managed_when_asked_for() {
    assert!(parse("manage_etc_hosts: true").manages_hosts());
    assert!(parse("manage_etc_hosts: localhost").manages_hosts());
    assert!(!parse("manage_etc_hosts: false").manages_hosts());
    assert!(!parse("{}").manages_hosts());
}
