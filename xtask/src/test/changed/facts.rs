//! What a selection of tests depends on.
//!
//! Invariant: plain values; `git.rs` reads them, and tests make them up.

use crate::workspace::Metadata;

/// One file that changed, came or went.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changed {
    /// From the top of the repository.
    pub(crate) path: String,
    /// Rust as it was; empty when it was not there.
    pub(crate) before: String,
    /// Rust as it is; empty when it is gone.
    pub(crate) after: String,
}

/// A test by its crate and its name with modules, as in `operator` and `crash::every_write`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct TestName {
    /// As nextest's binary id: `operator::t1`, `suites::workers`, or the crate alone for its library.
    pub(crate) binary: String,
    /// With its modules.
    pub(crate) name: String,
}

impl TestName {
    /// Its crate.
    pub(crate) fn krate(&self) -> &str {
        self.binary.split("::").next().unwrap_or_default()
    }
}

/// What the last kept run says.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastRun {
    /// Tests that failed, or passed only at a second try.
    pub(crate) unsteady: Vec<TestName>,
}

/// All that a selection depends on.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The commit that was compared with.
    pub(crate) base: String,
    pub(crate) changed: Vec<Changed>,
    pub(crate) metadata: Metadata,
    /// Path and text of every file in the folder of suites.
    pub(crate) suites: Vec<(String, String)>,
    pub(crate) last: LastRun,
}
