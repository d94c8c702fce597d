//! What can be had: zones and sizes.
//!
//! Invariant: each has the fields that the documentation names.

use serde_json::{Value, json};

/// Zones.
pub(super) const ZONES: [&str; 3] = ["europe-west1-b", "europe-west1-c", "us-east1-b"];

/// Sizes: name, processors, MB of memory, architecture, whether it is obsolete.
const TYPES: [(&str, u32, u32, &str, bool); 4] = [
    ("e2-medium", 2, 4096, "X86_64", false),
    ("e2-standard-4", 4, 16384, "X86_64", false),
    ("t2a-standard-2", 2, 8192, "ARM64", false),
    ("f1-micro", 1, 614, "X86_64", true),
];

pub(super) fn has(name: &str) -> bool {
    TYPES.iter().any(|type_| type_.0 == name)
}

pub(super) fn machine_types(zone: &str) -> Vec<Value> {
    let shown = |(name, cpus, memory, architecture, is_old): &(&str, u32, u32, &str, bool)| {
        let mut shown = json!({
            "kind": "compute#machineType", "name": name, "guestCpus": cpus, "memoryMb": memory,
            "architecture": architecture, "zone": zone,
        });
        if *is_old {
            shown["deprecated"] = json!({ "state": "OBSOLETE" });
        }
        shown
    };
    TYPES.iter().map(shown).collect()
}

/// `europe-west1` of `europe-west1-b`.
pub(super) fn region(zone: &str) -> &str {
    zone.rsplit_once('-').map_or(zone, |(region, _)| region)
}
