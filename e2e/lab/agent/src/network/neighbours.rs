//! Lets the node answer at once for addresses that are behind it.
//!
//! A virtual machine that has its pod's address (KubeVirt's bridge binding) thinks that the other
//! pods are on its own network and asks who has their addresses. The node answers (`proxy_arp`),
//! after a random delay of up to 0.8 s, which is meant for networks where others may answer too.
//! On a pod's cable nobody else can. Invariant: only interfaces of pods are changed.

use std::{fs, path::Path};

/// Settings of the interfaces of this process's network namespace. A new interface takes those of
/// the machine, which are not the lab's to change.
const INTERFACES: &str = "/proc/sys/net/ipv4/neigh";

/// Takes the delay away where there is one.
pub(super) fn answer_at_once() {
    in_folder(Path::new(INTERFACES));
}

fn in_folder(interfaces: &Path) {
    for interface in fs::read_dir(interfaces).into_iter().flatten().flatten() {
        // The names that CNI's `ptp` gives to the node's ends.
        if !interface.file_name().to_string_lossy().starts_with("veth") {
            continue;
        }
        let setting = interface.path().join("proxy_delay");
        let delayed = fs::read_to_string(&setting).is_ok_and(|delay| delay.trim() != "0");
        if delayed && let Err(error) = fs::write(&setting, "0") {
            tracing::warn!(setting = %setting.display(), %error, "pods answer late for others");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_goes_from_interfaces_of_pods_alone() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["veth1234", "eth0", "lo"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("proxy_delay"), "80\n").unwrap();
        }
        in_folder(folder.path());
        let delay = |name| fs::read_to_string(folder.path().join(name).join("proxy_delay"));
        assert_eq!(delay("veth1234").unwrap(), "0");
        assert_eq!(delay("eth0").unwrap(), "80\n");
        assert_eq!(delay("lo").unwrap(), "80\n");
    }
}
