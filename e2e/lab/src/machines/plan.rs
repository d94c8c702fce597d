//! What a machine is given, and what it is told of itself. Pure.
//!
//! Invariant: a machine never seems larger than what was asked for.

use std::{collections::BTreeMap, net::IpAddr};

use serde_json::json;

/// Where worker-init looks for what a machine is told before it looks at disks: the data source NoCloud of
/// cloud-init knows this folder, too.
const SEED: &str = "var/lib/cloud/seed/nocloud";
/// Image of workers, without its tag.
const WORKER: &str = "ghcr.io/covey-dev/worker";

/// Told to kubeadm where there is only cgroup v1, which it refuses from 1.35 on, whatever the kubelet is told. Before
/// it on the path: the user data is what a machine with systemd is told.
const KUBEADM: &str = "#!/bin/sh
if [ \"$1\" = join ]; then
    set -- \"$@\" --ignore-preflight-errors=SystemVerification
fi
exec /usr/local/bin/kubeadm \"$@\"
";

/// One machine that is to be played.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Its name on this machine: of its folder, its control groups and its logs.
    pub id: String,
    /// Name of the VirtualMachine, and its host name.
    pub name: String,
    /// Namespace of the VirtualMachine.
    pub namespace: String,
    /// Version of its kubelet, as `1.35.4`.
    pub version: String,
    /// cloud-init user data; none: it is told nothing.
    pub user_data: Option<String>,
    /// Servers that resolve names for it; none: those of the management cluster.
    pub name_servers: Vec<IpAddr>,
    /// How large it is to be.
    pub size: Size,
}

/// Processors and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Processors.
    pub cores: u32,
    /// Memory in bytes.
    pub memory: u64,
}

/// Version of the kubelet in a worker's image; none of an image that is no worker's.
#[must_use]
pub fn version_of(image: &str) -> Option<&str> {
    let version = image.strip_prefix(WORKER)?.strip_prefix(":v")?;
    (!version.is_empty()).then_some(version)
}

/// A name for its folder and control groups that no other instance has, also not a later one of the same machine.
#[must_use]
pub fn id(name: &str, uid: &str) -> String {
    let begin: String = uid.chars().take(8).collect();
    format!("{name}-{begin}")
}

/// Further flags of its kubelet: what this machine has more than the one that is played belongs to no pod. Only
/// whole processors and memory count; a machine that is to be larger than this one is as large as this one.
pub(super) fn kubelet_flags(wanted: Size, here: Size) -> String {
    let cores = here.cores.saturating_sub(wanted.cores);
    let memory = here.memory.saturating_sub(wanted.memory);
    let mut reserved = Vec::new();
    if cores > 0 && wanted.cores > 0 {
        reserved.push(format!("cpu={cores}"));
    }
    if memory > 0 && wanted.memory > 0 {
        reserved.push(format!("memory={memory}"));
    }
    match reserved.is_empty() {
        true => String::new(),
        false => format!(" --system-reserved={}", reserved.join(",")),
    }
}

/// Files by which it differs from a host that is reached by SSH: path, mode, content.
pub(super) fn files(
    guest: &Guest,
    name_servers: &[IpAddr],
    has_cgroup_v2: bool,
) -> BTreeMap<String, (u32, String)> {
    let Guest {
        name, namespace, ..
    } = guest;
    // As KubeVirt writes it (pkg/cloud-init): JSON, which is YAML too.
    let meta_data = json!({
        "instance-id": format!("{name}.{namespace}"),
        "local-hostname": name,
    });
    let servers = name_servers
        .iter()
        .map(|server| format!("nameserver {server}\n"));
    let resolver = format!(
        "{}search {namespace}.svc.cluster.local svc.cluster.local cluster.local\n",
        servers.collect::<String>()
    );
    let mut files = BTreeMap::from([("etc/resolv.conf".to_owned(), (0o644, resolver))]);
    if let Some(user_data) = &guest.user_data {
        let seed = [
            ("meta-data", meta_data.to_string()),
            ("user-data", user_data.clone()),
        ];
        // Root's alone: there is a token in it.
        let seed = seed.map(|(file, text)| (format!("{SEED}/{file}"), (0o600, text)));
        files.extend(seed);
    }
    if !has_cgroup_v2 {
        let wrapper = (0o755, KUBEADM.to_owned());
        files.insert("usr/local/sbin/kubeadm".to_owned(), wrapper);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn size(cores: u32, memory: u64) -> Size {
        Size { cores, memory }
    }

    #[test]
    fn only_images_of_workers_have_a_version() {
        let image = "ghcr.io/covey-dev/worker:v1.35.4";
        assert_eq!(version_of(image), Some("1.35.4"));
        for other in [
            "ghcr.io/covey-dev/worker",
            "ghcr.io/covey-dev/worker:v",
            "ghcr.io/covey-dev/worker:latest",
            "ghcr.io/covey-dev/testmachine:1",
            "example.com/ghcr.io/covey-dev/worker:v1.35.4",
        ] {
            assert_eq!(version_of(other), None, "{other}");
        }
    }

    #[test]
    fn two_instances_of_one_machine_have_two_names() {
        let first = id("workers-a", "0a1b2c3d-1111-4222-8333-444455556666");
        assert_eq!(first, "workers-a-0a1b2c3d");
        assert_ne!(
            first,
            id("workers-a", "1a1b2c3d-1111-4222-8333-444455556666")
        );
    }

    #[test]
    fn what_this_machine_has_more_belongs_to_no_pod() {
        let here = size(8, 24 * GIB);
        let flags = kubelet_flags(size(2, GIB), here);
        assert_eq!(
            flags,
            format!(" --system-reserved=cpu=6,memory={}", 23 * GIB)
        );
        // As large as it gets; and nothing is taken from a machine whose size nobody said.
        for wanted in [here, size(16, 32 * GIB), Size::default()] {
            assert_eq!(kubelet_flags(wanted, here), "");
        }
        let flags = kubelet_flags(size(8, GIB), here);
        assert_eq!(flags, format!(" --system-reserved=memory={}", 23 * GIB));
    }

    fn guest() -> Guest {
        Guest {
            name: "workers-a".to_owned(),
            namespace: "covey-demo-1".to_owned(),
            user_data: Some("#cloud-config\n{}\n".to_owned()),
            ..Guest::default()
        }
    }

    #[test]
    fn it_is_told_what_kubevirt_tells_a_guest_and_nobody_else_reads_it() {
        let files = files(&guest(), &[IpAddr::from([172, 22, 0, 10])], true);
        let (mode, user_data) = &files["var/lib/cloud/seed/nocloud/user-data"];
        assert_eq!((*mode, &**user_data), (0o600, "#cloud-config\n{}\n"));
        let meta: serde_json::Value =
            serde_json::from_str(&files["var/lib/cloud/seed/nocloud/meta-data"].1).unwrap();
        assert_eq!(meta["local-hostname"], "workers-a");
        assert_eq!(meta["instance-id"], "workers-a.covey-demo-1");
        let resolver = &files["etc/resolv.conf"].1;
        assert!(
            resolver.starts_with("nameserver 172.22.0.10\n"),
            "{resolver}"
        );
        assert!(resolver.contains("search covey-demo-1.svc.cluster.local "));
    }

    #[test]
    fn a_machine_without_user_data_has_no_seed() {
        let silent = Guest {
            user_data: None,
            ..guest()
        };
        let files = files(&silent, &[], true);
        assert!(files.keys().all(|path| !path.contains("seed")), "{files:?}");
    }

    #[test]
    fn kubeadm_is_told_of_cgroup_v1_when_it_joins_and_only_then() {
        assert!(!files(&guest(), &[], true).contains_key("usr/local/sbin/kubeadm"));
        let (mode, wrapper) = &files(&guest(), &[], false)["usr/local/sbin/kubeadm"];
        assert_eq!(*mode, 0o755);
        let folder = tempfile::tempdir().unwrap();
        // The program itself says what it was told.
        let script = wrapper.replace("exec /usr/local/bin/kubeadm", "echo");
        let path = folder.path().join("kubeadm");
        std::fs::write(&path, script).unwrap();
        let said = |args: &[&str]| {
            let output = std::process::Command::new("sh")
                .arg(&path)
                .args(args)
                .output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        assert_eq!(
            said(&["join", "--config", "join.yaml"]),
            "join --config join.yaml --ignore-preflight-errors=SystemVerification\n"
        );
        assert_eq!(said(&["reset", "--force"]), "reset --force\n");
    }
}
