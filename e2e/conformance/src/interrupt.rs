//! Ctrl-C and TERM: the tests are told to end, and what was made is removed all the same.
//!
//! Invariant: from the first signal on nothing new is begun; a second one waits for no test.

use std::future::pending;

use anyhow::{Context as _, Result};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// How often this process was told to end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Receiver<u32>);

impl Interrupt {
    /// From here on signals are counted, and end nothing by themselves.
    ///
    /// # Errors
    /// When the kernel refuses a handler.
    pub(crate) fn listen() -> Result<Self> {
        let refused = "signals cannot be waited for";
        let mut int = signal(SignalKind::interrupt()).context(refused)?;
        let mut term = signal(SignalKind::terminate()).context(refused)?;
        let (count, counted) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                let more = tokio::select! {
                    more = int.recv() => more,
                    more = term.recv() => more,
                };
                if more.is_none() {
                    return;
                }
                count.send_modify(|count| *count += 1);
            }
        });
        Ok(Self(counted))
    }

    /// Whether there was one.
    pub(crate) fn is_there(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Waits for so many.
    pub(crate) async fn reaches(&self, wanted: u32) {
        let mut count = self.0.clone();
        if count.wait_for(|count| *count >= wanted).await.is_err() {
            // Nobody tells any more.
            pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn signals_are_counted_and_end_nothing() {
        let interrupt = Interrupt::listen().unwrap();
        assert!(!interrupt.is_there());
        for count in 1..=2 {
            let this = rustix::process::getpid();
            rustix::process::kill_process(this, rustix::process::Signal::INT).unwrap();
            interrupt.reaches(count).await;
        }
        assert!(interrupt.is_there());
    }
}
