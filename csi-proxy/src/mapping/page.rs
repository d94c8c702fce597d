//! Pages of lists.
//!
//! Invariant: pure; the token is the identifier of the last object of the page before, so what comes
//! and goes meanwhile makes nobody miss anything else.

use crate::cache::objects::{Snapshot, Volume};
use crate::names;
use crate::status::Status;

/// What lists are made of.
pub trait Listed {
    /// Its identifier, by which lists are sorted.
    fn id(&self) -> &str;
    /// Whether one of these could be called so.
    fn is_id(id: &str) -> bool;
}

impl Listed for Volume {
    fn id(&self) -> &str {
        &self.id
    }

    fn is_id(id: &str) -> bool {
        names::is_volume(id)
    }
}

impl Listed for Snapshot {
    fn id(&self) -> &str {
        &self.id
    }

    fn is_id(id: &str) -> bool {
        names::is_snapshot(id)
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<'a, T> {
    /// What is on it.
    pub items: &'a [T],
    /// Where the next one begins; empty when there is none.
    pub next: String,
}

/// A page of what is sorted by identifier.
///
/// # Errors
/// ABORTED for a token that never was one; INVALID_ARGUMENT for a page of less than nothing.
pub fn page<'a, T: Listed>(all: &'a [T], most: i32, token: &str) -> Result<Page<'a, T>, Status> {
    let Ok(most) = usize::try_from(most) else {
        return Err(Status::invalid_argument(
            "max_entries is 0, for all, or more",
        ));
    };
    if !token.is_empty() && !T::is_id(token) {
        return Err(Status::aborted(format!(
            "{token:?} is no token of a list; begin without one"
        )));
    }
    let left = &all[all.partition_point(|item| item.id() <= token)..];
    let items = match most {
        0 => left,
        most => &left[..most.min(left.len())],
    };
    let last = items.last().filter(|_| items.len() < left.len());
    Ok(Page {
        items,
        next: last.map(|item| item.id().to_owned()).unwrap_or_default(),
    })
}
