//! Quantities: amounts compared by value, and the amounts of one container.
//!
//! Invariant: exact; an amount that does not fit is refused, never rounded into another one.

use std::collections::BTreeMap;

use api::tenant_cluster::Resources;
use api::{Quantity, Reason};
use kit_objects::quantity::billionths;

use crate::problem::Problem;

/// Below this a container of ours cannot start at all; mostly somebody wrote `512m` for `512Mi`.
const LEAST_MEMORY: (&str, i128) = ("16Mi", (16 << 20) * NANOS);
const NANOS: i128 = 1_000_000_000;

/// The amount in billionths; none if it is not one, has a sign, or is beyond all measure.
pub(crate) fn nanos(text: &str) -> Option<i128> {
    (!text.starts_with(['+', '-'])).then(|| billionths(text))?
}

/// The amount in whole bytes; none if it is not one, or no whole number of them.
#[must_use]
pub fn bytes(text: &str) -> Option<u64> {
    let nanos = nanos(text)?;
    (nanos % NANOS == 0).then(|| u64::try_from(nanos / NANOS).ok())?
}

/// What is wrong with the resources under `field` (`spec.etcd.resources`).
pub(super) fn check_resources(field: &str, resources: &Resources, problems: &mut Vec<Problem>) {
    for (kind, amounts) in [
        ("requests", &resources.requests),
        ("limits", &resources.limits),
    ] {
        for (name, amount) in amounts {
            let path = format!("{field}.{kind}[{name}]");
            if let Some(problem) = check_amount(&path, name, amount, kind == "limits") {
                problems.push(problem);
            }
        }
    }
    for (name, request) in &resources.requests {
        let Some(limit) = resources.limits.get(name) else {
            continue;
        };
        if let (Some(requested), Some(limited)) = (nanos(&request.0), nanos(&limit.0))
            && requested > limited
        {
            problems.push(Problem::new(
                format!("{field}.requests[{name}]"),
                Reason::RequestAboveLimit,
                format!(
                    "the request {} is above the limit {}: lower the request or raise the limit",
                    request.0, limit.0
                ),
            ));
        }
    }
}

fn check_amount(path: &str, name: &str, amount: &Quantity, limit: bool) -> Option<Problem> {
    let text = &amount.0;
    if !matches!(name, "cpu" | "memory" | "ephemeral-storage") {
        return Some(Problem::new(
            path,
            Reason::ResourceUnknown,
            format!("\"{name}\" cannot be set here: use cpu, memory or ephemeral-storage"),
        ));
    }
    let Some(value) = nanos(text) else {
        return Some(Problem::new(
            path,
            Reason::QuantityMalformed,
            malformed(text),
        ));
    };
    if name == "memory" && value < LEAST_MEMORY.1 {
        return Some(Problem::new(
            path,
            Reason::MemoryTooSmall,
            format!(
                "{text} is less than {}, with which nothing starts: mebibytes are written Mi, as \
                 in 512Mi (m means thousandths)",
                LEAST_MEMORY.0
            ),
        ));
    }
    (limit && value == 0).then(|| {
        Problem::new(
            path,
            Reason::LimitZero,
            "a limit of 0 lets nothing run: raise it or remove it",
        )
    })
}

/// Sentence for a text that is not an amount.
pub(super) fn malformed(text: &str) -> String {
    format!(
        "\"{text}\" is not a quantity: write a number with an optional suffix, such as 500m, \
             2 or 1Gi"
    )
}

/// Limits with one of memory: the user's, else `default`, or twice the request where that is more.
pub(crate) fn with_memory_limit(
    mut limits: BTreeMap<String, String>,
    requests: &BTreeMap<String, String>,
    default: &str,
) -> BTreeMap<String, String> {
    const MEMORY: &str = "memory";
    let most = nanos(default).filter(|most| *most > 0);
    if let (Some(most), false) = (most, limits.contains_key(MEMORY)) {
        let requested = requests.get(MEMORY).and_then(|amount| nanos(amount));
        let twice = requested.map_or(0, |amount| amount.saturating_mul(2));
        let limit = match twice > most {
            // Whole bytes, so that no server rounds them.
            true => (twice / NANOS).to_string(),
            false => default.to_owned(),
        };
        limits.insert(MEMORY.to_owned(), limit);
    }
    limits
}

/// Requests with one of `name` that is no less than `least`, but for a limit below that: the API refuses a
/// request above the limit.
pub(crate) fn with_at_least(
    name: &str,
    least: &str,
    requests: &BTreeMap<String, String>,
    limits: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let asked = requests.get(name).map(String::as_str);
    let wanted = asked
        .filter(|asked| nanos(asked) > nanos(least))
        .unwrap_or(least);
    let limit = limits.get(name).map(String::as_str);
    let wanted = limit
        .filter(|limit| nanos(limit) < nanos(wanted))
        .unwrap_or(wanted);
    let mut requests = requests.clone();
    requests.insert(name.to_owned(), wanted.to_owned());
    requests
}

/// Requests and limits in force: the user's, and for each resource without a request the
/// operator's default, lowered to the user's limit (the API refuses a request above the limit).
pub(crate) fn in_force(
    resources: &Resources,
    defaults: &BTreeMap<String, String>,
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let texts = |amounts: &BTreeMap<String, Quantity>| -> BTreeMap<String, String> {
        amounts
            .iter()
            .map(|(name, amount)| (name.clone(), amount.0.clone()))
            .collect()
    };
    let (mut requests, limits) = (texts(&resources.requests), texts(&resources.limits));
    for (name, default) in defaults {
        let limit = limits
            .get(name)
            .filter(|limit| nanos(limit) < nanos(default));
        requests
            .entry(name.clone())
            .or_insert_with(|| limit.unwrap_or(default).clone());
    }
    (requests, limits)
}
