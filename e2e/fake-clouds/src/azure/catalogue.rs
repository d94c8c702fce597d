//! What can be had: sizes, what keeps them from a subscription, and how much of it there may be.
//!
//! Invariant: each has the fields that the documentation names.

use serde_json::{Value, json};

/// The one place.
pub(super) const LOCATION: &str = "westeurope";
/// A version of an image of a gallery, and a managed image.
const IMAGES: [&str; 2] = [
    "workers/providers/Microsoft.Compute/galleries/covey/images/worker/versions/1.36.0",
    "workers/providers/Microsoft.Compute/images/worker",
];
/// The one subnet.
pub(super) const SUBNET: &str =
    "workers/providers/Microsoft.Network/virtualNetworks/net/subnets/workers";
/// The one group of rules.
pub(super) const SECURITY_GROUP: &str =
    "workers/providers/Microsoft.Network/networkSecurityGroups/workers";

/// Sizes: name, family, processors, GB of memory, architecture, why it cannot be had.
const SIZES: [(&str, &str, u32, &str, &str, &str); 4] = [
    ("Standard_D2s_v5", "standardDSv5Family", 2, "8", "x64", ""),
    ("Standard_D4s_v5", "standardDSv5Family", 4, "16", "x64", ""),
    (
        "Standard_D2ps_v5",
        "standardDPSv5Family",
        2,
        "8",
        "Arm64",
        "",
    ),
    (
        "Standard_F2",
        "standardFFamily",
        2,
        "4",
        "x64",
        "NotAvailableForSubscription",
    ),
];

/// Whether something is the ID of an image.
pub(super) fn has_image(id: &str) -> bool {
    IMAGES.iter().any(|image| id.ends_with(image))
}

/// The processors of a size, and why it cannot be had; none: there is none.
pub(super) fn size(name: &str) -> Option<(u32, &'static str)> {
    let found = SIZES.iter().find(|size| size.0 == name)?;
    Some((found.2, found.5))
}

pub(super) fn skus() -> Vec<Value> {
    let shown = |(name, family, cpus, memory, architecture, why): &(_, _, u32, _, _, &str)| {
        let restriction = json!({
            "type": "Location", "values": [LOCATION], "restrictionInfo": { "locations": [LOCATION] }, "reasonCode": why,
        });
        json!({
            "resourceType": "virtualMachines", "name": name, "family": family, "locations": [LOCATION],
            "locationInfo": [{ "location": LOCATION, "zones": ["1", "2"] }],
            "capabilities": [
                { "name": "vCPUs", "value": cpus.to_string() }, { "name": "MemoryGB", "value": memory },
                { "name": "CpuArchitectureType", "value": architecture },
            ],
            "restrictions": if why.is_empty() { json!([]) } else { json!([restriction]) },
        })
    };
    let mut all: Vec<_> = SIZES.iter().map(shown).collect();
    all.push(json!({ "resourceType": "disks", "name": "Premium_LRS", "locations": [LOCATION] }));
    all
}

/// `machines`: how many there are, of two processors each; `most`: how many there may be.
pub(super) fn usages(machines: usize, most: usize) -> Vec<Value> {
    let names = [
        "cores",
        "lowPriorityCores",
        "standardDSv5Family",
        "standardDPSv5Family",
    ];
    let shown = |name: &&str| json!({ "unit": "Count", "currentValue": 2 * machines, "limit": 2 * most, "name": { "value": name } });
    names.iter().map(shown).collect()
}
