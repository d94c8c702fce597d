//! What there is to be had. Pure.
//!
//! Invariant: EC2's own API says what instances cost that may be taken back, and nothing of others: what those cost is what a
//! user says. A price that is not told is none.

use providers::offering::{Offering, Size};
use providers::{FaultKind, Refused};

use crate::refusal::{NO_SUCH, asked};
use crate::schema::{InstanceType, SpotPrice};

/// MiB of memory that a node has at least.
const LEAST: u64 = 2048;

/// What there is in a region, and in one zone of it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Offered {
    /// All types of the region.
    pub types: Vec<InstanceType>,
    /// Those that are to be had in the zone, by name.
    pub here: Vec<String>,
    /// What instances cost there that may be taken back, where that is known.
    pub prices: Vec<SpotPrice>,
}

/// Those of the types that are wanted, in their order.
///
/// # Errors
/// When one is unknown, or is not to be had there: which setting to change.
pub fn sizes(
    offered: &Offered,
    wanted: &[String],
    zone: &str,
    is_spot: bool,
) -> Result<Vec<Size>, Refused> {
    let prices = if is_spot { &offered.prices[..] } else { &[] };
    let each = wanted.iter().map(|name| {
        let found = offered.types.iter().find(|type_| type_.name == *name);
        let found = found.ok_or_else(|| unknown(name, zone, "there is no such type"))?;
        if !offered.here.contains(name) {
            return Err(unknown(name, zone, "it is not to be had there"));
        }
        size(found, prices, zone)
    });
    each.collect()
}

fn size(found: &InstanceType, prices: &[SpotPrice], zone: &str) -> Result<Size, Refused> {
    let supports = |name: &str| found.architectures.iter().any(|known| known == name);
    let architecture = match (supports("x86_64"), supports("arm64")) {
        (true, _) => "amd64",
        (false, true) => "arm64",
        (false, false) => {
            return Err(unknown(
                &found.name,
                zone,
                "its processor is neither of ours",
            ));
        }
    };
    let mut prices = prices.iter().filter(|price| price.type_ == found.name);
    let price = prices.find_map(|price| price.price.as_ref()?.parse().ok());
    let mut offering = Offering {
        price,
        zones: vec![zone.to_owned()],
        ..Offering::default()
    };
    found.cpus.clone_into(&mut offering.cpu.0);
    offering.memory.0 = format!("{}Mi", found.memory);
    Ok(Size {
        name: found.name.clone(),
        architecture,
        // It is asked for beside it.
        disk: None,
        exhausted: false,
        offering,
    })
}

/// A type that is to be had for images of this architecture, always the same one: the smallest that has room for a node.
#[must_use]
pub fn any(offered: &Offered, architecture: &str) -> Option<String> {
    let memory = |found: &InstanceType| found.memory.parse::<u64>().ok();
    let is_fit = |found: &&InstanceType| {
        offered.here.contains(&found.name)
            && found
                .architectures
                .iter()
                .any(|known| known == architecture)
            && memory(found).is_some_and(|mib| mib >= LEAST)
    };
    let found = offered.types.iter().filter(is_fit);
    let smallest = found.min_by_key(|found| (memory(found), found.name.clone()));
    smallest.map(|found| found.name.clone())
}

/// Whether an image is for the processors of a size.
#[must_use]
pub fn fits(image: &str, size: &Size) -> bool {
    matches!(
        (image, size.architecture),
        ("x86_64", "amd64") | ("arm64", "arm64")
    )
}

fn unknown(name: &str, zone: &str, why: &str) -> Refused {
    let asked = asked("use", format!("type {name} in {zone}"));
    Refused {
        mend: Some(
            "change the type of the node pool (spec.provider.aws.types), or name a ProviderConfig of another zone"
                .to_owned(),
        ),
        ..asked.refused(FaultKind::Terminal, NO_SUCH, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_(name: &str, architecture: &str) -> InstanceType {
        InstanceType {
            name: name.to_owned(),
            cpus: "2".to_owned(),
            memory: "8192".to_owned(),
            architectures: vec![architecture.to_owned()],
        }
    }

    #[test]
    fn sizes_are_those_of_the_zone_with_the_price_that_is_known() {
        let types = vec![
            type_("a", "x86_64"),
            type_("b", "arm64"),
            type_("c", "arm64"),
            type_("d", "i386"),
        ];
        let here = ["a", "b", "d"].map(str::to_owned).to_vec();
        let price = |type_: &str, price: Option<&str>| SpotPrice {
            type_: type_.to_owned(),
            price: price.map(str::to_owned),
        };
        let prices = vec![price("a", None), price("a", Some("0.0345"))];
        let offered = Offered {
            types,
            here,
            prices,
        };
        let bought = |name: &str, is_spot| sizes(&offered, &[name.to_owned()], "z", is_spot);
        let of = |name: &str| bought(name, true);
        assert_eq!(bought("a", false).unwrap()[0].offering.price, None);
        let found = of("a").unwrap().remove(0);
        assert_eq!(
            (found.architecture, found.offering.price),
            ("amd64", Some(0.0345))
        );
        assert_eq!(found.offering.memory.0, "8192Mi");
        assert!(fits("x86_64", &found) && !fits("arm64", &found));
        let other = of("b").unwrap().remove(0);
        assert_eq!((other.architecture, other.offering.price), ("arm64", None));
        for name in ["c", "d", "e"] {
            let refused = of(name).unwrap_err();
            assert_eq!(refused.kind, FaultKind::Terminal, "{name}");
            assert!(refused.to_string().contains("type of the node pool"));
        }
    }
}
