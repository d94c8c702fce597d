//! Turns SIGTERM and SIGINT into a value that every task can await.
//!
//! Invariant: once triggered it stays triggered; a process that does not end within its grace
//! period, or gets a second signal, is ended.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// A handle on the process's end. Clones share one state.
#[derive(Clone, Debug)]
pub struct Shutdown {
    triggered: watch::Sender<bool>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self {
            triggered: watch::Sender::new(false),
        }
    }
}

impl Shutdown {
    /// A handle that only [`Shutdown::trigger`] triggers: for tests and for parts of a process.
    pub fn new() -> Self {
        Self::default()
    }

    /// A handle triggered by SIGTERM or SIGINT. `grace` after the signal, or at a second signal,
    /// the process exits with status 1, whatever still runs; keep it below the pod's
    /// `terminationGracePeriodSeconds`.
    ///
    /// # Errors
    /// When the signal handlers cannot be installed.
    pub fn on_signals(grace: Duration) -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shutdown = Self::new();
        let handle = shutdown.clone();
        tokio::spawn(async move {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            tracing::info!(
                signal = name,
                grace_seconds = grace.as_secs(),
                "stopping on {name}"
            );
            handle.trigger();
            tokio::select! {
                () = tokio::time::sleep(grace) => {
                    tracing::error!("did not stop within the grace period, exiting");
                }
                _ = terminate.recv() => tracing::warn!("second SIGTERM, exiting"),
                _ = interrupt.recv() => tracing::warn!("second SIGINT, exiting"),
            }
            std::process::exit(1);
        });
        Ok(shutdown)
    }

    /// Starts the shutdown. More calls change nothing.
    pub fn trigger(&self) {
        self.triggered.send_replace(true);
    }

    /// True once the shutdown has started.
    pub fn is_triggered(&self) -> bool {
        *self.triggered.borrow()
    }

    /// Resolves once the shutdown has started. The future owns what it needs.
    pub fn triggered(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut receiver = self.triggered.subscribe();
        // The sender is kept with the future, so that waiting cannot fail.
        let sender = self.triggered.clone();
        async move {
            let _ = receiver.wait_for(|triggered| *triggered).await;
            drop(sender);
        }
    }

    /// Runs `work` until it ends (`Some`) or the shutdown starts (`None`, and `work` is dropped).
    pub async fn until<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.triggered() => None,
            value = work => Some(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_waiter_wakes_also_one_that_comes_late() {
        let shutdown = Shutdown::new();
        let early = tokio::spawn(shutdown.triggered());
        assert!(!shutdown.is_triggered());
        shutdown.trigger();
        early.await.expect("the waiter ends");
        shutdown.triggered().await;
        assert!(shutdown.is_triggered());
    }

    #[tokio::test]
    async fn work_is_dropped_when_the_shutdown_starts() {
        let shutdown = Shutdown::new();
        assert_eq!(shutdown.until(async { 7 }).await, Some(7));
        shutdown.trigger();
        assert_eq!(shutdown.until(std::future::pending::<u8>()).await, None);
    }

    #[tokio::test]
    async fn a_waiter_outlives_the_handle_it_came_from() {
        let waiter = Shutdown::new().triggered();
        let waited = tokio::time::timeout(Duration::from_millis(1), waiter).await;
        assert!(waited.is_err(), "nobody triggered it");
    }
}
