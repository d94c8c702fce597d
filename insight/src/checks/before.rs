//! Before an installation: whether the management cluster has what Covey needs and does not bring.
//!
//! Invariant: what only some tenant clusters need is no error.

use k8s_openapi::api::core::v1::Node;
use kit_objects::known::Known;
use kube::ResourceExt as _;

use super::management::unknown;
use super::storage::is_default;
use crate::before::Before;
use crate::check::Check;
use crate::facts::Facts;
use crate::finding::{Finding, Level, Subject};

/// The oldest KubeVirt whose objects are those that are written (`operator/providers/kubevirt`).
const OLDEST_KUBEVIRT: (u32, u32) = (1, 6);
/// Label of nodes that KubeVirt has found able to run virtual machines.
const SCHEDULABLE: &str = "kubevirt.io/schedulable";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(before) = &facts.before else {
        return Vec::new();
    };
    let mut found = rights(before);
    found.extend(storage(facts));
    found.extend(virtualization(before));
    found.extend(ranges(before));
    found
}

fn told(check: Check, level: Level, cause: &str, mend: &str) -> Finding {
    Finding::new(check, level, Subject::management(), cause, mend)
}

fn rights(before: &Before) -> Vec<Finding> {
    match before.may_all {
        Known::Known(false) => vec![told(
            Check::Rights,
            Level::Warning,
            "you may not do everything in this cluster, and who installs Covey gives the operator rights",
            "install it as somebody with the rights of cluster-admin; `covey up --dry-run` prints what is installed",
        )],
        Known::Known(true) | Known::Absent => Vec::new(),
        Known::Unknown { why } => {
            unknown(Check::Rights, Subject::management(), "what you may do", why)
        }
    }
}

fn storage(facts: &Facts) -> Vec<Finding> {
    match &facts.management.storage_classes {
        Known::Known(classes) if !classes.iter().any(is_default) => {
            let mend = match classes.first() {
                Some(class) => format!(
                    "mark one: `kubectl annotate storageclass {} storageclass.kubernetes.io/is-default-class=true`, or have tenant clusters name one in `spec.etcd.storage.storageClassName`",
                    class.name_any()
                ),
                None => "install a CSI driver with a StorageClass: etcd keeps its data on volumes"
                    .to_owned(),
            };
            let cause = match classes.is_empty() {
                true => "there is no StorageClass at all",
                false => "there is no default StorageClass",
            };
            let level = match classes.is_empty() {
                true => Level::Error,
                false => Level::Warning,
            };
            vec![told(Check::StorageClass, level, cause, &mend)]
        }
        Known::Known(_) | Known::Absent => Vec::new(),
        Known::Unknown { why } => {
            let here = Subject::management();
            unknown(
                Check::StorageClass,
                here,
                "which StorageClasses there are",
                why,
            )
        }
    }
}

fn virtualization(before: &Before) -> Vec<Finding> {
    let check = Check::Virtualization;
    let version = match &before.kubevirt {
        Known::Known(version) => version,
        Known::Absent => {
            return vec![told(
                check,
                Level::Info,
                "KubeVirt is not installed here: machines can be of clouds and of hosts alone",
                "for virtual machines install KubeVirt: https://kubevirt.io/user-guide/cluster_admin/installation/",
            )];
        }
        Known::Unknown { why } => {
            return unknown(
                check,
                Subject::management(),
                "whether KubeVirt is here",
                why,
            );
        }
    };
    let mut found = Vec::new();
    if minor(version).is_some_and(|minor| minor < OLDEST_KUBEVIRT) {
        let (major, minor) = OLDEST_KUBEVIRT;
        let cause = format!("KubeVirt {version} is here; node pools need {major}.{minor} or newer");
        let mend = "upgrade KubeVirt, one minor version at a time";
        found.push(told(check, Level::Warning, &cause, mend));
    }
    if let Known::Known(nodes) = &before.nodes {
        let can = |node: &Node| {
            node.labels()
                .get(SCHEDULABLE)
                .is_some_and(|is| is == "true")
        };
        if !nodes.iter().any(can) {
            let cause =
                "no node can run virtual machines: none has the label kubevirt.io/schedulable=true";
            let mend = "`virt-host-validate qemu` on a node says what lacks, most often virtualization in its firmware";
            found.push(told(check, Level::Warning, cause, mend));
        }
    }
    found
}

/// 1 and 7 of `v1.7.0`.
fn minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn ranges(before: &Before) -> Vec<Finding> {
    let mut lacks = Vec::new();
    if let Known::Known(nodes) = &before.nodes {
        let has = |node: &Node| {
            let spec = node.spec.as_ref();
            spec.is_some_and(|spec| spec.pod_cidr.is_some() || spec.pod_cidrs.is_some())
        };
        if !nodes.is_empty() && !nodes.iter().all(has) {
            lacks.push("pods (not all nodes have `spec.podCIDRs`)");
        }
    }
    if let Known::Known(false) = before.has_service_ranges {
        lacks.push("Services (there are no ServiceCIDR objects before Kubernetes 1.33)");
    }
    if lacks.is_empty() {
        return Vec::new();
    }
    let cause = format!(
        "the operator will not find the ranges of {}, which workers must not reach, and makes no machines before it knows them",
        lacks.join(" and of ")
    );
    let mend = "name them in `config.network.reserved`";
    vec![told(Check::ReservedRanges, Level::Warning, &cause, mend)]
}
