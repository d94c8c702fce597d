//! What an operator refuses to start with, and the sentence for each.

use serde_json::{Value, json};

use crate::settings::Settings;
use crate::validate::check_settings;

fn settings(configuration: Value) -> Settings {
    serde_json::from_value(configuration).unwrap()
}

fn said(configuration: Value) -> Vec<String> {
    let problems = check_settings(&settings(configuration));
    problems.iter().map(ToString::to_string).collect()
}

fn nameservers(addresses: &[&str]) -> Value {
    json!({"providers": {"kubevirt": {"nameservers": addresses}}})
}

#[test]
fn resolvers_are_at_most_three_addresses_of_hosts() {
    let fine = ["192.0.2.53", "192.0.2.54"];
    assert_eq!(said(nameservers(&fine)), [""; 0]);
    assert_eq!(
        said(nameservers(&[
            "127.0.0.53",
            "192.0.2.1",
            "192.0.2.1",
            "224.0.0.251"
        ])),
        [
            "providers.kubevirt.nameservers: 4 resolvers are more than a machine asks: name at \
             most 3",
            "providers.kubevirt.nameservers[0]: 127.0.0.53 is no address at which machines reach a \
             resolver: name one outside of them, such as 192.0.2.53",
            "providers.kubevirt.nameservers[2]: 192.0.2.1 is named twice: remove one of them",
            "providers.kubevirt.nameservers[3]: 224.0.0.251 is no address at which machines reach a \
             resolver: name one outside of them, such as 192.0.2.53",
        ]
    );
    for unreadable in ["dns.example.com", "2001:db8::53"] {
        let unreadable = nameservers(&[unreadable]);
        assert!(serde_json::from_value::<Settings>(unreadable).is_err());
    }
}

#[test]
fn pods_of_tenants_are_scheduled_by_labels_and_taints_that_there_can_be() {
    let pods = json!({
        "nodeSelector": {"pool": "tenants", "a b": "x"},
        "allowed": {"nodeLabels": ["zone", "topology.kubernetes.io/"], "taints": ["*"]},
    });
    let key = "use up to 63 letters, digits, -, _ and ., with a letter or digit at both ends, and \
               before it, where wanted, a DNS name and /";
    assert_eq!(
        said(json!({"tenantPods": pods})),
        [
            format!("tenantPods.nodeSelector[a b]: \"a b\" cannot be a key: {key}"),
            format!(
                "tenantPods.allowed.nodeLabels: \"topology.kubernetes.io/\" cannot be a key: {key}"
            ),
            format!("tenantPods.allowed.taints: \"*\" cannot be a key: {key}"),
        ]
    );
}

#[test]
fn machines_are_allowed_labels_taints_and_devices_that_there_can_be() {
    let allowed = json!({
        "nodeLabels": ["zone"], "taints": ["a b"], "devices": ["nvidia.com/GP102GL_Tesla_P40", "/"],
    });
    let seen = said(json!({"providers": {"kubevirt": {"allowed": allowed}}}));
    let fields: Vec<_> = seen
        .iter()
        .filter_map(|text| text.split_once(": "))
        .collect();
    let fields: Vec<_> = fields.into_iter().map(|(field, _)| field).collect();
    let field = "providers.kubevirt.allowed";
    assert_eq!(
        fields,
        [format!("{field}.taints"), format!("{field}.devices")]
    );
}

#[test]
fn pods_are_allowed_keys_and_prefixes_that_there_can_be() {
    let allowed = json!({
        "podLabels": ["team", "example.com/", "example.com/a", "a b"],
        "podAnnotations": ["*", "/", "example.com/"],
    });
    let seen = said(json!({"tenantPods": {"allowed": allowed}}));
    let starts: Vec<_> = seen
        .iter()
        .filter_map(|text| text.split(" cannot").next())
        .collect();
    let field = "tenantPods.allowed";
    assert_eq!(
        starts,
        [
            format!("{field}.podLabels: \"a b\""),
            format!("{field}.podAnnotations: \"*\""),
            format!("{field}.podAnnotations: \"/\""),
        ]
    );
}

#[test]
fn profiles_of_access_have_a_name_and_a_role_and_the_ceiling_is_a_time() {
    let access = |access: Value| said(json!({ "access": access }));
    let fine = json!({ "profiles": { "deployer": "example-deployer" }, "mostSeconds": 600 });
    assert_eq!(access(fine), [""; 0]);
    assert_eq!(
        access(json!({ "profiles": { "admin": "edit", "a b": "x", "c": "" }, "mostSeconds": 60 })),
        [
            "access.profiles.a b: \"a b\" is no name of rights: write lower-case letters, digits and -, and none of \
             admin and view",
            "access.profiles.admin: \"admin\" is no name of rights: write lower-case letters, digits and -, and none \
             of admin and view",
            "access.profiles.c: \"\" is no ClusterRole: name one of the tenant clusters",
            "access.mostSeconds: 60 is not a time that a grant may last: write 600 to 86400 seconds",
        ]
    );
    assert!(serde_json::from_value::<Settings>(json!({ "access": { "profile": {} } })).is_err());
}

#[test]
fn standby_is_of_versions_that_can_be_made_and_bounded() {
    assert_eq!(
        said(json!({"standby": {"1.36.3": 50, "1.35.4": 0}})),
        [""; 0]
    );
    for (wrong, field) in [
        (json!({"standby": {"1.36.3": 51}}), "standby[1.36.3]: 51"),
        (json!({"standby": {"1.20.0": 1}}), "standby[1.20.0]: "),
        (json!({"standby": {"latest": 1}}), "standby[latest]: "),
    ] {
        let said = said(wrong);
        assert!(said.len() == 1 && said[0].starts_with(field), "{said:?}");
    }
}

#[test]
fn golden_file_is_named_with_all_that_it_is_known_by() {
    let start = |etcd: &str, objects: &str, file: &str, sha256: &str| {
        json!({"goldenStarts": {"1.36.3": {
            "etcd": etcd, "objects": objects, "file": file, "sha256": sha256,
        }}})
    };
    let (objects, sum) = ("0a1b2c3d4e5f6071", "0a".repeat(32));
    assert_eq!(said(start("3.6", objects, "a-1.36.3_x.db", &sum)), [""; 0]);
    let long = "a".repeat(129);
    for (wrong, field) in [
        (start("3.6.16", objects, "a.db", &sum), "etcd"),
        (start("3.6", "0A1B2C3D4E5F6071", "a.db", &sum), "objects"),
        (start("3.6", objects, "../a.db", &sum), "file"),
        (start("3.6", objects, ".a.db", &sum), "file"),
        (start("3.6", objects, &long, &sum), "file"),
        (start("3.6", objects, "a.db", objects), "sha256"),
    ] {
        let said = said(wrong);
        let begins = format!("goldenStarts[1.36.3].{field}: ");
        assert!(said.len() == 1 && said[0].starts_with(&begins), "{said:?}");
    }
    let without_sum = json!({"goldenStarts": {"1.36.3": {
        "etcd": "3.6", "objects": objects, "file": "a.db",
    }}});
    assert!(serde_json::from_value::<Settings>(without_sum).is_err());
}
