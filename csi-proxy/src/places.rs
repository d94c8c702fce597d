//! Places: how many volumes and snapshots the tenant cluster may have, and who is just being made.
//!
//! Invariant: of calls that come at the same time no more get a place than there are, and who has one that
//! was not used gives it back, however the call ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::cache::Cache;
use crate::cache::state::State;
use crate::status::Status;

/// Who is being made, and is not in the cache yet; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Places {
    making: Arc<Mutex<BTreeSet<String>>>,
}

/// A place, until it is dropped: by then what it was for is in the cache, or is not made.
#[derive(Debug)]
pub struct Place {
    id: String,
    all: Places,
}

impl Places {
    /// A place for one more, if there are fewer than `most`; `count` says how many there are, given who is
    /// being made ([`count`]).
    #[must_use]
    pub fn take(
        &self,
        id: &str,
        most: u32,
        cache: &Cache,
        count: impl FnOnce(&State, &BTreeSet<String>) -> usize,
    ) -> Option<Place> {
        let mut making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let there = cache.read(|state| count(state, &making));
        if u32::try_from(there).is_ok_and(|there| there < most) {
            making.insert(id.to_owned());
            return Some(Place {
                id: id.to_owned(),
                all: self.clone(),
            });
        }
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let making = self.all.making.lock();
        making
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.id);
    }
}

/// How many there are, with those that are being made.
#[must_use]
pub fn count<T>(there: &BTreeMap<String, T>, making: &BTreeSet<String>) -> usize {
    let new = making.iter().filter(|id| !there.contains_key(*id));
    there.len() + new.count()
}

/// There is no place for one more of these.
#[must_use]
pub fn none_left(kind: &str, most: u32) -> Status {
    Status::resource_exhausted(format!(
        "this tenant cluster has as many {kind} as it may have ({most}): delete {kind} that are not needed, \
         or ask whoever runs the management cluster for more; it is tried again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_at_the_same_time_get_no_more_places_than_there_are() {
        let (places, cache) = (Places::default(), Cache::new("uid"));
        let take =
            |id: &str| places.take(id, 2, &cache, |state, making| count(&state.volumes, making));
        let one = take("a").unwrap();
        let _two = take("b").unwrap();
        assert!(take("c").is_none());
        drop(one);
        assert!(take("c").is_some(), "it was not made");
    }

    #[test]
    fn who_is_in_the_cache_already_counts_once() {
        let there = BTreeMap::from([("a".to_owned(), ()), ("b".to_owned(), ())]);
        let making = BTreeSet::from(["b".to_owned(), "c".to_owned()]);
        assert_eq!(count(&there, &making), 3);
    }
}
