//! What there is to be had. Pure.
//!
//! Invariant: the API has no prices, so there are none here: what a size costs is what a user says.

use providers::offering::Size;
use providers::{FaultKind, Offering, Refused};

use crate::refusal::{Asked, NO_SUCH};
use crate::schema::MachineType;

/// Those of the sizes that are wanted, in their order, that can be made in a zone.
///
/// # Errors
/// When one is unknown, or is not made any more: which setting to change.
pub fn sizes(all: &[MachineType], wanted: &[String], zone: &str) -> Result<Vec<Size>, Refused> {
    let mut sizes = Vec::new();
    for name in wanted {
        let found = all.iter().find(|type_| type_.name == *name);
        let found =
            found.ok_or_else(|| unknown(name, zone, "there is no such size in the zone"))?;
        let is_gone = |state: &str| matches!(state, "OBSOLETE" | "DELETED");
        if found.deprecated.as_ref().is_some_and(|d| is_gone(&d.state)) {
            return Err(unknown(name, zone, "this size is not made any more"));
        }
        sizes.push(size(found, zone));
    }
    Ok(sizes)
}

fn size(type_: &MachineType, zone: &str) -> Size {
    let mut offering = Offering {
        zones: vec![zone.to_owned()],
        ..Offering::default()
    };
    offering.cpu.0 = type_.guest_cpus.to_string();
    offering.memory.0 = format!("{}Mi", type_.memory_mb);
    Size {
        name: type_.name.clone(),
        architecture: match type_.architecture.as_deref() {
            Some("ARM64") => "arm64",
            _ => "amd64",
        },
        disk: None,
        exhausted: false,
        offering,
    }
}

fn unknown(name: &str, zone: &str, why: &str) -> Refused {
    let asked = Asked::new("use", format!("size {name} in {zone}"));
    Refused {
        mend: Some("change the size of the node pool (spec.provider.gcp.types), or name a ProviderConfig of another zone".to_owned()),
        ..asked.refused(FaultKind::Terminal, NO_SUCH, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Deprecated;

    #[test]
    fn sizes_are_those_of_the_zone_in_the_order_that_is_wanted_and_without_a_price() {
        let type_ = |name: &str, architecture: Option<&str>, state: Option<&str>| MachineType {
            name: name.to_owned(),
            guest_cpus: 2,
            memory_mb: 4096,
            architecture: architecture.map(str::to_owned),
            deprecated: state.map(|state| Deprecated {
                state: state.to_owned(),
            }),
        };
        let all = [
            type_("a", None, None),
            type_("b", Some("ARM64"), Some("DEPRECATED")),
            type_("c", None, Some("OBSOLETE")),
        ];
        let of = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            sizes(&all, &names, "z-1-b")
        };
        let found = of(&["b", "a"]).unwrap();
        assert_eq!(
            (found[0].name.as_str(), found[0].architecture),
            ("b", "arm64")
        );
        assert_eq!(found[1].offering.memory.0, "4096Mi");
        assert_eq!(found[1].offering.price, None);
        for name in ["c", "d"] {
            let refused = of(&[name]).unwrap_err();
            assert_eq!(refused.kind, FaultKind::Terminal);
            assert!(refused.to_string().contains("size of the node pool"));
        }
    }
}
