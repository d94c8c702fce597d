//! docs/findings.md names tests that there are.
//!
//! Invariant: a finding without a test is not listed, so a test that is renamed or removed is noticed.

use super::finding::Finding;
use super::text::Text;

const PAGE: &str = "docs/findings.md";

/// Every line of the page that names no test, or one that there is not.
pub(super) fn check(texts: &[Text]) -> Vec<Finding> {
    let page = texts.iter().filter(|text| text.path == PAGE);
    let lines = page.flat_map(|page| page.text.lines().zip(1..));
    let lines = lines.filter(|(line, _)| number(line).is_some());
    lines
        .flat_map(|(line, at)| judge(line, at, texts))
        .collect()
}

/// `C1` of `| C1 | …`.
fn number(line: &str) -> Option<&str> {
    let cell = line.strip_prefix("| ")?.split(" |").next()?;
    let digits = cell.strip_prefix(['C', 'D', 'P', 'S'])?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(cell)
}

fn judge(line: &str, at: usize, texts: &[Text]) -> Vec<Finding> {
    let quoted = line.split('`').skip(1).step_by(2);
    let named: Vec<_> = quoted.filter_map(|text| text.split_once("::")).collect();
    let mut messages = Vec::new();
    if named.is_empty() {
        let number = number(line).unwrap_or_default();
        messages.push(format!(
            "{number} names no test: write `path.rs::name` of one"
        ));
    }
    for (path, name) in named {
        let there = texts
            .iter()
            .any(|text| text.path == path && has_test(&text.text, name));
        if !there {
            messages.push(format!(
                "there is no test {name} in {path}: name the one that took its place"
            ));
        }
    }
    let finding = |message| Finding {
        path: PAGE.to_owned(),
        line: at,
        message,
    };
    messages.into_iter().map(finding).collect()
}

/// Whether a function of that name has an attribute of tests above it; those of `proptest!` have one, too.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begins = |line: &str| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let rest = line
            .strip_prefix("fn ")
            .and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with('('))
    };
    lines.iter().enumerate().any(|(at, line)| {
        let mut above = lines[..at].iter().rev();
        let is_above = |line: &&&str| line.starts_with("#[") || line.starts_with("//");
        begins(line)
            && above
                .by_ref()
                .take_while(is_above)
                .any(|line| is_attribute(line))
    })
}

fn is_attribute(line: &str) -> bool {
    line.starts_with("#[test]") || line.starts_with("#[tokio::test")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let text = |path: &str, text: &str| Text {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let tests = "#[test]\nfn it_holds() {}\n    #[tokio::test(flavor = \"x\")]\n    // Why.\n    \
                     #[ignore]\n    async fn it_waits() {}\nfn helper() {}\n";
        let findings = check(&[text(PAGE, page), text("a/tests.rs", tests)]);
        let findings = findings.into_iter();
        findings
            .map(|f| format!("{}: {}", f.line, f.message))
            .collect()
    }

    #[test]
    fn tests_that_there_are_may_be_named() {
        let page = "# Findings\n| | What | Tests |\n|---|---|---|\n\
                    | C1 | a `field` | `a/tests.rs::it_holds`<br>`a/tests.rs::it_waits` |\n";
        assert_eq!(found(page), [""; 0]);
    }

    #[test]
    fn finding_without_a_test_that_there_is_is_found() {
        assert_eq!(
            found("| S9 | a `field` |  |\n"),
            ["1: S9 names no test: write `path.rs::name` of one"]
        );
        let gone = |name: &str| {
            format!("1: there is no test {name} in a/tests.rs: name the one that took its place")
        };
        for name in ["it_hold", "it_holds_not", "helper"] {
            let page = format!("| C2 | it | `a/tests.rs::{name}` |\n");
            assert_eq!(found(&page), [gone(name)]);
        }
        assert_eq!(found("| C2 | it | `b/tests.rs::it_holds` |\n").len(), 1);
    }
}
