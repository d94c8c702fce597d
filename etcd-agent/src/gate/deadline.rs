//! A limit on how long the volume may take.
//!
//! Invariant: whoever asks has an answer in time. A volume that hangs cannot be interrupted, so its
//! reader is left behind, and ends with the process.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What `work` returns; none if it is not done within `limit`.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Nobody may be waiting any more.
        let _ = sender.send(work());
    });
    receiver.recv_timeout(limit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_given_up() {
        let (hold, held) = mpsc::channel::<()>();
        let given_up = within(Duration::ZERO, move || held.recv().is_ok());
        assert_eq!(given_up, None);
        drop(hold);
    }

    #[test]
    fn what_ends_is_returned() {
        assert_eq!(within(Duration::from_secs(600), || 7), Some(7));
    }
}
