//! Pages of lists: 25 entries, 50 at most, and what stands beside them.
//!
//! Invariant: a page that is beyond the last one is empty, and no error.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::query::Query;

/// Entries of a page, where nobody says.
const USUAL: usize = 25;
/// Most entries of a page.
const MOST: usize = 50;

/// One page of a list. `endless`: it names a next one whatever there is.
pub(super) fn page(key: &str, all: Vec<Value>, query: &Query, endless: bool) -> Answer {
    let number = |name: &str, usual: usize| match query.get(name) {
        None => Some(usual),
        Some(text) => text.parse().ok().filter(|number| *number > 0),
    };
    let Some(page) = number("page", 1) else {
        return Answer::invalid("page", "is not a number above 0");
    };
    let Some(size) = number("per_page", USUAL) else {
        return Answer::invalid("per_page", "is not a number above 0");
    };
    let size = size.min(MOST);
    let total = all.len();
    let last = total.div_ceil(size).max(1);
    let of_page: Vec<_> = all.into_iter().skip((page - 1) * size).take(size).collect();
    let next = (page < last || endless).then_some(page + 1);
    Answer::ok(
        200,
        json!({ key: of_page, "meta": { "pagination": {
            "page": page, "per_page": size, "previous_page": (page > 1).then(|| page - 1), "next_page": next,
            "last_page": last, "total_entries": total,
        } } }),
    )
}
