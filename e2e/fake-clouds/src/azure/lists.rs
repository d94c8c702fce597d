//! Pages of lists, and the address of the next one.
//!
//! Invariant: an address of a page leads to what comes after the one that gave it.

use serde_json::{Value, json};

use super::refused::refused;
use crate::answer::Answer;
use crate::query::Query;

/// One page of so many. `here`: the address of the list; `endless`: it names a next one whatever there is.
pub(super) fn list(
    all: Vec<Value>,
    here: &str,
    query: &Query,
    size: usize,
    endless: bool,
) -> Answer {
    let from = match query.get("$skiptoken").map(str::parse::<usize>) {
        None => 0,
        Some(Ok(from)) => from,
        Some(Err(_)) => return refused(400, "InvalidSkipToken", "The skip token is invalid."),
    };
    let total = all.len();
    let page: Vec<_> = all.into_iter().skip(from).take(size).collect();
    let mut shown = json!({ "value": page });
    if from + size < total || endless {
        let next = from + size;
        shown["nextLink"] = json!(format!("{here}?api-version=2024-07-01&%24skiptoken={next}"));
    }
    Answer::ok(200, shown)
}
