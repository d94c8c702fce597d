//! What one virtual machine takes of the management cluster: what the pod asks for that KubeVirt runs
//! it in, and what is counted by quotas.
//!
//! Invariant: pure, and rounded up; what a KubeVirt may be configured to add is left out, so that
//! "there is no room" is never said of a machine for which there is some.
//! Source: KubeVirt 1.6, `pkg/virt-controller/services/renderresources.go`, `GetMemoryOverhead`, and
//! the constants in `template.go`.

use std::collections::{BTreeMap, BTreeSet};

use api::node_pool::KubeVirt;
use k8s_openapi::api::core::v1::Toleration;
use tenant_cp::settings::KubeVirtSettings;

use providers::Needs;

/// KubeVirt makes its machines' pods ask for nodes with this label; it stands there while its agent
/// on the node is well.
pub const SCHEDULABLE: &str = "kubevirt.io/schedulable";

/// Processors of machines per core that is asked for: KubeVirt's setting `cpuAllocationRatio`, as long
/// as nobody changes it.
const CPU_ALLOCATION_RATIO: i64 = 10;
const MIB: i64 = 1 << 20;
/// The programs around a machine: monitor 25, launcher 100, virtlogd 25, virtqemud 40, QEMU itself 30;
/// and 8 for its thread of input and output.
const PROGRAMS: i64 = (25 + 100 + 25 + 40 + 30 + 8) * MIB;
/// For each processor.
const PER_PROCESSOR: i64 = 8 * MIB;
/// One bit of page tables for each 512 bytes.
const PAGE_TABLES: i64 = 512;
/// Each image that is served to the machine has a container: 10m and a megabyte.
const IMAGE: (i64, i64) = (10, 1_000_000);
/// So has the log of the serial console.
const CONSOLE_LOG: (i64, i64) = (5, 35_000_000);
/// What KubeVirt asks of the node's disk for itself, above what the machine asks for
/// (`ephemeralStorageOverheadSize`).
const OWN_STORAGE: i64 = 50_000_000;

/// What a machine is one more of.
const OBJECTS: &[&str] = &[
    "count/pods",
    "count/secrets",
    "count/virtualmachineinstances.kubevirt.io",
    "count/virtualmachines.kubevirt.io",
    "pods",
    "secrets",
];

/// What such a virtual machine takes; none when its memory cannot be read.
#[must_use]
pub fn needs(wanted: &KubeVirt, settings: &KubeVirtSettings) -> Option<Needs> {
    let memory = kit_objects::quantity::bytes(&wanted.memory.0).filter(|bytes| *bytes > 0)?;
    let processors = i64::from(wanted.cpu.max(1));
    let own_kernel = wanted.kernel_boot.is_some();
    let kernel = own_kernel || wanted.image.is_none() && settings.kernel.enabled;
    let mut cpu = match wanted.dedicated_cpus {
        true => processors * 1000,
        false => ceil(processors * 1000, CPU_ALLOCATION_RATIO),
    };
    // Huge pages are counted by themselves, and nobody watches here how many a node has left.
    let ordinary = match wanted.huge_pages {
        Some(_) => 0,
        None => memory,
    };
    let mut bytes = ordinary
        .checked_add(ceil(memory, PAGE_TABLES))?
        .checked_add(PROGRAMS + processors * PER_PROCESSOR)?;
    let images = 1 + i64::from(kernel);
    let logs = i64::from(wanted.serial_console);
    for (count, (more_cpu, more_memory)) in [(images, IMAGE), (logs, CONSOLE_LOG)] {
        cpu += count * more_cpu;
        bytes = bytes.checked_add(count * more_memory)?;
    }
    let known = labels(settings);
    let mut node_labels = wanted.node_selector.clone();
    // Of others, which were allowed once, it is not known which nodes have them.
    node_labels.retain(|key, _| known.contains(key));
    node_labels.extend(settings.node_selector.clone());
    node_labels.insert(SCHEDULABLE.to_owned(), "true".to_owned());
    Some(Needs {
        cpu,
        memory: bytes,
        storage: disks(wanted, settings)?.checked_add(OWN_STORAGE)?,
        node_labels,
        tolerations: tolerations(wanted, settings),
        objects: OBJECTS,
    })
}

/// Bytes of its node's own disk that a machine's disks may fill: what it writes to its root disk, which is a
/// layer above an image, and its further disks, which are files there. None when a size cannot be read.
#[must_use]
pub fn disks(wanted: &KubeVirt, settings: &KubeVirtSettings) -> Option<i64> {
    let sizes = wanted.disks.iter().map(|disk| &disk.size);
    let mut sizes = sizes.chain([&settings.root_disk_request]);
    sizes.try_fold(0_i64, |sum, size| {
        sum.checked_add(kit_objects::quantity::bytes(&size.0).filter(|bytes| *bytes >= 0)?)
    })
}

/// The labels of nodes that it depends on: KubeVirt's nodes have a hundred others.
#[must_use]
pub fn labels(settings: &KubeVirtSettings) -> BTreeSet<String> {
    let asked: &BTreeMap<_, _> = &settings.node_selector;
    let asked = asked.keys().chain(&settings.allowed.node_labels).cloned();
    asked.chain([SCHEDULABLE.to_owned()]).collect()
}

/// The taints of nodes that do not keep it away: the platform's, and those that the user named.
pub(super) fn tolerations(wanted: &KubeVirt, settings: &KubeVirtSettings) -> Vec<Toleration> {
    let named = wanted.tolerations.iter().map(|named| Toleration {
        key: Some(named.key.clone()),
        operator: Some(named.operator().to_owned()),
        value: named.value.clone(),
        effect: named.effect.map(|effect| effect.as_str().to_owned()),
        toleration_seconds: None,
    });
    settings.tolerations.iter().cloned().chain(named).collect()
}

fn ceil(value: i64, by: i64) -> i64 {
    value / by + i64::from(value % by > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cpu: i32, memory: &str, change: impl FnOnce(&mut KubeVirt)) -> Option<(i64, i64)> {
        let mut wanted = KubeVirt {
            cpu,
            memory: memory.into(),
            ..KubeVirt::default()
        };
        change(&mut wanted);
        let needs = needs(&wanted, &KubeVirtSettings::default())?;
        Some((needs.cpu, needs.memory))
    }

    #[test]
    fn a_machine_takes_what_kubevirt_asks_for_and_its_images() {
        // 4096 + 8 of page tables + 228 + 2 × 8, and two containers.
        let usual = (4096 + 8 + 228 + 16) * MIB + 2_000_000;
        assert_eq!(of(2, "4Gi", |_| {}), Some((220, usual)));
        let console = |k: &mut KubeVirt| k.serial_console = true;
        assert_eq!(of(2, "4Gi", console), Some((225, usual + 35_000_000)));
        let image = |k: &mut KubeVirt| k.image = Some("u.example.com/w".to_owned());
        assert_eq!(of(2, "4Gi", image), Some((210, usual - 1_000_000)));
        assert_eq!(of(1, "1Gi", |_| {}).map(|n| n.0), Some(120));
        assert_eq!(of(1, "much", |_| {}), None);
        assert_eq!(of(1, "8Ei", |_| {}), None, "more than can be counted");
    }

    #[test]
    fn whatever_a_machine_may_write_to_its_node_is_asked_for() {
        let (mut wanted, mut settings) = (KubeVirt::default(), KubeVirtSettings::default());
        assert_eq!(disks(&wanted, &settings), Some(8 << 30));
        let disk = |size: &str| api::node_pool::Disk {
            name: "data".to_owned(),
            size: size.into(),
            mount_path: None,
        };
        wanted.disks = vec![disk("20Gi"), disk("1G")];
        assert_eq!(disks(&wanted, &settings), Some((28 << 30) + 1_000_000_000));
        settings.root_disk_request = "0".into();
        assert_eq!(disks(&wanted, &settings), Some((20 << 30) + 1_000_000_000));
        wanted.disks.push(disk("much"));
        assert_eq!(disks(&wanted, &settings), None);
    }

    #[test]
    fn cores_of_ones_own_are_whole_and_huge_pages_are_no_ordinary_memory() {
        let dedicated = |k: &mut KubeVirt| k.dedicated_cpus = true;
        let usual = of(2, "4Gi", |_| {}).unwrap();
        assert_eq!(of(2, "4Gi", dedicated), Some((2020, usual.1)));
        let pages = |k: &mut KubeVirt| k.huge_pages = Some(api::node_pool::HugePages::Gibibyte);
        let (cpu, memory) = of(2, "4Gi", pages).unwrap();
        assert_eq!(cpu, usual.0);
        assert_eq!(memory, (8 + 228 + 16) * MIB + 2_000_000);
    }

    #[test]
    fn a_label_of_which_nothing_is_known_keeps_no_node_away() {
        let mut settings = KubeVirtSettings::default();
        settings.allowed.node_labels = vec!["zone".to_owned()];
        settings.node_selector = [("pool".to_owned(), "workers".to_owned())].into();
        let mut wanted = KubeVirt::default();
        for (key, value) in [("zone", "a"), ("once-allowed", "x"), ("pool", "other")] {
            wanted
                .node_selector
                .insert(key.to_owned(), value.to_owned());
        }
        let asked = needs(&wanted, &settings).unwrap().node_labels;
        let keys: Vec<_> = asked.keys().map(String::as_str).collect();
        assert_eq!(keys, [SCHEDULABLE, "pool", "zone"]);
        assert_eq!(asked["pool"], "workers");
    }

    #[test]
    fn machines_run_where_kubevirt_and_the_operator_want_them() {
        let settings = KubeVirtSettings {
            node_selector: [("example.com/workers".to_owned(), "yes".to_owned())].into(),
            ..KubeVirtSettings::default()
        };
        let needs = needs(&KubeVirt::default(), &settings).unwrap();
        let asked: BTreeSet<_> = needs.node_labels.keys().cloned().collect();
        assert_eq!(asked, labels(&settings));
        assert_eq!(needs.node_labels[SCHEDULABLE], "true");
        assert_eq!(needs.node_labels["example.com/workers"], "yes");
    }
}
