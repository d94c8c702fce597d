//! Each alert has its section in docs/runbooks/alerts.md, and each section its alert.
//!
//! Invariant: a section says the same four things, and has one command.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[test]
fn every_alert_has_a_runbook_with_one_command() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/runbooks/alerts.md");
    let page = std::fs::read_to_string(path).unwrap();
    let sections = page.split("\n## ").skip(1);
    let sections = sections.map(|section| section.split_once('\n').unwrap());
    let mut sections: BTreeMap<_, _> = sections.collect();
    let groups = monitoring::rules::groups();
    let alerts = groups.iter().flat_map(|group| &group.alerts);
    let names: BTreeSet<_> = alerts.map(|alert| alert.name).collect();
    for name in names {
        let text = sections.remove(name);
        let text = text.unwrap_or_else(|| panic!("{name} has no section in alerts.md"));
        for part in ["Symptom", "Safe", "Not safe", "Mend"] {
            let begin = format!("- **{part}**: ");
            let lines = text.lines();
            let said = lines.filter(|line| line.len() > begin.len() && line.starts_with(&begin));
            assert_eq!(said.count(), 1, "{name}: {part}");
        }
        let commands = text.lines().filter(|line| line.starts_with("$ "));
        assert_eq!(commands.count(), 1, "{name} has one command");
    }
    assert!(sections.is_empty(), "of no alert: {:?}", sections.keys());
}

#[test]
fn link_of_an_alert_leads_to_its_section() {
    for alert in monitoring::rules::groups()
        .iter()
        .flat_map(|group| &group.alerts)
    {
        let runbook = alert.runbook();
        let (page, fragment) = runbook.split_once('#').unwrap();
        assert!(page.ends_with("/runbooks/alerts.html"), "{page}");
        // As Markdown makes fragments: small letters.
        assert_eq!(fragment, alert.name.to_lowercase());
    }
}
