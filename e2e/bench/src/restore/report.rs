//! The figures of `restore` as JSON and as a table.
//!
//! Invariant: a figure that was not measured is null, never zero.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::clients::{Flow, Over};
use crate::machine::Machine;
use crate::processes::IdleTenant;
use crate::report::Spread;

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where and when.
    pub machine: Machine,
    /// Kubernetes version of the tenant clusters.
    pub version: String,
    /// How old the oldest write was that would have been lost, at each look while writes came, seconds.
    pub rpo_s: Most,
    /// Writes a second that were acknowledged meanwhile.
    pub writes_per_s: Option<f64>,
    /// What the process that backs up took meanwhile.
    pub backup: IdleTenant,
    /// Members of etcd of the tenant cluster that was restored.
    pub members: i32,
    /// MiB of objects in it.
    pub data_mib: usize,
    /// Writes between the full snapshot and the moment.
    pub deltas: u64,
    /// Restore created to the first write, seconds.
    pub restore_s: Spread,
    /// Volume of one of three members deleted to all members serving, seconds.
    pub member_replaced_s: Spread,
    /// Requests of two steady clients that failed (60 a second each), by what was done with members: `replacement`,
    /// `rolling` of all three for another flag, `three_to_one`, `one_to_three`, `defragmentation` and `storage_class`. What
    /// was not measured is not there.
    pub failed: BTreeMap<String, Over<u64>>,
    /// Those that were answered.
    pub answered: BTreeMap<String, Over<u64>>,
    /// Longest time without an answer of one kind meanwhile, seconds.
    pub gap_s: BTreeMap<String, Over<f64>>,
    /// How long it took, all replacements together, seconds.
    pub took_s: BTreeMap<String, f64>,
    /// Objects of which an acknowledged write was not there any more, after all restores, replacements and flows.
    pub lost: Option<usize>,
    /// What went wrong, in words.
    pub notes: Vec<String>,
}

/// What there was at most.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Most {
    /// The most.
    pub max: Option<f64>,
    /// The median.
    pub p50: Option<f64>,
    /// How many looks.
    pub looks: usize,
}

impl Report {
    /// Takes in what was done with members, and what clients had of it.
    pub(super) fn record(&mut self, name: &str, flow: &Flow) {
        let name = || name.to_owned();
        self.failed.insert(name(), flow.failed);
        self.answered.insert(name(), flow.answered);
        self.gap_s.insert(name(), flow.gap_s);
        self.took_s.insert(name(), flow.took_s);
    }

    /// For people.
    #[must_use]
    pub fn table(&self) -> String {
        let m = &self.machine;
        let mut text = format!(
            "{} · {} cores {} · {} GiB · load {} · {}\nKubernetes {}\n\n",
            m.date, m.cores, m.cpu, m.memory_gib, m.load_before, m.commit, self.version,
        );
        let mut row = |what: &str, value: String, goal: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{what:<52} {value:>14} {goal:>8}");
        };
        row("", "measured".to_owned(), "goal");
        let pair = |s: &Spread| format!("{} / {}", number(s.p50), number(s.p95));
        row("lost at most, s, max", number(self.rpo_s.max), "10");
        row("    at writes a second", number(self.writes_per_s), "200");
        row(
            "    memory of the backup, MiB",
            number(self.backup.rss_mib),
            "30",
        );
        row(
            "    its CPU, thousandths of a core",
            number(self.backup.cpu_m),
            "10",
        );
        let what = format!(
            "restore to first write, {} MiB, {} writes, s, p50 / p95",
            self.data_mib, self.deltas
        );
        row(&what, pair(&self.restore_s), "90");
        row(
            "member replaced, s, p50 / p95",
            pair(&self.member_replaced_s),
            "120",
        );
        for (name, took) in &self.took_s {
            row(&format!("{name}, s"), took.to_string(), "");
            let failed = self.failed.get(name).map(Over::told);
            row("    requests failed, HTTP/2 / HTTP/1.1", count(failed), "0");
            let gap = self.gap_s.get(name).map(Over::told);
            row("    longest gap, s", count(gap), "1");
        }
        row("acknowledged writes lost", count(self.lost), "0");
        for note in &self.notes {
            row(&format!("note: {note}"), String::new(), "");
        }
        text
    }
}

fn number(value: Option<f64>) -> String {
    count(value)
}

fn count(value: Option<impl ToString>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_null_and_a_dash() {
        let mut report = Report {
            machine: Machine::here(),
            version: "1.35.4".to_owned(),
            rpo_s: Most::default(),
            writes_per_s: None,
            backup: IdleTenant::default(),
            members: 1,
            data_mib: 100,
            deltas: 36_000,
            restore_s: Spread::of(&[40.0, 50.0, 60.0]),
            member_replaced_s: Spread::default(),
            failed: BTreeMap::new(),
            answered: BTreeMap::new(),
            gap_s: BTreeMap::new(),
            took_s: BTreeMap::new(),
            lost: Some(0),
            notes: vec!["no looks".to_owned()],
        };
        let rolled = Flow {
            failed: Over { http2: 0, http1: 3 },
            ..Flow::default()
        };
        report.record("rolling", &rolled);
        let json = serde_json::to_value(&report).unwrap();
        assert!(
            json["rpo_s"]["max"].is_null() && json["failed"]["replacement"].is_null(),
            "{json}"
        );
        assert_eq!(
            (&json["restore_s"]["p50"], &json["lost"]),
            (&50.0.into(), &0.into())
        );
        assert_eq!(json["failed"]["rolling"]["http2"], 0);
        assert_eq!(json["failed"]["rolling"]["http1"], 3);
        let table = report.table();
        let line = |what: &str| table.lines().find(|line| line.contains(what)).unwrap();
        assert!(line("member replaced").contains("- / -"), "{table}");
        assert!(line("36000 writes").contains("50 / 60"), "{table}");
        assert!(line("requests failed").contains("0 / 3"), "{table}");
        assert!(table.contains("note: no looks"), "{table}");
    }
}
