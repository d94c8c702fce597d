//! The time of a fake and of whoever asks it.
//!
//! Invariant: it passes only when somebody says so, so that hours are played in no time and no test depends on how fast
//! a machine is.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

/// A clock that many share.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    now: Arc<watch::Sender<Timestamp>>,
}

impl VirtualClock {
    /// Begins then.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            now: Arc::new(watch::Sender::new(now)),
        }
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        self.now.send_modify(|now| {
            *now = now.saturating_add(time).unwrap_or(Timestamp::MAX);
        });
    }

    /// Ends once so much time has passed.
    pub fn wait(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        let mut now = self.now.subscribe();
        let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        let then = self.now().saturating_add(time).unwrap_or(Timestamp::MAX);
        async move {
            let passed = now.wait_for(|now| *now >= then).await.is_ok();
            if !passed {
                // Nobody lets time pass any more.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Default for VirtualClock {
    /// Begins at a time that is no special one.
    fn default() -> Self {
        Self::new(Timestamp::from_second(1_790_000_000).unwrap_or(Timestamp::UNIX_EPOCH))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn time_passes_when_somebody_says_so() {
        let clock = VirtualClock::default();
        let mut wait = Box::pin(clock.wait(Duration::from_secs(100)));
        assert_eq!(wait.as_mut().now_or_never(), None);
        clock.advance(Duration::from_secs(99));
        assert_eq!(wait.as_mut().now_or_never(), None);
        clock.advance(Duration::from_secs(1));
        assert_eq!(wait.now_or_never(), Some(()));
    }
}
