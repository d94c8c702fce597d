//! `.config/quarantine.toml`: tests whose failures are known, for seven days at most.
//!
//! Invariant: pure; what the rules do not allow is a finding of `tidy`, and a test that may not be in
//! quarantine is treated as if it were not.

use anyhow::{Context as _, Result};
use jiff::{Span, civil::Date};
use serde::Deserialize;

use super::changed::TestName;
use super::strict::is_strict;

/// Where it is, from the top of the repository.
pub(crate) const PATH: &str = ".config/quarantine.toml";
/// So many tests at most.
const ROOM: usize = 5;
/// So long at most.
const DAYS: i64 = 7;

/// The tests that are in quarantine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quarantine {
    #[serde(default, rename = "test")]
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The binary and the test, as nextest writes them.
    name: String,
    first_seen: Date,
    symptom: String,
    issue: u32,
    /// The last day on which its failure does not count.
    ends: Date,
}

impl Entry {
    fn test(&self) -> Option<TestName> {
        let (binary, name) = self.name.split_once(' ')?;
        Some(TestName {
            binary: binary.to_owned(),
            name: name.trim().to_owned(),
        })
    }
}

impl Quarantine {
    /// Reads the file's text.
    ///
    /// # Errors
    /// When it is not of the right shape.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).with_context(|| format!("{PATH} cannot be read"))
    }

    /// Tests whose failure does not count on the day `today`.
    pub(crate) fn in_force(&self, today: Date) -> Vec<TestName> {
        self.entries
            .iter()
            .filter(|entry| today <= entry.ends && !is_strict(&entry.name))
            .filter_map(Entry::test)
            .collect()
    }

    /// The symptom and the issue that say why `test` is here.
    pub(crate) fn cause(&self, test: &TestName) -> Option<String> {
        let mut entries = self.entries.iter();
        let entry = entries.find(|entry| entry.test().as_ref() == Some(test))?;
        Some(format!(
            "{} (issue {}, until {})",
            entry.symptom, entry.issue, entry.ends
        ))
    }
}

/// What is wrong with the file, one sentence each, for `tidy`.
pub(crate) fn findings(text: &str) -> Vec<String> {
    let quarantine = match Quarantine::parse(text) {
        Ok(quarantine) => quarantine,
        Err(error) => return vec![format!("{error:#}")],
    };
    let entries = &quarantine.entries;
    let mut findings = Vec::new();
    if entries.len() > ROOM {
        findings.push(format!(
            "{} tests are in quarantine: at most {ROOM}, mend one first",
            entries.len()
        ));
    }
    for (at, entry) in entries.iter().enumerate() {
        let name = &entry.name;
        let longest = entry.first_seen.checked_add(Span::new().days(DAYS));
        if entry.ends < entry.first_seen || !longest.is_ok_and(|last| entry.ends <= last) {
            findings.push(format!(
                "{name}: `ends` is to be within {DAYS} days of `first_seen`"
            ));
        }
        if is_strict(name) {
            findings.push(format!(
                "{name}: a test of fencing, rights, isolation, lost data or deletion is never put into \
                 quarantine"
            ));
        }
        // Unit tests have no target of their own in the binary's name.
        match entry.test() {
            Some(test) if test.binary.contains("::") && !test.binary.contains("::bin/") => {}
            _ => findings.push(format!(
                "{name}: to be named as nextest does, `operator::t1 faults::name`, and of T1 or T2"
            )),
        }
        if entry.symptom.trim().is_empty() || entry.issue == 0 {
            findings.push(format!("{name}: a symptom and an issue say why it is here"));
        }
        if entries[..at].iter().any(|other| other.name == *name) {
            findings.push(format!("{name}: is there twice"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn entry(name: &str, first: &str, ends: &str) -> String {
        format!(
            "[[test]]\nname = '{name}'\nfirst_seen = '{first}'\nsymptom = 'late'\nissue = 21\n\
             ends = '{ends}'\n"
        )
    }

    #[test]
    fn its_failure_counts_again_after_the_day() {
        let text = entry("operator::t1 faults::a_test", "2026-11-24", "2026-12-01");
        assert_eq!(findings(&text), Vec::<String>::new());
        let quarantine = Quarantine::parse(&text).unwrap();
        let test = TestName {
            binary: "operator::t1".to_owned(),
            name: "faults::a_test".to_owned(),
        };
        assert_eq!(
            quarantine.in_force(date(2026, 12, 1)),
            std::slice::from_ref(&test)
        );
        assert!(quarantine.in_force(date(2026, 12, 2)).is_empty());
        assert!(quarantine.cause(&test).unwrap().contains("issue 21"));
    }

    #[test]
    fn what_the_rules_do_not_allow_is_found() {
        let one = |name: &str, ends: &str| findings(&entry(name, "2026-11-24", ends)).join("\n");
        assert!(one("operator::t1 faults::a", "2026-12-02").contains("within 7 days"));
        assert!(one("operator::t1 faults::a", "2026-11-23").contains("within 7 days"));
        assert!(one("operator::t1 deletion::a", "2026-11-25").contains("never put into"));
        assert!(one("operator plan::a", "2026-11-25").contains("T1 or T2"));
        assert!(one("operator::bin/operator a", "2026-11-25").contains("T1 or T2"));
        assert!(one("faults", "2026-11-25").contains("named as nextest does"));
        assert!(
            findings("[[test]]\nname = 'x'")
                .join("")
                .contains("cannot be read")
        );
        let names = ["a", "b", "c", "d", "e", "a"];
        let six: String = names
            .iter()
            .map(|name| entry(&format!("x::t1 {name}"), "2026-11-24", "2026-11-25"))
            .collect();
        let found = findings(&six).join("\n");
        assert!(
            found.contains("at most 5") && found.contains("twice"),
            "{found}"
        );
    }

    #[test]
    fn one_that_may_not_be_here_is_not() {
        let text = entry("operator::t1 deletion::a", "2026-11-24", "2026-11-25");
        let quarantine = Quarantine::parse(&text).unwrap();
        assert!(quarantine.in_force(date(2026, 11, 24)).is_empty());
    }
}
