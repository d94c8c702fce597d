//! Pages of lists: 500 entries at most, filtered, and the warning where a list is partial.
//!
//! Invariant: a token of a page is only ever one that a page before it gave.

use serde_json::{Value, json};

use super::filter::chooses;
use super::refused::invalid;
use crate::answer::Answer;
use crate::query::Query;

/// Most entries of a page, and those where nobody says.
const MOST: usize = 500;

/// One page. `endless`: it names a next one whatever there is; `partial`: a part could not be asked.
pub(super) fn list(all: Vec<Value>, query: &Query, endless: bool, partial: bool) -> Answer {
    let mut chosen = all;
    if let Some(filter) = query.get("filter") {
        if chooses(filter, &Value::Null).is_none() {
            return invalid("filter", "Invalid list filter expression.");
        }
        chosen.retain(|one| chooses(filter, one) == Some(true));
    }
    let size = query.get("maxResults").map(str::parse::<usize>);
    let size = match size {
        None => MOST,
        Some(Ok(size)) if size <= MOST => size.max(1),
        Some(_) => return invalid("maxResults", "must be in [0, 500]"),
    };
    let from = match query.get("pageToken") {
        None => 0,
        Some(token) => match token.strip_prefix("from-").map(str::parse::<usize>) {
            Some(Ok(from)) => from,
            _ => return invalid("pageToken", "The page token is invalid."),
        },
    };
    let total = chosen.len();
    let items: Vec<_> = chosen.into_iter().skip(from).take(size).collect();
    let mut shown = json!({ "kind": "compute#list" });
    if partial {
        let warning = "The zone could not be reached.";
        shown["warning"] = json!({ "code": "UNREACHABLE", "message": warning });
    } else if !items.is_empty() {
        // An empty list has no items.
        shown["items"] = Value::Array(items);
    }
    if from + size < total || endless {
        shown["nextPageToken"] = json!(format!("from-{}", from + size));
    }
    Answer::ok(200, shown)
}
