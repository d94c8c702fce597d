//! What there is to be had, and how much of it. Pure.
//!
//! Invariant: Azure Resource Manager has no prices, so there are none here: what a size costs is what a user says. A quota
//! that is not told is none.

use providers::offering::Size as Offered;
use providers::{FaultKind, Offering, Refused};

use crate::refusal::{NO_SUCH, asked};
use crate::schema::{Sku, Usage};

/// One size in one location.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    /// As everybody has it.
    pub size: Offered,
    /// What its processors are counted with.
    pub family: String,
    /// Processors.
    pub cpus: i64,
}

/// Those of the sizes that are wanted, in their order, that can be made in a location, or in one zone of it.
///
/// # Errors
/// When one is unknown, or is kept from the subscription: which setting to change.
pub fn sizes(
    all: &[Sku],
    wanted: &[String],
    location: &str,
    zone: Option<&str>,
) -> Result<Vec<Size>, Refused> {
    let each = wanted.iter().map(|name| {
        let found = all.iter().find(|sku| {
            sku.resource_type == "virtualMachines" && sku.name.eq_ignore_ascii_case(name)
        });
        let found = found.ok_or_else(|| unknown(name, location, "there is no such size"))?;
        size(found, location, zone)
    });
    each.collect()
}

fn size(sku: &Sku, location: &str, zone: Option<&str>) -> Result<Size, Refused> {
    let here = sku.location_info.iter();
    let here = here.filter(|info| info.location.eq_ignore_ascii_case(location));
    let mut zones: Vec<_> = here.flat_map(|info| info.zones.clone()).collect();
    for restriction in &sku.restrictions {
        if restriction.type_ != "Zone" {
            let why = format!(
                "it is kept from the subscription: {}",
                restriction.reason_code
            );
            return Err(unknown(&sku.name, location, &why));
        }
        zones.retain(|zone| !restriction.restriction_info.zones.contains(zone));
    }
    if let Some(zone) = zone {
        if !zones.iter().any(|known| known == zone) {
            let why = format!("it is not to be had in zone {zone}");
            return Err(unknown(&sku.name, location, &why));
        }
        zones = vec![zone.to_owned()];
    }
    let value = |name: &str| {
        let capability = sku.capabilities.iter().find(|c| c.name == name);
        capability.map_or("", |capability| capability.value.as_str())
    };
    let mut offering = Offering {
        zones: zones
            .iter()
            .map(|zone| format!("{location}-{zone}"))
            .collect(),
        ..Offering::default()
    };
    value("vCPUs").clone_into(&mut offering.cpu.0);
    offering.memory.0 = format!("{}Gi", value("MemoryGB"));
    Ok(Size {
        family: sku.family.clone(),
        cpus: value("vCPUs").parse().unwrap_or_default(),
        size: Offered {
            name: sku.name.clone(),
            architecture: match value("CpuArchitectureType") {
                "Arm64" => "arm64",
                _ => "amd64",
            },
            disk: None,
            exhausted: false,
            offering,
        },
    })
}

/// How many more machines of a size the subscription may have; none: Azure does not say.
#[must_use]
pub fn capacity(usages: &[Usage], size: &Size, is_spot: bool) -> Option<i64> {
    // Spot machines of all families are counted together.
    let names = match is_spot {
        true => ["lowPriorityCores", "lowPriorityCores"],
        false => ["cores", size.family.as_str()],
    };
    let of_it = usages.iter().filter(|usage| {
        names
            .iter()
            .any(|name| usage.name.value.eq_ignore_ascii_case(name))
    });
    let left = of_it.map(|usage| (usage.limit - usage.current_value).max(0));
    left.min().map(|left| left / size.cpus.max(1))
}

fn unknown(name: &str, location: &str, why: &str) -> Refused {
    let asked = asked("use", format!("size {name} in {location}"));
    Refused {
        mend: Some(
            "change the size of the node pool (spec.provider.azure.types), or name a ProviderConfig of another zone or \
             location"
                .to_owned(),
        ),
        ..asked.refused(FaultKind::Terminal, NO_SUCH, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Capability, LocationInfo, Restriction, RestrictionInfo, UsageName};

    fn sku(name: &str, restrictions: Vec<Restriction>) -> Sku {
        let capability = |(name, value): (&str, &str)| Capability {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let all = [
            ("vCPUs", "2"),
            ("MemoryGB", "3.5"),
            ("CpuArchitectureType", "Arm64"),
        ];
        Sku {
            resource_type: "virtualMachines".to_owned(),
            name: name.to_owned(),
            family: "f".to_owned(),
            location_info: vec![LocationInfo {
                location: "WestEurope".to_owned(),
                zones: vec!["1".to_owned(), "2".to_owned()],
            }],
            capabilities: all.map(capability).to_vec(),
            restrictions,
        }
    }

    fn restriction(type_: &str, zones: &[&str]) -> Restriction {
        Restriction {
            type_: type_.to_owned(),
            reason_code: "NotAvailableForSubscription".to_owned(),
            restriction_info: RestrictionInfo {
                zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
            },
        }
    }

    #[test]
    fn sizes_are_those_of_the_zone_that_the_subscription_may_have() {
        let all = [
            sku("a", Vec::new()),
            sku("b", vec![restriction("Zone", &["2"])]),
            sku("c", vec![restriction("Location", &[])]),
        ];
        let of = |name: &str, zone| sizes(&all, &[name.to_owned()], "westeurope", zone);
        let found = of("A", Some("2")).unwrap().remove(0);
        assert_eq!((found.size.architecture, found.cpus), ("arm64", 2));
        let offering = found.size.offering;
        assert_eq!(offering.memory.0, "3.5Gi");
        assert_eq!(offering.zones, ["westeurope-2"]);
        assert_eq!(offering.price, None);
        let other = of("b", None).unwrap().remove(0);
        assert_eq!(other.size.offering.zones, ["westeurope-1"]);
        for (name, zone) in [("b", Some("2")), ("c", None), ("d", None), ("a", Some("3"))] {
            let refused = of(name, zone).unwrap_err();
            assert_eq!(refused.kind, FaultKind::Terminal, "{name}");
            assert!(refused.to_string().contains("size of the node pool"));
        }
    }

    #[test]
    fn room_is_the_least_of_what_is_counted() {
        let usage = |name: &str, current_value, limit| Usage {
            name: UsageName {
                value: name.to_owned(),
            },
            current_value,
            limit,
        };
        let all = [
            usage("cores", 4, 100),
            usage("F", 4, 9),
            usage("lowPriorityCores", 0, 3),
            usage("other", 0, 0),
        ];
        let size = sizes(
            &[sku("a", Vec::new())],
            &["a".to_owned()],
            "westeurope",
            None,
        );
        let size = size.unwrap().remove(0);
        assert_eq!(capacity(&all, &size, false), Some(2));
        assert_eq!(capacity(&all, &size, true), Some(1));
        assert_eq!(capacity(&[], &size, false), None);
    }
}
