//! What came of a run, against the list that Kubernetes publishes, or against the names that a suite's tests carry.
//!
//! Invariant: pure; each name is counted once, and what was not run is neither passed nor failed. Reports of parts make
//! one only where no test was run twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use anyhow::{Context as _, Result, ensure};
use roxmltree::{Document, Node};
use serde::{Deserialize, Serialize};

use crate::suite::{self, Suite};

/// How one test ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// As in the list.
    pub(crate) name: String,
    pub(crate) ended: Ended,
    /// s
    pub(crate) seconds: f64,
    /// Which run it was.
    pub(crate) part: String,
}

/// The same without a time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Ended {
    Passed,
    /// The first line of why.
    Failed(String),
    /// It was begun, and says why it does not apply.
    Skipped(String),
    /// It was not begun, or an interrupt has ended it.
    NotRun,
}

/// One test that is not passed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Other {
    name: String,
    why: String,
}

/// What is said of one test.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Verdict {
    Passed,
    Failed(String),
    /// It was run, and cannot pass here.
    NotHere(String),
    Skipped(String),
    /// Nobody begins it here.
    LeftOut(String),
    NotRun,
}

/// Makes a verdict of why.
type Make = fn(String) -> Verdict;

/// Everything.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    kubernetes: String,
    suite: String,
    /// It was told to end before its tests had.
    interrupted: bool,
    /// Names in all.
    total: usize,
    passed: usize,
    /// s of each part, all tests together.
    seconds: BTreeMap<String, f64>,
    failed: Vec<Other>,
    /// Run, and cannot pass here.
    not_here: Vec<Other>,
    /// Begun, and do not apply by their own word.
    skipped: Vec<Other>,
    /// Not begun, because they cannot run here.
    left_out: Vec<Other>,
    not_run: Vec<String>,
    passed_names: Vec<String>,
}

impl Report {
    /// Compares outcomes with the published list; of another suite the list is what its tests are called.
    pub(crate) fn of(
        version: &str,
        suite: Suite,
        listed: Vec<String>,
        outcomes: &[Outcome],
        interrupted: bool,
    ) -> Self {
        let mut seconds = BTreeMap::new();
        let mut ended: BTreeMap<&str, &Ended> = BTreeMap::new();
        for outcome in outcomes {
            if outcome.ended != Ended::NotRun {
                *seconds.entry(outcome.part.clone()).or_default() += outcome.seconds;
            }
            // A test is in one part and skipped in the other.
            let known = ended.entry(&outcome.name).or_insert(&outcome.ended);
            if **known == Ended::NotRun {
                *known = &outcome.ended;
            }
        }
        let names: BTreeSet<String> = match suite {
            Suite::Conformance => listed.into_iter().collect(),
            Suite::LoadBalancers | Suite::Storage => {
                let of_suite = ended.keys().filter(|name| suite.has(name));
                of_suite.map(|name| (*name).to_owned()).collect()
            }
        };
        let each = names.into_iter().map(|name| {
            let verdict = match ended.get(name.as_str()) {
                Some(Ended::Passed) => Verdict::Passed,
                Some(Ended::Skipped(why)) => Verdict::Skipped(why.clone()),
                Some(Ended::Failed(why)) => match suite::why_it_cannot_pass(&name) {
                    Some(reason) => Verdict::NotHere(reason.to_owned()),
                    None => Verdict::Failed(why.clone()),
                },
                Some(Ended::NotRun) | None => match suite.why_left_out(&name) {
                    Some(why) => Verdict::LeftOut(why.to_owned()),
                    None => Verdict::NotRun,
                },
            };
            (name, verdict)
        });
        let told = Self {
            kubernetes: version.to_owned(),
            suite: suite.name().to_owned(),
            interrupted,
            seconds,
            ..Self::default()
        };
        told.with(each.collect())
    }

    fn with(mut self, verdicts: BTreeMap<String, Verdict>) -> Self {
        self.total = verdicts.len();
        for (name, verdict) in verdicts {
            let (others, why) = match verdict {
                Verdict::Passed => {
                    self.passed_names.push(name);
                    continue;
                }
                Verdict::NotRun => {
                    self.not_run.push(name);
                    continue;
                }
                Verdict::Failed(why) => (&mut self.failed, why),
                Verdict::NotHere(why) => (&mut self.not_here, why),
                Verdict::Skipped(why) => (&mut self.skipped, why),
                Verdict::LeftOut(why) => (&mut self.left_out, why),
            };
            others.push(Other { name, why });
        }
        self.passed = self.passed_names.len();
        self
    }

    /// What it says of each test.
    fn verdicts(&self) -> Result<BTreeMap<String, Verdict>> {
        let mut all = BTreeMap::new();
        let mut add = |name: &String, verdict: Verdict| -> Result<()> {
            let before = all.insert(name.clone(), verdict);
            ensure!(before.is_none(), "a report has {name} twice");
            Ok(())
        };
        for name in &self.passed_names {
            add(name, Verdict::Passed)?;
        }
        for name in &self.not_run {
            add(name, Verdict::NotRun)?;
        }
        let others: [(&Vec<Other>, Make); 4] = [
            (&self.failed, Verdict::Failed),
            (&self.not_here, Verdict::NotHere),
            (&self.skipped, Verdict::Skipped),
            (&self.left_out, Verdict::LeftOut),
        ];
        for (others, make) in others {
            for other in others {
                add(&other.name, make(other.why.clone()))?;
            }
        }
        ensure!(
            all.len() == self.total && self.passed == self.passed_names.len(),
            "a report counts other tests than it names"
        );
        Ok(all)
    }

    /// One of several that were made of one list, each of tests that no other one has run.
    ///
    /// # Errors
    /// When they are of different lists, or a test was run twice: then nobody could say which run counts.
    pub(crate) fn merge(reports: Vec<Self>) -> Result<Self> {
        let mut rest = reports.into_iter();
        let mut merged = rest.next().context("there is no report to merge")?;
        let mut verdicts = merged.verdicts()?;
        for report in rest {
            ensure!(
                report.kubernetes == merged.kubernetes && report.suite == merged.suite,
                "one report is of {} of Kubernetes {}, another one of {} of {}",
                merged.suite,
                merged.kubernetes,
                report.suite,
                report.kubernetes
            );
            let others = report.verdicts()?;
            ensure!(
                verdicts.keys().eq(others.keys()),
                "the reports are of different lists of tests"
            );
            for ((name, known), (_, other)) in verdicts.iter_mut().zip(others) {
                if other == Verdict::NotRun {
                    continue;
                }
                let is_of_nobody = matches!(
                    (&*known, &other),
                    (Verdict::NotRun, _) | (Verdict::LeftOut(_), Verdict::LeftOut(_))
                );
                ensure!(
                    is_of_nobody,
                    "{name} was run twice: leave one of its reports out"
                );
                *known = other;
            }
            merged.interrupted |= report.interrupted;
            for (part, seconds) in report.seconds {
                *merged.seconds.entry(part).or_default() += seconds;
            }
        }
        let told = Self {
            kubernetes: merged.kubernetes,
            suite: merged.suite,
            interrupted: merged.interrupted,
            seconds: merged.seconds,
            ..Self::default()
        };
        Ok(told.with(verdicts))
    }

    /// Whether everything was run that was to be, and nothing failed but what cannot pass here.
    pub(crate) fn is_as_explained(&self) -> bool {
        self.failed.is_empty() && self.passed > 0 && !self.interrupted
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kubernetes,
            suite,
            total,
            passed,
            ..
        } = self;
        for (what, others) in [
            ("failed", &self.failed),
            ("not here", &self.not_here),
            ("left out", &self.left_out),
            ("skipped", &self.skipped),
        ] {
            for other in others {
                writeln!(f, "{what}: {}\n    {}", other.name, other.why)?;
            }
        }
        if self.interrupted {
            writeln!(
                f,
                "INCOMPLETE: it was interrupted before its tests had ended"
            )?;
        }
        write!(
            f,
            "Kubernetes {kubernetes}, {suite}: {passed} of {total} passed, {} failed, {} cannot run here, {} do not \
             apply, {} were not run",
            self.failed.len(),
            self.not_here.len() + self.left_out.len(),
            self.skipped.len(),
            self.not_run.len()
        )?;
        for (part, seconds) in &self.seconds {
            write!(f, "; {part} {seconds:.0} s of tests")?;
        }
        Ok(())
    }
}

/// Names of the published list (`test/conformance/testdata/conformance.yaml`).
///
/// # Errors
/// When it is none, or empty.
pub(crate) fn listed(text: &str) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Entry {
        codename: String,
    }
    let entries: Vec<Entry> =
        serde_saphyr::from_str(text).context("the list of conformance tests is not understood")?;
    ensure!(
        !entries.is_empty(),
        "the list of conformance tests is empty"
    );
    Ok(entries.into_iter().map(|entry| entry.codename).collect())
}

/// Reads the report that the tests write of a part.
///
/// # Errors
/// When it is none.
pub(crate) fn outcomes(junit: &str, part: &str) -> Result<Vec<Outcome>> {
    let document = Document::parse(junit).context("the tests' report is not XML")?;
    let cases = document
        .descendants()
        .filter(|node| node.has_tag_name("testcase"));
    // What is no test (set-up, reports) has another word in front.
    cases
        .filter_map(|case| Some((case, case.attribute("name")?.strip_prefix("[It] ")?)))
        .map(|(case, name)| {
            let seconds = case.attribute("time").and_then(|time| time.parse().ok());
            Ok(Outcome {
                name: name.to_owned(),
                ended: ended(case),
                seconds: seconds.unwrap_or_default(),
                part: part.to_owned(),
            })
        })
        .collect()
}

/// What ginkgo puts before the reason of a test that does not apply; one that was not chosen has none.
const SKIPPED: &str = "skipped - ";

fn ended(case: Node<'_, '_>) -> Ended {
    let child = |names: &[&str]| {
        case.children()
            .find(|child| names.iter().any(|name| child.has_tag_name(*name)))
    };
    // Of these nobody knows how they would have ended.
    if matches!(case.attribute("status"), Some("interrupted" | "aborted")) {
        return Ended::NotRun;
    }
    if let Some(failure) = child(&["failure", "error"]) {
        return Ended::Failed(why(failure));
    }
    let Some(skipped) = child(&["skipped"]) else {
        return Ended::Passed;
    };
    match skipped
        .attribute("message")
        .and_then(|message| message.strip_prefix(SKIPPED))
    {
        Some(why) => Ended::Skipped(why.lines().next().unwrap_or_default().trim().to_owned()),
        None => Ended::NotRun,
    }
}

/// Most characters of why a test failed.
const WORDS: usize = 400;
/// What ginkgo puts before and after it.
const FAILED: &str = "[FAILED]";
const PLACE: &str = "In [It] at:";

/// On one line. ginkgo writes it as the text, and its message is empty where the test gave none of its own.
fn why(failure: Node<'_, '_>) -> String {
    let said = [failure.attribute("message"), failure.text()];
    let lines = said.into_iter().flatten().map(|said| {
        let lines = said.lines().map(str::trim);
        let lines = lines.take_while(|line| !line.starts_with(PLACE));
        let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
        lines.join(" ")
    });
    let said = lines.into_iter().find(|said| !said.is_empty());
    let said = said.as_deref().unwrap_or("it does not say why");
    let said = said.trim_start_matches(FAILED).trim();
    said.chars().take(WORDS).collect()
}

#[cfg(test)]
mod tests;
