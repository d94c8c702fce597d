//! Which tests are new or changed: they are run first, and several times.
//!
//! Invariant: a test is what stands from its attribute to the brace that ends it, as rustfmt indents
//! it; a change of anything else is not a change of the test.

use std::collections::BTreeMap;

/// One test function.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Test {
    /// Without its module.
    pub(crate) name: String,
    /// Attributes, signature and body.
    text: String,
}

/// The tests of one text, in their order.
pub(crate) fn tests(text: &str) -> Vec<Test> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let begin = at;
        at += 1;
        let trimmed = lines[begin].trim_start();
        if !(trimmed.starts_with("#[test]") || trimmed.starts_with("#[tokio::test")) {
            continue;
        }
        let indent = &lines[begin][..lines[begin].len() - trimmed.len()];
        let is_end = |line: &str| line.strip_prefix(indent).is_some_and(|rest| rest == "}");
        let Some(length) = lines[begin..].iter().position(|line| is_end(line)) else {
            continue;
        };
        let body = &lines[begin..=begin + length];
        if let Some(name) = body.iter().find_map(|line| name(line)) {
            found.push(Test {
                name,
                text: body.join("\n"),
            });
            at = begin + length + 1;
        }
    }
    found
}

/// Names of the tests of `after` that `before` has not, or has otherwise.
pub(crate) fn new_or_changed(before: &str, after: &str) -> Vec<String> {
    let before: BTreeMap<_, _> = tests(before)
        .into_iter()
        .map(|test| (test.name, test.text))
        .collect();
    tests(after)
        .into_iter()
        .filter(|test| before.get(&test.name) != Some(&test.text))
        .map(|test| test.name)
        .collect()
}

/// The name of the function that begins on this line.
fn name(line: &str) -> Option<String> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    let (name, _) = line.strip_prefix("fn ")?.split_once('(')?;
    Some(name.to_owned())
}
