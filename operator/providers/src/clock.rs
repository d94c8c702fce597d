//! The time, as whoever asks a cloud's API is told it.
//!
//! Invariant: nothing else of a provider by HTTP reads a clock or waits, so tests play hours in no time.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;

/// Says what time it is, and waits.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Ends once so much time has passed.
    fn wait(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The machine's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn wait(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(time))
    }
}
