//! A claim: work that has to stop although the process goes on to lead, because another process does it from now on.
//!
//! Invariant: what runs in the scope of a claim that is revoked passes no fence of [`super::Leadership`] any more; a claim
//! is [`Claim::is_idle`] only once everything that ran in its scope has ended, so whatever it was about to write is written
//! or never will be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

tokio::task_local! {
    static CURRENT: Claim;
}

/// Cheap to clone; clones are one claim.
#[derive(Clone, Debug, Default)]
pub struct Claim(Arc<AtomicBool>);

impl Claim {
    /// From now on nothing in its scope is written.
    pub fn revoke(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it was revoked.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Whether nobody but the caller has it: nothing runs in its scope.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Runs `work` in its scope. What `work` spawns is not in it, see [`Claim::current`].
    pub async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        // On the heap: reconciles are large futures.
        CURRENT.scope(self, Box::pin(work)).await
    }

    /// The claim in whose scope the caller runs, for what it spawns; none where there is none.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Whether the caller runs in the scope of a claim that was revoked.
    pub(super) fn is_current_revoked() -> bool {
        CURRENT.try_with(Self::is_revoked).unwrap_or(false)
    }
}
