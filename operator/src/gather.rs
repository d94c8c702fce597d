//! Thins a stream out: of what comes again and again, the first at once and the rest together.
//!
//! Invariant: the last thing that came is never lost; a key is given at most once per period.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use tokio::time::Instant;

/// Gives each key at once, and then no more often than once per period.
pub fn gather<K>(
    keys: impl Stream<Item = K> + Send + Unpin,
    period: Duration,
) -> impl Stream<Item = K> + Send
where
    K: Eq + Hash + Clone + Send,
{
    let state = (keys.fuse(), Due::new(period));
    stream::unfold(state, |(mut keys, mut due)| async move {
        loop {
            if let Some(key) = due.take(Instant::now()) {
                return Some((key, (keys, due)));
            }
            let next = due.next();
            let wait = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                key = keys.next() => due.came(key?, Instant::now()),
                () = wait => {}
            }
        }
    })
}

/// Which keys are due, and when. Pure; time comes from the caller.
#[derive(Debug)]
struct Due<K> {
    period: Duration,
    /// When it may be given again, and whether it came since.
    keys: HashMap<K, (Instant, bool)>,
}

impl<K: Eq + Hash + Clone> Due<K> {
    fn new(period: Duration) -> Self {
        Self {
            period,
            keys: HashMap::new(),
        }
    }

    fn came(&mut self, key: K, now: Instant) {
        self.keys.entry(key).or_insert((now, true)).1 = true;
    }

    /// The next thing that anything has to be done about.
    fn next(&self) -> Option<Instant> {
        self.keys.values().map(|(at, _)| *at).min()
    }

    fn take(&mut self, now: Instant) -> Option<K> {
        // What came no more while it waited is forgotten.
        self.keys.retain(|_, (at, came)| *came || *at > now);
        let mut due = self
            .keys
            .iter()
            .filter(|(_, (at, came))| *came && *at <= now);
        let key = due.next()?.0.clone();
        self.keys.insert(key.clone(), (now + self.period, false));
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_comes_at_once_and_the_rest_together_after_the_period() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let mut due = Due::new(Duration::from_millis(500));
        assert_eq!((due.take(at(0)), due.next()), (None, None));
        due.came("a", at(0));
        assert_eq!(due.take(at(0)), Some("a"));
        assert_eq!(due.take(at(0)), None);
        for millis in [1, 100, 499] {
            due.came("a", at(millis));
            assert_eq!(due.take(at(millis)), None);
        }
        due.came("b", at(499));
        assert_eq!(due.take(at(499)), Some("b"));
        assert_eq!(due.next(), Some(at(500)));
        assert_eq!(due.take(at(500)), Some("a"));
        assert_eq!(due.take(at(999)), None);
        assert_eq!(due.next(), Some(at(1000)));
        assert_eq!((due.take(at(1000)), due.next()), (None, None));
    }
}
