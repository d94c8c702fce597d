//! Judges a run: what failed, what passed only at a second try, and when that is red all the same.
//!
//! Invariant: pure; a test that failed at all of its tries is red unless it is in quarantine, and a
//! flaky one is never left unsaid.

use std::collections::BTreeSet;

use super::changed::TestName;
use super::junit::{Case, Outcome};
use super::strict::is_strict;

/// A test that was flaky in so many of the last runs is no accident.
pub(crate) const MEMORY: usize = 10;
/// So many may be flaky in one run.
const ROOM: usize = 3;

/// What a judgement depends on besides the results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Tests that were flaky in each of the runs before, the latest first.
    pub(crate) history: Vec<Vec<TestName>>,
    /// Tests that are in quarantine today.
    pub(crate) quarantine: Vec<TestName>,
    /// Tests that are new or changed in this change.
    pub(crate) touched: BTreeSet<TestName>,
}

/// One test that passed at a later try than its first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Flaky {
    pub(crate) test: TestName,
    /// What its first try said.
    pub(crate) message: String,
}

/// What came of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) flaky: Vec<Flaky>,
    /// Tests that are in quarantine, and how they ended.
    pub(crate) quarantined: Vec<(TestName, &'static str)>,
    pub(crate) failed: Vec<Flaky>,
    /// Why the run is red, one sentence each; green when there is none.
    pub(crate) red: Vec<String>,
}

/// Judges the results so far of one run.
pub(crate) fn judge(cases: &[Case], known: &Known) -> Verdict {
    let mut verdict = Verdict::default();
    for case in cases {
        let test = case.test.clone();
        if known.quarantine.contains(&test) {
            let how = match case.outcome {
                Outcome::Passed => "passed",
                Outcome::Flaky => "passed at a later try",
                Outcome::Failed => "failed",
                Outcome::Skipped => "was skipped",
            };
            verdict.quarantined.push((test, how));
            continue;
        }
        let message = case.failures.first();
        let message = message.map_or_else(String::new, |failure| failure.message.clone());
        match case.outcome {
            Outcome::Passed | Outcome::Skipped => {}
            Outcome::Failed => {
                let name = shown(&test);
                verdict.red.push(format!("{name} failed: {message}"));
                verdict.failed.push(Flaky { test, message });
            }
            Outcome::Flaky => {
                let why = why_red(&test, known);
                let name = shown(&test);
                let red = why.map(|why| format!("{name} was flaky, and {why}"));
                verdict.red.extend(red);
                verdict.flaky.push(Flaky { test, message });
            }
        }
    }
    if verdict.flaky.len() > ROOM {
        let number = verdict.flaky.len();
        let red = format!("{number} tests were flaky in one run: more than {ROOM}");
        verdict.red.push(red);
    }
    verdict
}

/// As nextest writes it.
pub(crate) fn shown(test: &TestName) -> String {
    format!("{} {}", test.binary, test.name)
}

fn why_red(test: &TestName, known: &Known) -> Option<&'static str> {
    let before = known.history.iter().take(MEMORY);
    if known.touched.contains(test) {
        return Some("it is new or changed in this change");
    }
    if is_strict(&test.name) {
        return Some("it is about fencing, rights, isolation, lost data or deletion");
    }
    before
        .flatten()
        .any(|other| other == test)
        .then_some("it was so in one of the last 10 runs and is not in quarantine")
}

#[cfg(test)]
mod tests;
