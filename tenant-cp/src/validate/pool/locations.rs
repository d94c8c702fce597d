//! Validation of where the machines of a node pool are made.
//!
//! Invariant: what is wrong below a provider is said with the path of that provider, whichever form the pool
//! has, so that the same mistake reads the same in `spec.provider` and in `spec.locations`.

use api::node_pool::{Kubelet, Location, Provider};
use api::{NodePool, Reason};

use super::{kubelet, machine};
use crate::problem::Problem;
use crate::settings::providers::ProviderSettings;
use crate::text;

/// The most places of a pool; the same number stands in the CRD.
const MOST: usize = 16;
/// A name becomes no part of another one, but people read it in columns.
const LONGEST_NAME: usize = 40;
/// Of weights and of machines.
const NUMBERS: std::ops::RangeInclusive<i32> = 0..=1000;
/// Where the checks of one provider believe it to be.
const PROVIDER: &str = "spec.provider";

/// Everything that is wrong with them.
pub(super) fn check(pool: &NodePool, settings: &ProviderSettings, problems: &mut Vec<Problem>) {
    let spec = &pool.spec;
    let malformed =
        |field: String, message: String| Problem::new(field, Reason::LocationsMalformed, message);
    match (&spec.provider, spec.locations.as_slice()) {
        (None, []) => {
            let message = "name exactly one provider, such as kubevirt: {}";
            problems.push(Problem::new(PROVIDER, Reason::ProviderMissing, message));
        }
        (Some(_), [_, ..]) => problems.push(malformed(
            "spec.locations".to_owned(),
            "provider is the short form of one location: set exactly one of the two".to_owned(),
        )),
        (None, locations) if locations.iter().all(|at| at.weight <= 0) => problems.push(malformed(
            "spec.locations".to_owned(),
            "the weight of every location is 0, so no machine could be made anywhere: give one of them 1 or more"
                .to_owned(),
        )),
        (None, locations) if locations.len() > MOST => problems.push(malformed(
            "spec.locations".to_owned(),
            format!("{} locations are more than {MOST}: make another node pool of some", locations.len()),
        )),
        _ => {}
    }
    for (number, location) in spec.locations.iter().enumerate() {
        // By name, as ever, but for a name that is no name, or another one's.
        let field = |field: &str| match field {
            "name" => format!("spec.locations[{number}].name"),
            _ => format!("spec.locations[{}].{field}", location.name),
        };
        let found = itself(location, &spec.locations[..number]);
        problems.extend(found.map(|(name, message)| malformed(field(name), message)));
    }
    for (field, provider) in spec.providers() {
        let mut found = Vec::new();
        machine::check(provider, settings, &mut found);
        sizes(&spec.kubelet, provider, &mut found);
        let found = found
            .into_iter()
            .map(|problem| problem.moved(PROVIDER, &field));
        problems.extend(found);
    }
}

fn sizes(kubelet: &Kubelet, provider: &Provider, problems: &mut Vec<Problem>) {
    if let Some(machine) = &provider.kubevirt {
        kubelet::check_size(kubelet, machine, problems);
    }
}

/// What is wrong with one of them, by the field.
fn itself(location: &Location, before: &[Location]) -> Option<(&'static str, String)> {
    let name = &location.name;
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !text::is_label(name) || !begins || name.len() > LONGEST_NAME {
        let message = format!(
            "\"{name}\" cannot be the name of a location: use up to {LONGEST_NAME} lower-case letters, digits \
             and -, beginning with a letter"
        );
        return Some(("name", message));
    }
    if before.iter().any(|other| other.name == *name) {
        return Some((
            "name",
            format!("{name} is named twice: choose another name"),
        ));
    }
    let numbers = [("weight", Some(location.weight)), ("max", location.max)];
    let mut wrong = numbers
        .into_iter()
        .filter_map(|(field, number)| Some((field, number?)))
        .filter(|(_, number)| !NUMBERS.contains(number));
    let (field, number) = wrong.next()?;
    Some((field, format!("{number} is out of range: choose 0 to 1000")))
}
