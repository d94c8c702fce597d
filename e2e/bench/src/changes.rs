//! The figures of what is done with a control plane on purpose, as JSON and as a table.
//!
//! Invariant: a figure that was not measured is null or not there, never zero.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use suites::scenario::steady::Outcome;

use super::clients::{Flow, Over};
use super::machine::Machine;
use super::report::Spread;
use super::round;

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where and when.
    pub machine: Machine,
    /// Of which versions, or of which version.
    pub what: String,
    /// Requests of two steady clients that failed (60 a second each), by what was done.
    pub failed: BTreeMap<String, Over<u64>>,
    /// Those that were answered.
    pub answered: BTreeMap<String, Over<u64>>,
    /// Longest time without an answer of one kind meanwhile, seconds.
    pub gap_s: BTreeMap<String, Over<f64>>,
    /// How long it took, seconds.
    pub took_s: BTreeMap<String, f64>,
    /// Requests of a client over HTTP/1.1 that tries nothing again which failed.
    pub failed_http1_bare: BTreeMap<String, u64>,
    /// From an upgrade that cannot be had to what ran before, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback_s: Option<Spread>,
    /// How long its new pods had to become ready, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<u32>,
    /// What went wrong, in words.
    pub notes: Vec<String>,
}

impl Report {
    /// Of nothing yet.
    pub(super) fn new(what: String) -> Self {
        Self {
            machine: Machine::here(),
            what,
            failed: BTreeMap::new(),
            answered: BTreeMap::new(),
            gap_s: BTreeMap::new(),
            took_s: BTreeMap::new(),
            failed_http1_bare: BTreeMap::new(),
            rollback_s: None,
            deadline_s: None,
            notes: Vec::new(),
        }
    }

    /// Takes in what clients had of something.
    pub(super) fn record(&mut self, name: &str, (flow, words): (Flow, Vec<String>)) {
        self.failed.insert(name.to_owned(), flow.failed);
        self.answered.insert(name.to_owned(), flow.answered);
        self.gap_s.insert(name.to_owned(), flow.gap_s);
        self.took_s.insert(name.to_owned(), flow.took_s);
        let words = words.into_iter();
        self.notes
            .extend(words.map(|words| format!("{name}: {words}")));
    }

    /// Takes in what a client that tries nothing again had of it.
    pub(super) fn bare(&mut self, name: &str, outcome: &Outcome) {
        self.failed_http1_bare
            .insert(name.to_owned(), outcome.failed());
        let words = outcome.failures().into_iter();
        self.notes
            .extend(words.map(|words| format!("{name}: HTTP/1.1, nothing tried again: {words}")));
    }

    /// One of them in a line.
    pub(super) fn told(&self, name: &str) -> String {
        let took = self.took_s.get(name).copied().unwrap_or_default();
        let failed = self.failed.get(name).map(Over::told).unwrap_or_default();
        format!("{} s, {failed} failed", round(took))
    }

    /// For people.
    #[must_use]
    pub fn table(&self) -> String {
        let m = &self.machine;
        let mut text = format!(
            "{} · {} cores {} · {} GiB · load {} · {}\nKubernetes {}\n\n",
            m.date, m.cores, m.cpu, m.memory_gib, m.load_before, m.commit, self.what,
        );
        let mut row = |what: &str, value: String, goal: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{what:<52} {value:>14} {goal:>8}");
        };
        row("", "measured".to_owned(), "goal");
        for (name, took) in &self.took_s {
            row(&format!("{name}, s"), took.to_string(), "");
            let failed = self.failed.get(name).map(Over::told).unwrap_or_default();
            row("    requests failed, HTTP/2 / HTTP/1.1", failed, "0");
            let gap = self.gap_s.get(name).map(Over::told).unwrap_or_default();
            row("    longest gap, s", gap, "1");
            if let Some(bare) = self.failed_http1_bare.get(name) {
                row(
                    "    failed, HTTP/1.1, nothing tried again",
                    bare.to_string(),
                    "",
                );
            }
        }
        if let Some(back) = &self.rollback_s {
            let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| v.to_string());
            let pair = format!("{} / {}", number(back.p50), number(back.p95));
            let goal = self
                .deadline_s
                .map_or(String::new(), |s| (s + 30).to_string());
            row("what ran before runs again, s, p50 / p95", pair, &goal);
        }
        for note in &self.notes {
            row(&format!("note: {note}"), String::new(), "");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_not_there() {
        let mut report = Report::new("1.35.4 to 1.36.3".to_owned());
        let json = serde_json::to_value(&report).unwrap();
        assert!(json.get("rollback_s").is_none() && json["failed"] == serde_json::json!({}));
        assert!(!report.table().contains("failed"));
        let failed = Over { http2: 1, http1: 0 };
        let flow = Flow {
            failed,
            took_s: 12.0,
            ..Flow::default()
        };
        report.record("replicas_2", (flow, vec!["HTTP/2: 1 × closed".to_owned()]));
        assert_eq!(report.told("replicas_2"), "12 s, 1 / 0 failed");
        let table = report.table();
        assert!(
            table.contains("replicas_2, s")
                && table.contains("note: replicas_2: HTTP/2: 1 × closed")
        );
    }
}
