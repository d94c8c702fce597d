//! Files of a machine, as the programs that read them would.

use serde_json::json;

use super::*;

fn of(nodes: Value) -> Vec<HostFile> {
    let nodes: Nodes = serde_json::from_value(nodes).unwrap();
    files(&[], Some(&nodes))
}

fn content(files: &[HostFile], path: &str) -> String {
    let found = files.iter().find(|file| file.path == path);
    let paths: Vec<_> = files.iter().map(|file| &file.path).collect();
    found
        .unwrap_or_else(|| unreachable!("no {path} in {paths:?}"))
        .content
        .clone()
}

#[test]
fn where_nothing_is_asked_for_there_is_nothing() {
    assert!(of(json!({})).is_empty());
    assert!(files(&[], None).is_empty());
    assert!(kubelet(&Kubelet::default(), &BTreeMap::new()).is_none());
}

#[test]
fn disks_that_are_mounted_are_a_list_for_the_script_and_others_are_not_touched() {
    let disk = |name: &str, path: Option<&str>| -> Disk {
        serde_json::from_value(json!({"name": name, "size": "1Gi", "mountPath": path})).unwrap()
    };
    let disks = [
        disk("data", Some("/var/lib/data")),
        disk("raw", None),
        disk("evil", Some("/var/$(reboot)")),
        disk("logs", Some("/mnt/logs")),
    ];
    let all = files(&disks, None);
    assert_eq!(
        content(&all, "/run/covey/disks"),
        "data /var/lib/data\nlogs /mnt/logs\n"
    );
    let script = content(&all, "/run/covey/prepare.sh");
    assert!(
        script.contains("mkfs.ext4") && !script.contains("data"),
        "{script}"
    );
    assert!(files(&disks[1..3], None).is_empty());
    let others: Nodes = serde_json::from_value(json!({"ntpServers": ["ntp.example.com"]})).unwrap();
    let without = files(&disks[1..3], Some(&others));
    assert!(!content(&without, "/run/covey/prepare.sh").contains("mkfs"));
}

#[test]
fn kubelets_are_told_what_the_pool_says_and_keep_their_other_defaults() {
    let asked = json!({
        "maxPods": 200,
        "systemReserved": {"cpu": "100m"},
        "kubeReserved": {"memory": "300Mi"},
        "evictionHard": {"memory.available": "500Mi", "pid.available": "10%"},
    });
    let gates = BTreeMap::from([("EnvFiles".to_owned(), false)]);
    let asked = serde_json::from_value(asked).unwrap();
    let file = kubelet(&asked, &gates).unwrap();
    let patch = content(
        &[file],
        "/run/covey/patches/kubeletconfiguration+merge.json",
    );
    assert_eq!(
        serde_json::from_str::<Value>(&patch).unwrap(),
        json!({
            "featureGates": {"EnvFiles": false},
            "maxPods": 200,
            "systemReserved": {"cpu": "100m"},
            "kubeReserved": {"memory": "300Mi"},
            "evictionHard": {
                "imagefs.available": "15%",
                "imagefs.inodesFree": "5%",
                "memory.available": "500Mi",
                "nodefs.available": "10%",
                "nodefs.inodesFree": "5%",
                "pid.available": "10%",
            },
        })
    );
}

#[test]
fn mirrors_proxy_authorities_and_time_are_files_and_a_script_puts_them_into_force() {
    let nodes = json!({
        "registryMirrors": [
            {"registry": "docker.io", "endpoints": ["https://a.example", "https://b.example/v2/p"]},
            {"registry": "*", "endpoints": ["http://192.0.2.1:5000"]},
        ],
        "proxy": {"https": "http://p.example:3128", "noProxy": ["10.0.0.0/8", ".example.com"]},
        "trustedCAs": ["-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----"],
        "ntpServers": ["ntp.example.com", "192.0.2.7"],
    });
    let files = of(nodes);
    assert_eq!(
        content(&files, "/etc/containerd/certs.d/docker.io/hosts.toml"),
        "[host.\"https://a.example\"]\ncapabilities = [\"pull\", \"resolve\"]\n\
         [host.\"https://b.example/v2/p\"]\ncapabilities = [\"pull\", \"resolve\"]\n\
         override_path = true\n"
    );
    assert_eq!(
        content(&files, "/etc/containerd/certs.d/_default/hosts.toml"),
        "[host.\"http://192.0.2.1:5000\"]\ncapabilities = [\"pull\", \"resolve\"]\n"
    );
    let unit = "/etc/systemd/system/containerd.service.d/50-covey-proxy.conf";
    assert_eq!(
        content(&files, unit),
        "[Service]\nEnvironment=\"HTTPS_PROXY=http://p.example:3128\"\n\
         Environment=\"NO_PROXY=localhost,127.0.0.1,10.0.0.0/8,.example.com\"\n"
    );
    assert_eq!(
        content(&files, "/run/covey/authorities/covey-0.crt"),
        "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
    );
    let timesyncd = "/etc/systemd/timesyncd.conf.d/50-covey.conf";
    assert_eq!(
        content(&files, timesyncd),
        "[Time]\nNTP=ntp.example.com 192.0.2.7\n"
    );
    assert_eq!(
        content(&files, "/etc/chrony/sources.d/covey.sources"),
        "server ntp.example.com iburst\nserver 192.0.2.7 iburst\n"
    );
    assert_eq!(files.last().unwrap().path, "/run/covey/prepare.sh");
}

/// A TenantCluster that was stored before a rule was made.
#[test]
fn what_validation_would_not_let_in_ends_in_no_file() {
    let nodes = json!({
        "registryMirrors": [
            {"registry": "../x", "endpoints": ["https://a.example"]},
            {"registry": "docker.io", "endpoints": ["https://a.example\"]\n[x"]},
        ],
        "proxy": {"https": "http://p.example\"\nExecStart=/bin/x"},
        "ntpServers": ["a\nb"],
    });
    let files = of(nodes);
    let paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["/run/covey/prepare.sh"]);
}
