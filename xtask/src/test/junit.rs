//! Reads the report that nextest writes of a run.
//!
//! Invariant: pure; a test case that carries a failure is never taken for one that passed.

use anyhow::{Context as _, Result};
use roxmltree::{Document, Node};

use super::changed::TestName;

/// How a test ended, after all of its tries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    Passed,
    /// At a later try than the first.
    Flaky,
    Failed,
    Skipped,
}

/// One test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) test: TestName,
    pub(crate) outcome: Outcome,
    /// All tries together.
    pub(crate) seconds: f64,
    /// Tries that failed, the first one first.
    pub(crate) failures: Vec<Failure>,
}

/// One try that failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Failure {
    /// One line.
    pub(crate) message: String,
    /// All that it said.
    pub(crate) log: String,
}

/// Reads the report.
///
/// # Errors
/// When it is not one.
pub(crate) fn parse(text: &str) -> Result<Vec<Case>> {
    let document = Document::parse(text).context("the tests' report is not XML")?;
    let cases = document
        .descendants()
        .filter(|node| node.has_tag_name("testcase"));
    cases.map(case).collect()
}

fn case(node: Node<'_, '_>) -> Result<Case> {
    let named = |name| {
        node.attribute(name)
            .with_context(|| format!("a test case has no {name}"))
    };
    let test = TestName {
        binary: named("classname")?.to_owned(),
        name: named("name")?.to_owned(),
    };
    let children = |names: &[&str]| -> Vec<Node<'_, '_>> {
        node.children()
            .filter(|child| names.iter().any(|name| child.has_tag_name(*name)))
            .collect()
    };
    let failed = children(&["failure", "error"]);
    let flaky = children(&["flakyFailure", "flakyError"]);
    let again = children(&["rerunFailure", "rerunError"]);
    let outcome = match (failed.is_empty(), flaky.is_empty()) {
        // nextest says so of what it was told to fail when flaky: judged here like the others.
        (_, false) => Outcome::Flaky,
        (false, true) => Outcome::Failed,
        (true, true) if !children(&["skipped"]).is_empty() => Outcome::Skipped,
        (true, true) => Outcome::Passed,
    };
    let tries = match outcome {
        Outcome::Flaky => flaky,
        _ => [failed, again].concat(),
    };
    let own: f64 = seconds(node);
    let others = tries.iter().filter(|child| !child.has_tag_name("failure"));
    Ok(Case {
        test,
        outcome,
        seconds: own + others.map(|child| seconds(*child)).sum::<f64>(),
        failures: tries
            .into_iter()
            .map(|child| failure(node, child))
            .collect(),
    })
}

fn seconds(node: Node<'_, '_>) -> f64 {
    let time = node.attribute("time").and_then(|time| time.parse().ok());
    time.unwrap_or_default()
}

/// The first try's output stands in the case itself, that of others in their own element.
fn failure(case: Node<'_, '_>, node: Node<'_, '_>) -> Failure {
    let text = node.text().unwrap_or_default().trim();
    let output = |parent: Node<'_, '_>| -> Vec<String> {
        parent
            .children()
            .filter(|child| child.has_tag_name("system-out") || child.has_tag_name("system-err"))
            .filter_map(|child| child.text().map(str::to_owned))
            .collect()
    };
    let mut said = output(node);
    if said.is_empty() && node.has_tag_name("failure") {
        said = output(case);
    }
    let kind = node.attribute("type").unwrap_or("failure");
    let attribute = node.attribute("message");
    Failure {
        message: message(text).or(attribute).unwrap_or(kind).to_owned(),
        log: format!("{kind}\n{text}\n{}", said.join("\n")),
    }
}

/// What a panic says: the line after the one that says where.
fn message(text: &str) -> Option<&str> {
    let mut lines = text.lines();
    lines.by_ref().find(|line| line.contains("panicked at"))?;
    lines.map(str::trim).find(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run"><testsuite name="demo::t1">
<testcase name="crash::good" classname="demo::t1" time="0.035"/>
<testcase name="crash::left_out" classname="demo::t1" time="0"><skipped/></testcase>
<testcase name="crash::strict" classname="demo::t1" time="0.084">
  <failure message="test passed on attempt 2/2 but is configured to fail when flaky" type="flaky failure"/>
  <flakyFailure time="1.438" message="thread 'crash::strict' panicked at tests/t1.rs:3" type="test failure with exit code 101">thread 'crash::strict' (1) panicked at tests/t1.rs:3:124:
fence
stack backtrace:<system-err>a log</system-err></flakyFailure>
</testcase>
<testcase name="red" classname="demo::t1" time="1.0">
  <failure message="thread" type="test failure with exit code 101">thread 'red' (2) panicked at tests/t1.rs:5:64:
called `Result::unwrap()` on an `Err` value: &quot;bad&quot;</failure>
  <rerunFailure time="0.5" type="test timeout"><system-out>second</system-out></rerunFailure>
  <system-out>first</system-out>
</testcase>
</testsuite></testsuites>"#;

    #[test]
    fn every_outcome_is_read_with_its_first_message() {
        let cases = parse(REPORT).unwrap();
        let outcomes: Vec<_> = cases.iter().map(|case| case.outcome).collect();
        use Outcome::{Failed, Flaky, Passed, Skipped};
        assert_eq!(outcomes, [Passed, Skipped, Flaky, Failed]);
        assert_eq!(cases[2].failures[0].message, "fence");
        assert!(cases[2].failures[0].log.contains("a log"));
        assert!((cases[2].seconds - 1.522).abs() < 1e-9);
        let red = &cases[3].failures;
        assert!(red[0].message.starts_with("called `Result::unwrap()`"));
        assert!(red[0].log.contains("first") && !red[0].log.contains("second"));
        assert_eq!(red[1].message, "test timeout");
        assert!(red[1].log.contains("second"));
        assert!((cases[3].seconds - 1.5).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        assert!(parse("no tests").is_err());
        assert!(parse("<testsuites><testcase name='a'/></testsuites>").is_err());
    }
}
