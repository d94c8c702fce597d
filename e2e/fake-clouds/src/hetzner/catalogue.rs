//! What can be had: locations and sizes, with made-up prices.
//!
//! Invariant: each has the fields that the documentation names.

use serde_json::{Value, json};

/// Locations: name and network zone.
pub(super) const LOCATIONS: [(&str, &str); 3] = [
    ("fsn1", "eu-central"),
    ("hel1", "eu-central"),
    ("ash", "us-east"),
];

type Size = (
    &'static str,
    u32,
    u32,
    &'static str,
    &'static str,
    Option<&'static str>,
);

/// Sizes: name, processors, GB of memory, architecture, net price of an hour, from when on there are none.
pub(super) const TYPES: [Size; 4] = [
    ("cx22", 2, 4, "x86", "0.0060000000", None),
    ("cx32", 4, 8, "x86", "0.0110000000", None),
    ("cax11", 2, 4, "arm", "0.0055000000", None),
    (
        "cx11",
        1,
        2,
        "x86",
        "0.0050000000",
        Some("2024-09-06T00:00:00+00:00"),
    ),
];

pub(super) fn location(name: &str) -> Option<Value> {
    let found = LOCATIONS.iter().enumerate().find(|(_, l)| l.0 == name);
    found.map(
        |(number, (name, zone))| json!({ "id": number + 1, "name": name, "network_zone": zone }),
    )
}

pub(super) fn server_type(name: &str, exhausted: &[String]) -> Option<Value> {
    let (number, of_it) = TYPES.iter().enumerate().find(|(_, t)| t.0 == name)?;
    let (name, cores, memory, architecture, net, ends) = of_it;
    let deprecation = ends
        .map(|ends| json!({ "announced": "2024-06-06T00:00:00+00:00", "unavailable_after": ends }));
    let places = LOCATIONS
        .iter()
        .filter(|(l, _)| *architecture == "x86" || *l != "ash");
    let locations: Vec<_> = places
        .clone()
        .map(|(l, _)| {
            let left = ends.is_none() && !exhausted.iter().any(|known| known == name);
            json!({ "name": l, "available": left, "recommended": left, "deprecation": deprecation })
        })
        .collect();
    let prices: Vec<_> = places
        .map(|(l, _)| {
            json!({ "location": l, "price_hourly": { "net": net, "gross": net },
                    "price_monthly": { "net": "3.5", "gross": "3.5" } })
        })
        .collect();
    Some(json!({
        "id": number + 1, "name": name, "description": name.to_uppercase(), "cores": cores, "memory": f64::from(*memory),
        "disk": 40, "cpu_type": "shared", "storage_type": "local", "architecture": architecture, "prices": prices,
        "deprecation": deprecation, "locations": locations,
    }))
}
