//! Panics that end one piece of work and not the process.
//!
//! What users and tenants send goes through parsers that are not ours. A panic in one of them would end the
//! process, start it anew, and end it again at the same bytes: one tenant would take all others down. So the
//! work that is done for one object or one connection is [`contained`]. Everywhere else a panic still ends
//! the process ([`abort_unless_contained`]): half of a program that goes on is worse than one that starts anew.
//!
//! Invariant: a piece of work that panicked is never polled again, and nothing of the panic's text, which may
//! hold what was parsed, gets into an error; the log has where it was.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use kit_client::errors::{Class, Classify};

/// A piece of work panicked.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("it panicked, which is a mistake in Covey; its log says where: please report that")]
pub struct Panicked;

impl Classify for Panicked {
    fn class(&self) -> Class {
        Class::Bug
    }
}

thread_local! {
    /// Whether this thread is in contained work now.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// While it is there, this thread is in contained work.
struct Inside {
    before: bool,
}

impl Inside {
    fn enter() -> Self {
        let before = CONTAINED.replace(true);
        Self { before }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        CONTAINED.set(self.before);
    }
}

/// Does work whose panic is its own failure. Tasks that it spawns are not part of it.
///
/// # Errors
/// [`Panicked`].
pub async fn contained<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut work = pin!(work);
    std::future::poll_fn(move |cx| poll(work.as_mut(), cx)).await
}

fn poll<T>(
    work: Pin<&mut impl Future<Output = T>>,
    cx: &mut Context<'_>,
) -> Poll<Result<T, Panicked>> {
    let _inside = Inside::enter();
    // What it shares with others is behind locks that are taken whether or not they are poisoned, and is
    // valid after any statement.
    match catch_unwind(AssertUnwindSafe(|| work.poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(_) => Poll::Ready(Err(Panicked)),
    }
}

/// From now on a panic outside of [`contained`] work ends the process, after whatever hook there is has run.
/// For binaries; called once, after [`crate::telemetry::init`].
pub fn abort_unless_contained() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        hook(panic);
        if !CONTAINED.get() {
            std::process::abort();
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_failure_and_says_nothing_of_what_was_parsed() {
        let parses = async |text: &str| {
            let _ = tokio::spawn(async {}).await;
            assert!(text.is_empty(), "cannot read {text}");
            text.len()
        };
        assert_eq!(contained(parses("")).await, Ok(0));
        assert!(!CONTAINED.get());
        let error = contained(parses("a password")).await.unwrap_err();
        assert!(!CONTAINED.get());
        assert_eq!(error.class(), Class::Bug);
        assert!(!kit_client::errors::chain(&error).contains("password"));
    }

    #[tokio::test]
    async fn what_the_work_held_is_given_back() {
        let held = Arc::new(());
        let mine = Arc::clone(&held);
        let work = async move {
            let _mine = mine;
            let _ = tokio::spawn(async {}).await;
            panic!("now");
        };
        assert_eq!(contained(work).await, Err(Panicked));
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
