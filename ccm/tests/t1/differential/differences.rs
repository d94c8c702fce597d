//! The table of what ours does otherwise, on purpose.
//!
//! Invariant: a difference that is not in the table fails the test, and so does an entry that did not
//! come true in each scenario that it names; the documentation lists just these.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::effects::Effects;

/// One difference.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Difference {
    /// Why it is right: one sentence.
    why: String,
    /// Lines by scenario, with `+` where only ours has them and `-` where only the stock controllers
    /// have them. Where a line ends in ` *`, anything may follow.
    lines: BTreeMap<String, Vec<String>>,
}

/// Reads it.
pub(super) fn table() -> Result<Vec<Difference>> {
    serde_saphyr::from_str(&super::file("differences.yaml")?).context("understand differences.yaml")
}

/// What differs: `- line` where only stock has it, `+ line` where only ours has it.
pub(super) fn between(stock: &Effects, ours: &Effects) -> BTreeSet<String> {
    let missing = stock.difference(ours).map(|line| format!("- {line}"));
    let more = ours.difference(stock).map(|line| format!("+ {line}"));
    missing.chain(more).collect()
}

fn is_listed(pattern: &str, line: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => line.starts_with(start),
        None => line == pattern,
    }
}

/// Those of `found` that the table does not have.
pub(super) fn unlisted(
    table: &[Difference],
    scenario: &str,
    found: &BTreeSet<String>,
) -> Vec<String> {
    let patterns: Vec<_> = table
        .iter()
        .filter_map(|entry| entry.lines.get(scenario))
        .flatten()
        .collect();
    let is_unlisted = |line: &&String| !patterns.iter().any(|p| is_listed(p, line));
    found.iter().filter(is_unlisted).cloned().collect()
}

/// Lines of the table that did not come true, of the scenarios in `found`.
pub(super) fn stale(
    table: &[Difference],
    found: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let mut stale = Vec::new();
    for entry in table {
        for (scenario, patterns) in &entry.lines {
            let Some(found) = found.get(scenario) else {
                continue;
            };
            for pattern in patterns {
                if !found.iter().any(|line| is_listed(pattern, line)) {
                    stale.push(format!("{scenario}: {pattern}"));
                }
            }
        }
    }
    stale
}

#[test]
fn table_names_scenarios_that_are_there_and_the_documentation_has_every_reason() -> Result<()> {
    let table = table()?;
    let names: BTreeSet<_> = super::scenario::all()?
        .into_iter()
        .map(|s| s.name)
        .collect();
    let named = table.iter().flat_map(|entry| entry.lines.keys());
    let unknown: Vec<_> = named.filter(|name| !names.contains(*name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let text = super::file("../../../../docs/ccm.md")?;
    let missing: Vec<_> = table.iter().map(|entry| entry.why.trim()).collect();
    let missing: Vec<_> = missing.iter().filter(|why| !text.contains(**why)).collect();
    assert!(missing.is_empty(), "docs/ccm.md does not say: {missing:#?}");
    Ok(())
}

#[test]
fn only_what_the_table_has_is_listed_and_what_did_not_happen_is_stale() {
    let lines = BTreeMap::from([(
        "s".to_owned(),
        vec!["+ Event Node a *".to_owned(), "- Node b".to_owned()],
    )]);
    let table = [Difference {
        why: String::new(),
        lines,
    }];
    let set = |lines: &[&str]| lines.iter().map(|l| (*l).to_owned()).collect::<Effects>();
    let found = between(
        &set(&["Node c"]),
        &set(&["Event Node a Normal X", "Node b"]),
    );
    assert_eq!(unlisted(&table, "s", &found), ["+ Node b", "- Node c"]);
    assert_eq!(unlisted(&table, "t", &found).len(), 3);
    let found = BTreeMap::from([("s".to_owned(), found)]);
    assert_eq!(stale(&table, &found), ["s: - Node b"]);
}
