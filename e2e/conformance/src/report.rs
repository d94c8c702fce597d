//! What came of a run, against the list that Kubernetes publishes.
//!
//! Invariant: pure; each name of the list is counted once, and what was not run is neither passed nor failed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use anyhow::{Context as _, Result, ensure};
use roxmltree::{Document, Node};
use serde::{Deserialize, Serialize};

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
    NotRun,
}

/// Tests that cannot pass on this machine, whatever the cluster, and why: part of the name, reason. What is here was
/// shown by an experiment that docs/conformance.md describes.
const NOT_HERE: &[(&str, &str)] = &[];

/// One test that is not passed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Other {
    name: String,
    why: String,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    kubernetes: String,
    /// Names of the published list.
    total: usize,
    passed: usize,
    /// s of each part, all tests together.
    seconds: BTreeMap<String, f64>,
    failed: Vec<Other>,
    not_here: Vec<Other>,
    not_run: Vec<String>,
    passed_names: Vec<String>,
}

impl Report {
    /// Compares outcomes with the list.
    pub(crate) fn of(version: &str, listed: Vec<String>, outcomes: &[Outcome]) -> Self {
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
        let names: BTreeSet<String> = listed.into_iter().collect();
        let mut report = Self {
            kubernetes: version.to_owned(),
            total: names.len(),
            passed: 0,
            seconds,
            failed: Vec::new(),
            not_here: Vec::new(),
            not_run: Vec::new(),
            passed_names: Vec::new(),
        };
        for name in names {
            match ended.get(name.as_str()) {
                Some(Ended::Passed) => report.passed_names.push(name),
                Some(Ended::Failed(why)) => match cannot_run_here(&name) {
                    Some(reason) => report.not_here.push(Other {
                        why: reason.to_owned(),
                        name,
                    }),
                    None => report.failed.push(Other {
                        why: why.clone(),
                        name,
                    }),
                },
                Some(Ended::NotRun) | None => report.not_run.push(name),
            }
        }
        report.passed = report.passed_names.len();
        report
    }

    /// Whether nothing failed but what cannot run here.
    pub(crate) fn is_as_explained(&self) -> bool {
        self.failed.is_empty() && self.passed > 0
    }
}

fn cannot_run_here(name: &str) -> Option<&'static str> {
    let found = NOT_HERE.iter().find(|(part, _)| name.contains(part));
    found.map(|(_, why)| *why)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kubernetes,
            total,
            passed,
            ..
        } = self;
        for (what, others) in [("failed", &self.failed), ("not here", &self.not_here)] {
            for other in others {
                writeln!(f, "{what}: {}\n    {}", other.name, other.why)?;
            }
        }
        write!(
            f,
            "Kubernetes {kubernetes}: {passed} of {total} passed, {} failed, {} cannot run here, {} were not run",
            self.failed.len(),
            self.not_here.len(),
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

fn ended(case: Node<'_, '_>) -> Ended {
    let child = |names: &[&str]| {
        case.children()
            .find(|child| names.iter().any(|name| child.has_tag_name(*name)))
    };
    if let Some(failure) = child(&["failure", "error"]) {
        let why = failure.attribute("message").or(failure.text());
        let line = why
            .unwrap_or_default()
            .lines()
            .find(|line| !line.trim().is_empty());
        return Ended::Failed(line.unwrap_or("it does not say why").trim().to_owned());
    }
    match child(&["skipped"]) {
        Some(_) => Ended::NotRun,
        None => Ended::Passed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUNIT: &str = r#"<testsuites><testsuite name="Kubernetes e2e suite">
        <testcase name="[SynchronizedBeforeSuite]" time="1"/>
        <testcase name="[It] [sig-a] works [Conformance]" time="2.5"/>
        <testcase name="[It] [sig-a] fails [Conformance]" time="3"><failure message="&#10;no pod&#10;more"/></testcase>
        <testcase name="[It] [sig-a] is serial [Serial] [Conformance]" time="0"><skipped/></testcase>
        </testsuite></testsuites>"#;
    const LIST: &str = "- testname: A
  codename: '[sig-a] works
    [Conformance]'
- codename: '[sig-a] fails [Conformance]'
- codename: '[sig-a] is serial [Serial] [Conformance]'
- codename: '[sig-a] nobody runs [Conformance]'
";

    fn report(outcomes: &[Outcome]) -> Report {
        Report::of("1.2.3", listed(LIST).unwrap(), outcomes)
    }

    #[test]
    fn each_name_of_the_list_is_counted_once_by_what_became_of_it() {
        let report = report(&outcomes(JUNIT, "parallel").unwrap());
        assert_eq!((report.total, report.passed), (4, 1));
        assert_eq!(report.failed.len(), 1);
        assert_eq!(report.failed[0].why, "no pod");
        assert_eq!(report.not_run.len(), 2);
        assert!((report.seconds["parallel"] - 5.5).abs() < 1e-9);
        assert!(!report.is_as_explained());
    }

    #[test]
    fn what_one_part_skips_counts_as_the_other_part_says() {
        let serial = r#"<testsuites><testcase name="[It] [sig-a] works [Conformance]"><skipped/></testcase>
            <testcase name="[It] [sig-a] is serial [Serial] [Conformance]" time="4"/></testsuites>"#;
        let mut both = outcomes(JUNIT, "parallel").unwrap();
        both.extend(outcomes(serial, "serial").unwrap());
        for all in [both.clone(), both.into_iter().rev().collect()] {
            let report = report(&all);
            assert_eq!((report.passed, report.not_run.len()), (2, 1));
        }
    }

    #[test]
    fn a_run_of_nothing_is_no_success() {
        assert!(!report(&[]).is_as_explained());
    }

    #[test]
    fn an_empty_list_is_an_error() {
        assert!(listed("[]").is_err());
        assert!(outcomes("no report", "parallel").is_err());
    }
}
