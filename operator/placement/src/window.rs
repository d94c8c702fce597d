//! Whether silence can be believed: only where somebody listened for one whole window.
//!
//! A fresh leader, a watch that broke, and 15 s without an event from any node each begin the window anew.
//! Invariant: whoever did not listen has heard nothing, which is not silence. Times are the caller's monotonic
//! clock, as what has passed since any fixed moment. Source: clouds.md 11.3.

use std::time::Duration;

/// No event from any node for so long, and nothing is concluded.
pub const DEAF_AFTER: Duration = Duration::from_secs(15);
/// What is silent is seen silent once more after so long.
pub const SECOND_LOOK: Duration = Duration::from_secs(5);

/// What is known of the watch of one tenant cluster's Leases. Lives in memory: a restart begins anew.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Window {
    listening_since: Option<Duration>,
    last_event: Option<Duration>,
}

impl Window {
    /// The watch is established, or this replica has become the leader.
    pub fn on_listening(&mut self, now: Duration) {
        *self = Self {
            listening_since: Some(now),
            last_event: Some(now),
        };
    }

    /// The watch broke, or another replica leads.
    pub fn on_broken(&mut self) {
        *self = Self::default();
    }

    /// The Lease of some node changed.
    pub fn on_event(&mut self, now: Duration) {
        if self.is_deaf(now) && self.listening_since.is_some() {
            self.listening_since = Some(now);
        }
        self.last_event = Some(now);
    }

    /// Whether what is silent for `after` and a second look can be believed now.
    #[must_use]
    pub fn is_trusted(&self, after: Duration, now: Duration) -> bool {
        let heard = self.listening_since.map(|since| now.saturating_sub(since));
        heard.is_some_and(|heard| heard >= after + SECOND_LOOK) && !self.is_deaf(now)
    }

    fn is_deaf(&self, now: Duration) -> bool {
        let quiet = self.last_event.map(|last| now.saturating_sub(last));
        quiet.is_none_or(|quiet| quiet >= DEAF_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(25);

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn heard(window: &mut Window, times: std::ops::Range<u64>) {
        times.step_by(5).for_each(|n| window.on_event(s(n)));
    }

    #[test]
    fn a_fresh_leader_listens_for_one_window_first() {
        let mut window = Window::default();
        assert!(!window.is_trusted(AFTER, s(1000)));
        window.on_listening(s(1000));
        heard(&mut window, 1000..1031);
        assert!(!window.is_trusted(AFTER, s(1029)));
        assert!(window.is_trusted(AFTER, s(1030)));
    }

    #[test]
    fn who_hears_nobody_for_fifteen_seconds_begins_anew() {
        let mut window = Window::default();
        window.on_listening(s(0));
        heard(&mut window, 0..41);
        assert!(window.is_trusted(AFTER, s(54)));
        assert!(!window.is_trusted(AFTER, s(55)));
        heard(&mut window, 60..86);
        assert!(!window.is_trusted(AFTER, s(89)));
        window.on_event(s(90));
        assert!(window.is_trusted(AFTER, s(90)));
    }

    #[test]
    fn a_broken_watch_hears_nothing() {
        let mut window = Window::default();
        window.on_listening(s(0));
        heard(&mut window, 0..41);
        window.on_broken();
        window.on_event(s(41));
        assert!(!window.is_trusted(AFTER, s(80)));
    }
}
