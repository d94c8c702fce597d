//! Programs of a node that are sent: which archive for which machine. Pure.
//!
//! Invariant: a machine that has the wanted kubelet already is sent nothing; what is sent is of exactly the wanted version
//! and for the machine's own processor.

use std::path::PathBuf;

use api::Host;
use api::node_pool::Architecture;

/// One archive: a tar that is packed by gzip, with `bin/`, and `cni/` and `containerd/config.toml` where they are to be sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Archive {
    /// Version of its kubelet, such as `1.35.4`.
    pub version: String,
    /// Which processors it is for.
    pub architecture: Architecture,
    /// Where it lies here.
    pub path: PathBuf,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

/// All that the platform team has laid ready.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Archives(pub Vec<Archive>);

impl Archives {
    /// Whether anything can be sent to machines with this processor, as their facts call it.
    #[must_use]
    pub fn are_for(&self, architecture: &str) -> bool {
        let mut all = self.0.iter();
        all.any(|one| one.architecture.as_str() == architecture)
    }

    /// What a Host is sent to become a node of this version; none: it has the kubelet already, or there is nothing for it.
    #[must_use]
    pub fn for_host(&self, version: &str, host: &Host) -> Option<&Archive> {
        let facts = host.status.as_ref()?.facts.as_ref()?;
        if facts.kubelet.as_deref() == Some(version) {
            return None;
        }
        let mut all = self.0.iter();
        all.find(|one| one.version == version && one.architecture.as_str() == facts.architecture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn archive(version: &str, architecture: Architecture) -> Archive {
        Archive {
            version: version.to_owned(),
            architecture,
            path: PathBuf::from(version),
            sha256: "0".repeat(64),
        }
    }

    fn host(architecture: &str, kubelet: Option<&str>) -> Host {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
            "metadata": {"name": "a"},
            "spec": {"address": "192.0.2.10", "user": "root", "sshKeySecretName": "ssh", "hostKeys": ["x"]},
            "status": {"facts": {"machineID": "one", "hostKey": "x", "architecture": architecture, "cpu": 8,
                "memory": "16000Mi", "os": "debian 12", "kernel": "6.1.0", "cgroup2": true, "tun": true,
                "kubelet": kubelet}},
        }))
        .unwrap()
    }

    #[test]
    fn who_has_the_kubelet_is_sent_nothing_and_others_what_is_theirs() {
        let all = Archives(vec![
            archive("1.35.4", Architecture::Arm64),
            archive("1.35.4", Architecture::Amd64),
            archive("1.36.3", Architecture::Amd64),
        ]);
        let sent = |version, host: &Host| all.for_host(version, host).cloned();
        let amd64 = archive("1.35.4", Architecture::Amd64);
        assert_eq!(sent("1.35.4", &host("amd64", None)), Some(amd64.clone()));
        assert_eq!(sent("1.35.4", &host("amd64", Some("1.34.0"))), Some(amd64));
        assert_eq!(sent("1.35.4", &host("amd64", Some("1.35.4"))), None);
        assert_eq!(sent("1.36.3", &host("arm64", None)), None);
        assert_eq!(sent("1.35.4", &host("riscv64", None)), None);
        assert!(all.are_for("arm64") && !all.are_for("riscv64"));
        let mut unseen = host("amd64", None);
        unseen.status = None;
        assert_eq!(sent("1.35.4", &unseen), None);
    }
}
