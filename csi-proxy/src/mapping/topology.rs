//! Topology of volumes: the zones that one can be attached in are those of its class, of which the
//! platform team says so.
//!
//! Invariant: pure; a volume can be attached in every zone of its class, so there is nothing to choose,
//! only to refuse.

use std::collections::BTreeMap;

use api::names::LABEL_ZONE;
use proto::csi::{Topology, TopologyRequirement};

use crate::settings::Class;
use crate::status::Status;

/// A zone as CSI writes it: the label of its nodes.
#[must_use]
pub fn zone(name: &str) -> Topology {
    Topology {
        segments: BTreeMap::from([(LABEL_ZONE.to_owned(), name.to_owned())]),
    }
}

/// Where volumes of a class can be attached; nothing is everywhere.
#[must_use]
pub fn of(class: &Class) -> Vec<Topology> {
    class.zones.iter().map(|name| zone(name)).collect()
}

/// Whether volumes of a class can be attached there. What names no zone may be anywhere.
#[must_use]
pub fn reaches(class: &Class, there: &Topology) -> bool {
    let named = there.segments.get(LABEL_ZONE);
    class.zones.is_empty() || named.is_some_and(|name| class.zones.contains(name))
}

/// Whether volumes of a class can be attached in one of the places that are required. What is
/// preferred decides nothing.
///
/// # Errors
/// RESOURCE_EXHAUSTED naming the zones of the class.
pub fn fits(class: &Class, required: Option<&TopologyRequirement>) -> Result<(), Status> {
    let places = required.map_or(&[][..], |required| &required.requisite);
    if places.is_empty() || places.iter().any(|there| reaches(class, there)) {
        return Ok(());
    }
    let named = |there: &Topology| match there.segments.get(LABEL_ZONE) {
        Some(name) => name.clone(),
        None => format!("a place without {LABEL_ZONE}"),
    };
    let asked: Vec<_> = places.iter().map(named).collect();
    Err(Status::resource_exhausted(format!(
        "volumes of class {} can be attached in zones {} alone, and one is asked for in {}; use \
         another class, or let the pod run there",
        class.name,
        class.zones.join(", "),
        asked.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn class(zones: &[&str]) -> Class {
        Class {
            name: "fast".to_owned(),
            zones: zones.iter().map(|&name| name.to_owned()).collect(),
            ..Class::default()
        }
    }

    fn required(requisite: &[Topology], preferred: &[Topology]) -> TopologyRequirement {
        TopologyRequirement {
            requisite: requisite.into(),
            preferred: preferred.into(),
        }
    }

    #[test]
    fn volume_can_be_attached_in_all_zones_of_its_class_whichever_is_asked_for() {
        let (east, west, north) = (zone("east"), zone("west"), zone("north"));
        let class = class(&["east", "west"]);
        assert_eq!(of(&class), [east.clone(), west.clone()]);
        assert_eq!(fits(&class, None), Ok(()));
        let all = [north.clone(), west.clone()];
        for good in [
            required(&[], &[]),
            required(&[], std::slice::from_ref(&north)),
            required(&[east], &[]),
            required(&all, std::slice::from_ref(&north)),
        ] {
            assert_eq!(fits(&class, Some(&good)), Ok(()), "{good:?}");
        }
        assert!(reaches(&class, &west) && !reaches(&class, &north));
    }

    #[test]
    fn zone_that_the_class_does_not_have_is_refused_with_those_that_it_has() {
        let class = class(&["east", "west"]);
        let elsewhere = Topology {
            segments: BTreeMap::from([("rack".to_owned(), "east".to_owned())]),
        };
        for (place, named) in [(zone("north"), "in north;"), (elsewhere, "without")] {
            let refusal = fits(&class, Some(&required(&[place], &[]))).unwrap_err();
            assert_eq!(refusal.code, Code::ResourceExhausted);
            let sentence = &refusal.sentence;
            assert!(sentence.contains("in zones east, west alone"), "{sentence}");
            assert!(sentence.contains(named), "{sentence}");
        }
    }

    #[test]
    fn class_without_zones_is_everywhere() {
        let class = class(&[]);
        let north = required(&[zone("north")], &[]);
        assert_eq!(fits(&class, Some(&north)), Ok(()));
        assert_eq!(of(&class), []);
        assert!(reaches(&class, &Topology::default()));
    }
}
