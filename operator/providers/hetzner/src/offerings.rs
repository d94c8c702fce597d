//! What there is to be had, and for how much. Pure.
//!
//! Invariant: prices are those without tax, in the currency of the account, as the API says them for the location; what
//! it does not say is none, never 0.

use api::Quantity;
use jiff::Timestamp;
use providers::{FaultKind, Offering, Refused};

use crate::refusal::{Asked, NO_SUCH};
use crate::schema::{Deprecation, ServerType};

/// One size in one location.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    /// Its name.
    pub name: String,
    /// `amd64` or `arm64`.
    pub architecture: &'static str,
    /// GB of disk.
    pub disk: u64,
    /// None is left at the moment.
    pub exhausted: bool,
    /// From when on none can be made, in RFC 3339; none: that was not said.
    pub ends: Option<String>,
    /// As everybody has it.
    pub offering: Offering,
}

/// Those of the sizes that are wanted, in their order, that can be made in a location.
///
/// # Errors
/// When one is unknown, or is not made there: which field to change.
pub fn sizes(
    all: &[ServerType],
    wanted: &[String],
    location: &str,
    now: Timestamp,
) -> Result<Vec<Size>, Refused> {
    let mut sizes = Vec::new();
    for name in wanted {
        let found = all.iter().find(|type_| type_.name == *name);
        let found = found.ok_or_else(|| unknown(name, all, location, "there is no such size"))?;
        let size = size(found, location, now).map_err(|why| unknown(name, all, location, why))?;
        sizes.push(size);
    }
    Ok(sizes)
}

/// That something is made in a location.
///
/// # Errors
/// When nothing is: which field to change.
pub fn known_location(all: &[ServerType], location: &str) -> Result<(), Refused> {
    let is_made = |type_: &ServerType| {
        let mut places = type_.locations.iter();
        places.any(|place| place.name == location)
            || type_.prices.iter().any(|price| price.location == location)
    };
    if all.iter().any(is_made) {
        return Ok(());
    }
    let asked = Asked::new("use", format!("location {location}"));
    let mend = "there is no such location, or nothing is made there: change spec.hetzner.location of the ProviderConfig";
    Err(Refused {
        mend: Some(mend.to_owned()),
        ..asked.refused(FaultKind::Terminal, NO_SUCH, "there is no such location")
    })
}

fn size(type_: &ServerType, location: &str, now: Timestamp) -> Result<Size, &'static str> {
    let place = type_.locations.iter().find(|place| place.name == location);
    let price = type_.prices.iter().find(|price| price.location == location);
    if place.is_none() && price.is_none() {
        return Err("this size is not made in this location");
    }
    let of_place = place.and_then(|place| place.deprecation.as_ref());
    let deprecation = of_place.or(type_.deprecation.as_ref());
    if deprecation.is_some_and(|deprecation| has_ended(deprecation, now)) {
        return Err("this size is not made any more");
    }
    let price = price.and_then(|price| price.price_hourly.net.parse::<f64>().ok());
    let price = price.filter(|price| price.is_finite() && *price >= 0.0);
    Ok(Size {
        name: type_.name.clone(),
        architecture: match type_.architecture.as_str() {
            "arm" => "arm64",
            _ => "amd64",
        },
        disk: type_.disk,
        exhausted: place.is_some_and(|place| place.available == Some(false)),
        ends: deprecation.and_then(|deprecation| deprecation.unavailable_after.clone()),
        offering: Offering {
            cpu: Quantity(type_.cores.to_string()),
            memory: memory(type_.memory),
            price,
            zones: vec![location.to_owned()],
            needs: None,
        },
    })
}

/// GB of the API, which are whole ones or halves.
fn memory(gb: f64) -> Quantity {
    let mib = (gb * 1024.0).round();
    Quantity(format!("{mib}Mi"))
}

fn has_ended(deprecation: &Deprecation, now: Timestamp) -> bool {
    let ends = deprecation.unavailable_after.as_deref();
    let ends = ends.and_then(|text| text.parse::<Timestamp>().ok());
    ends.is_some_and(|ends| ends <= now)
}

/// That a size cannot be had, and which can.
fn unknown(name: &str, all: &[ServerType], location: &str, why: &str) -> Refused {
    let there = |type_: &&ServerType| type_.prices.iter().any(|price| price.location == location);
    let mut others: Vec<_> = all.iter().filter(there).map(|t| t.name.as_str()).collect();
    others.sort_unstable();
    let asked = Asked::new("use", format!("server type {name} in {location}"));
    let mend = match others.is_empty() {
        true => "there is no such location, or nothing is made there: change spec.hetzner.location of the ProviderConfig"
            .to_owned(),
        false => format!("change types of the node pool; there are {}", others.join(", ")),
    };
    Refused {
        mend: Some(mend),
        ..asked.refused(FaultKind::Terminal, NO_SUCH, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Amount, Price, TypeLocation};

    fn now() -> Timestamp {
        "2026-07-01T12:00:00Z".parse().unwrap()
    }

    fn type_(name: &str, price: &str) -> ServerType {
        ServerType {
            name: name.to_owned(),
            cores: 2,
            memory: 3.5,
            disk: 40,
            architecture: "arm".to_owned(),
            prices: vec![Price {
                location: "fsn1".to_owned(),
                price_hourly: Amount {
                    net: price.to_owned(),
                },
            }],
            ..ServerType::default()
        }
    }

    fn of(all: &[ServerType], wanted: &str, location: &str) -> Result<Size, Refused> {
        let mut sizes = sizes(all, &[wanted.to_owned()], location, now())?;
        Ok(sizes.remove(0))
    }

    #[test]
    fn sizes_come_in_the_order_that_was_asked_for() {
        let all = [type_("a", "1"), type_("b", "2"), type_("c", "3")];
        let wanted = ["c".to_owned(), "a".to_owned()];
        let sizes = sizes(&all, &wanted, "fsn1", now()).unwrap();
        let names: Vec<_> = sizes.iter().map(|size| size.name.as_str()).collect();
        assert_eq!(names, ["c", "a"]);
        let first = &sizes[0];
        assert_eq!(first.offering.price, Some(3.0));
        assert_eq!(first.offering.memory, Quantity("3584Mi".to_owned()));
        assert_eq!(first.architecture, "arm64");
    }

    #[test]
    fn price_that_cannot_be_read_is_none_and_not_0() {
        for price in ["", "free", "NaN", "-1", "inf"] {
            let size = of(&[type_("a", price)], "a", "fsn1").unwrap();
            assert_eq!(size.offering.price, None, "{price}");
        }
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_what_can() {
        let all = [type_("a", "1"), type_("b", "2")];
        let told = of(&all, "z", "fsn1").unwrap_err().to_string();
        assert!(
            told.contains("types of the node pool; there are a, b"),
            "{told}"
        );
        let told = of(&all, "a", "moon").unwrap_err().to_string();
        assert!(told.contains("spec.hetzner.location"), "{told}");
    }

    #[test]
    fn size_that_ends_is_offered_until_then() {
        let ends = |at: &str| Deprecation {
            announced: None,
            unavailable_after: Some(at.to_owned()),
        };
        let mut soon = type_("a", "1");
        soon.deprecation = Some(ends("2026-08-01T00:00:00+00:00"));
        let size = of(&[soon.clone()], "a", "fsn1").unwrap();
        assert_eq!(size.ends.as_deref(), Some("2026-08-01T00:00:00+00:00"));
        soon.locations = vec![TypeLocation {
            name: "fsn1".to_owned(),
            available: Some(false),
            deprecation: Some(ends("2026-06-01T00:00:00+00:00")),
        }];
        let told = of(&[soon.clone()], "a", "fsn1").unwrap_err().to_string();
        assert!(told.contains("not made any more"), "{told}");
        soon.locations[0].deprecation = None;
        soon.deprecation = None;
        assert!(of(&[soon], "a", "fsn1").unwrap().exhausted);
    }
}
