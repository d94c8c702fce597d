//! What a selection says about itself: what runs, what not, and why.
//!
//! Invariant: nothing is left out without a word about it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::selection::Selection;
use super::suites;

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = self.base.get(..12).unwrap_or(&self.base);
        writeln!(f, "{} files changed since {base}", self.files)?;
        writeln!(f, "runs:")?;
        writeln!(f, "  format, clippy, tidy, generated files: always")?;
        let mut touched: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (krate, name) in &self.touched {
            touched.entry(krate).or_default().push(name);
        }
        for (krate, names) in touched {
            let names = names.join(", ");
            writeln!(
                f,
                "  new or changed, first and five times, shaken: {krate}: {names}"
            )?;
        }
        for test in &self.unsteady {
            let (binary, name) = (&test.binary, &test.name);
            writeln!(f, "  {binary} {name}: failed or was flaky in the last run")?;
        }
        if let Some(why) = &self.everything {
            writeln!(f, "  everything that a run without --all has: {why}")?;
            return f.write_str(&self.left_out().join("\n"));
        }
        for (name, path) in &self.crates {
            writeln!(f, "  T0, T1 {name}: {path}")?;
        }
        for ((krate, target), path) in &self.targets {
            if !self.crates.contains_key(krate) {
                writeln!(f, "  T1 {krate}::{target}: {path}")?;
            }
        }
        for (suite, path) in self.suites.values() {
            writeln!(f, "  T2 {}: {path}", suite.name())?;
        }
        f.write_str(&self.left_out().join("\n"))
    }
}

impl Selection {
    /// What is not run and why, one line each, for the end of a run and for `--list`.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let mut lines = vec!["left out:".to_owned()];
        let long: Vec<_> = self
            .all_suites
            .iter()
            .filter(|suite| !suite.is_default() && !self.suites.contains_key(&suite.path))
            .map(suites::Suite::name)
            .collect();
        if self.everything.is_none() {
            let reached: BTreeSet<&String> = self.crates.keys().collect();
            let partly: BTreeSet<&String> = self.targets.keys().map(|(krate, _)| krate).collect();
            let crates: Vec<_> = self
                .all_crates
                .iter()
                .filter(|name| !reached.contains(name))
                .map(|name| match partly.contains(name) {
                    true => format!("{name} (but for the targets above)"),
                    false => name.clone(),
                })
                .collect();
            if !crates.is_empty() {
                let crates = crates.join(", ");
                lines.push(format!(
                    "  T0, T1 {crates}: nothing that they use has changed"
                ));
            }
            for suite in &self.all_suites {
                if suite.is_default() && !self.suites.contains_key(&suite.path) {
                    let (name, needs) = (suite.name(), suite.needs.join(", "));
                    lines.push(format!(
                        "  T2 {name}: needs {needs}, and none of it has changed"
                    ));
                }
            }
        }
        if !long.is_empty() {
            lines.push(format!("  T2 {}: only with --all", long.join(", ")));
        }
        lines.push("before landing, run all of it: `cargo xtask test`".to_owned());
        lines
    }
}
