//! Heartbeats of kubelets whose machines are off (the Leases that they renew), and for how long their
//! volumes have been waited for. By this process's own clock: nodes' clocks may be wrong.
//!
//! Invariant: a Lease that was renewed since it was last read is never called silent; forgetting
//! everything (a restart) only makes things later.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A kubelet renews its Lease every 10 s, with 4 % of chance in it
/// (`pkg/kubelet/kubelet.go`: a quarter of `nodeLeaseDurationSeconds`, `component-helpers`' jitter).
const SILENCE: Duration = Duration::from_secs(15);
/// How long a Node whose machine is gone stays for its volumes: as long as the attach-detach
/// controller would wait by itself (`maxWaitForUnmountDuration`).
const VOLUMES: Duration = Duration::from_secs(360);
/// What is remembered for longer concerns nobody any more.
const FORGET: Duration = Duration::from_secs(3600);

/// Shared by all reconciles.
#[derive(Debug, Default)]
pub struct Heartbeats {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// By UID of the Node: the Lease's version, and since when it has been that.
    leases: HashMap<String, (String, Instant)>,
    /// By UID of the Node: since when volumes are waited for.
    gone: HashMap<String, Instant>,
}

impl Heartbeats {
    /// Notes the version that the Lease of a node has now. None when it has had that for so long
    /// that its kubelet is silent, else when to look again.
    pub fn observe(&self, uid: &str, version: &str, now: Instant) -> Option<Duration> {
        let mut inner = self.lock();
        inner
            .leases
            .retain(|_, (_, since)| now.duration_since(*since) < FORGET);
        let fresh = || (version.to_owned(), now);
        let (known, since) = inner.leases.entry(uid.to_owned()).or_insert_with(fresh);
        if known != version {
            (*known, *since) = fresh();
        }
        left(SILENCE, *since, now)
    }

    /// How long volumes of a node are waited for yet, from the first call on; none when it is over.
    pub fn wait(&self, uid: &str, now: Instant) -> Option<Duration> {
        let mut inner = self.lock();
        inner
            .gone
            .retain(|_, since| now.duration_since(*since) < FORGET);
        let since = *inner.gone.entry(uid.to_owned()).or_insert(now);
        left(VOLUMES, since, now)
    }

    /// Whether volumes of a node have been waited for long enough.
    #[must_use]
    pub fn waited(&self, uid: &str, now: Instant) -> bool {
        let inner = self.lock();
        let since = inner.gone.get(uid);
        since.is_some_and(|since| left(VOLUMES, *since, now).is_none())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn left(whole: Duration, since: Instant, now: Instant) -> Option<Duration> {
    let left = whole.saturating_sub(now.duration_since(since));
    (!left.is_zero()).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_lease_is_silent_once_it_has_stayed_the_same_for_long_enough() {
        let (heartbeats, begin) = (Heartbeats::default(), Instant::now());
        let observe = |version, at| heartbeats.observe("u", version, begin + seconds(at));
        assert_eq!(observe("1", 0), Some(SILENCE));
        assert_eq!(observe("1", 10), Some(seconds(5)));
        assert_eq!(observe("2", 14), Some(SILENCE), "it was renewed");
        assert_eq!(observe("2", 28), Some(seconds(1)));
        assert_eq!(observe("2", 29), None);
        assert_eq!(
            heartbeats.observe("v", "2", begin + seconds(29)),
            Some(SILENCE)
        );
    }

    #[test]
    fn volumes_are_waited_for_from_the_first_call_on() {
        let (heartbeats, begin) = (Heartbeats::default(), Instant::now());
        assert!(!heartbeats.waited("u", begin));
        assert_eq!(heartbeats.wait("u", begin), Some(VOLUMES));
        assert_eq!(
            heartbeats.wait("u", begin + seconds(300)),
            Some(seconds(60))
        );
        assert!(!heartbeats.waited("u", begin + seconds(359)));
        assert!(heartbeats.waited("u", begin + seconds(360)));
        assert_eq!(heartbeats.wait("u", begin + seconds(360)), None);
    }
}
