//! Shake mode: a test again and again, with busy loops beside and answers that come late.
//!
//! Invariant: which request is delayed by how much follows from the seed alone, and the seed is always
//! said, so a failure can be asked for again by `COVEY_SHAKE_SEED`.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::invocation::{self, Ended};
use super::session::Session;
use super::{signals, tiers};

/// So often each test is run.
pub(crate) const TIMES: usize = 10;
/// So many busy loops are beside.
pub(crate) const BUSY: usize = 2;
/// By it testkit delays requests and events of watches by 0 to 300 ms.
const SEED: &str = "COVEY_SHAKE_SEED";

/// What delays follow from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Seed(u64);

impl Seed {
    /// The one in the environment, or a new one.
    pub(crate) fn draw() -> Self {
        let given = std::env::var(SEED).ok();
        Self::of(given.as_deref())
    }

    fn of(given: Option<&str>) -> Self {
        let given = given.and_then(|text| text.trim().parse().ok());
        Self(given.unwrap_or_else(|| RandomState::new().build_hasher().finish()))
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SEED}={}", self.0)
    }
}

/// Runs the tests of `filter`; the first failure of one of them is one too many.
pub(crate) fn run(
    session: &Session<'_>,
    filter: &str,
    times: usize,
    seed: Seed,
    servers: &Path,
) -> Result<()> {
    let times = times.to_string();
    let seed = seed.0.to_string();
    // What a change reaches may be no test that is run here; a name that is asked for is one.
    let none = match session.is_changed() {
        true => "pass",
        false => "fail",
    };
    let arguments = ["--profile", "t1", "--retries", "0", "--no-tests", none];
    let arguments = [&arguments[..], &["--stress-count", &times]].concat();
    let mut command = session.nextest(&[&arguments[..], &["-E", filter]].concat());
    command
        .envs(tiers::shaken_environment(servers))
        .env(SEED, OsStr::new(&seed));
    let status = signals::status(&mut command).context("cargo-nextest cannot be run")?;
    match (invocation::ended(status.code()), status.success()) {
        (_, true) => Ok(()),
        (Ended::Ran, false) => bail!("a test failed"),
        (Ended::NoTests, false) => bail!("no test of T1 has such a name"),
        (Ended::Broken, false) => bail!("cargo nextest: {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_that_is_given_is_taken_and_others_differ() {
        assert_eq!(Seed::of(Some("42")), Seed(42));
        assert_eq!(Seed(42).to_string(), "COVEY_SHAKE_SEED=42");
        assert_ne!(Seed::of(None), Seed::of(None));
        assert_ne!(Seed::of(Some("x")), Seed::of(Some("x")));
    }
}
