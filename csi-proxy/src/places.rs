//! Places: how many volumes and snapshots the tenant cluster may have, and who is just being made.
//!
//! Invariant: of calls that come at the same time no more get a place than there are, and who has one that
//! was not used gives it back, however the call ends. One whose call ended without an answer of the API may be made
//! yet, and has its place for as long as that is so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::cache::Cache;
use crate::cache::state::State;
use crate::error::Error;
use crate::status::Status;

/// A request that nobody answered is carried out within this, or never: twice as long as an API server works on
/// one (kube-apiserver `--request-timeout`, 60 s by default).
const DOUBT: Duration = Duration::from_secs(120);

/// Who is being made, and is not in the cache yet; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Places {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    making: BTreeSet<String>,
    /// Who may be made yet, although nobody works at it, and until when.
    doubted: BTreeMap<String, Instant>,
}

/// A place, until it is dropped: by then what it was for is in the cache, or is not made, or nobody knows.
#[derive(Debug)]
pub struct Place {
    id: String,
    all: Places,
    certain: bool,
}

impl Places {
    /// A place for one more, if there are fewer than `most`; `count` says how many there are, given who may be
    /// made just now ([`count`]).
    #[must_use]
    pub fn take(
        &self,
        id: &str,
        most: u32,
        cache: &Cache,
        count: impl FnOnce(&State, &BTreeSet<String>) -> usize,
    ) -> Option<Place> {
        let mut inner = self.lock();
        let now = Instant::now();
        inner.doubted.retain(|_, until| now < *until);
        let doubted = inner.doubted.keys().filter(|other| *other != id);
        let making = inner.making.iter().chain(doubted).cloned().collect();
        let there = cache.read(|state| count(state, &making));
        if u32::try_from(there).is_ok_and(|there| there < most) {
            inner.making.insert(id.to_owned());
            return Some(Place {
                id: id.to_owned(),
                all: self.clone(),
                certain: false,
            });
        }
        None
    }

    /// Whether this one may be there although it is not in the cache: the API has to be asked. Of any other the
    /// cache knows, so thousands that have no place cost no request.
    #[must_use]
    pub fn is_doubted(&self, id: &str) -> bool {
        let until = self.lock().doubted.get(id).copied();
        until.is_some_and(|until| Instant::now() < until)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The API answered: it is made, or refused for good. Without that, it is doubted from the end of the call on.
    pub fn judge<T>(&mut self, made: &Result<T, Error>) {
        self.certain = match made {
            Ok(_) => true,
            Err(error) => error.code().is_some_and(|code| code < 500),
        };
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.all.lock();
        inner.making.remove(&self.id);
        match self.certain {
            true => inner.doubted.remove(&self.id),
            false => inner
                .doubted
                .insert(self.id.clone(), Instant::now() + DOUBT),
        };
    }
}

/// How many there are, with those that may be made just now.
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

    fn take(places: &Places, cache: &Cache, id: &str) -> Option<Place> {
        places.take(id, 2, cache, |state, making| count(&state.volumes, making))
    }

    fn answer(code: u16) -> Result<(), Error> {
        let status = kube::core::Status::failure("", "").with_code(code);
        let source = kube::Error::Api(status.boxed());
        Err(Error::new("create", "PersistentVolumeClaim", "a", source))
    }

    #[tokio::test(start_paused = true)]
    async fn calls_at_the_same_time_get_no_more_places_than_there_are() {
        let (places, cache) = (Places::default(), Cache::new("uid"));
        let mut one = take(&places, &cache, "a").unwrap();
        let _two = take(&places, &cache, "b").unwrap();
        assert!(take(&places, &cache, "c").is_none());
        one.judge(&answer(403));
        drop(one);
        assert!(take(&places, &cache, "c").is_some(), "it was not made");
    }

    #[tokio::test(start_paused = true)]
    async fn place_of_one_that_nobody_answered_stays_taken_while_it_may_be_made() {
        let (places, cache) = (Places::default(), Cache::new("uid"));
        // Whoever called gave up, or the API failed.
        drop(take(&places, &cache, "a").unwrap());
        let mut other = take(&places, &cache, "b").unwrap();
        other.judge(&answer(504));
        drop(other);
        assert!(take(&places, &cache, "c").is_none(), "both may be there");
        assert!(places.is_doubted("a") && places.is_doubted("b") && !places.is_doubted("c"));
        // A repeat has the place that it had.
        let mut again = take(&places, &cache, "a").unwrap();
        again.judge(&Ok(()));
        drop(again);
        assert!(!places.is_doubted("a"));
        tokio::time::advance(DOUBT).await;
        assert!(!places.is_doubted("b"));
        assert!(take(&places, &cache, "c").is_some());
    }

    #[test]
    fn who_is_in_the_cache_already_counts_once() {
        let there = BTreeMap::from([("a".to_owned(), ()), ("b".to_owned(), ())]);
        let making = BTreeSet::from(["b".to_owned(), "c".to_owned()]);
        assert_eq!(count(&there, &making), 3);
    }
}
