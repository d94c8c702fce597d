//! Which tests a change reaches.
//!
//! Invariant: pure; what nobody can answer reaches everything.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{Changed, Facts, TestName};
use super::suites::{self, Suite};
use super::table::{self, Reach};
use super::touched;

/// What is run, and why; the rest is left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) base: String,
    /// How many files changed.
    pub(crate) files: usize,
    /// Set when everything is run.
    pub(crate) everything: Option<String>,
    /// All tests of these crates but suites of the lab, with the reason.
    pub(super) crates: BTreeMap<String, String>,
    /// Single targets of other crates.
    pub(super) targets: BTreeMap<(String, String), String>,
    /// Suites of the lab.
    pub(super) suites: BTreeMap<String, (Suite, String)>,
    /// Tests of T0 and T1 that are new or changed: crate, name.
    pub(super) touched: BTreeSet<(String, String)>,
    /// Tests that failed or were flaky in the last run.
    pub(super) unsteady: BTreeSet<TestName>,
    /// Crates and suites there are, to say what is left out.
    pub(super) all_crates: BTreeSet<String>,
    pub(super) all_suites: Vec<Suite>,
}

/// Decides.
pub(crate) fn select(facts: &Facts) -> Selection {
    let all_suites: Vec<_> = facts
        .suites
        .iter()
        .filter_map(|(path, text)| Suite::parse(path, text))
        .collect();
    let mut selection = Selection {
        base: facts.base.clone(),
        files: facts.changed.len(),
        all_crates: facts
            .metadata
            .packages
            .iter()
            .map(|p| p.name.clone())
            .collect(),
        all_suites,
        unsteady: facts.last.unsteady.iter().cloned().collect(),
        ..Selection::default()
    };
    for changed in &facts.changed {
        selection.reach(facts, changed);
    }
    selection
}

impl Selection {
    /// Adds what one file reaches.
    fn reach(&mut self, facts: &Facts, changed: &Changed) {
        let path = changed.path.as_str();
        let owner = facts.metadata.owner(path).map(|owner| {
            let inner = &path[facts.metadata.folder(owner).len() + 1..];
            (owner.name.as_str(), inner)
        });
        if let Some((owner, _)) = owner
            && owner != suites::CRATE
        {
            let names = touched::new_or_changed(&changed.before, &changed.after);
            self.touched
                .extend(names.into_iter().map(|name| (owner.to_owned(), name)));
        }
        if path.starts_with(suites::FOLDER) {
            let all = self.all_suites.clone();
            for suite in suites::reached(path, &all, &facts.suites) {
                self.add_suite(suite, path);
            }
            return;
        }
        match (owner, table::find(path)) {
            (Some((owner, inner)), _) if is_of_tests(inner) => self.add_crate(owner, path),
            // Clippy compiles them, and no test runs them.
            (Some((_, inner)), _) if is_of_nobody(inner) => {}
            (_, Some(entry)) => {
                for reach in entry.reaches {
                    self.follow(*reach, path, entry.why);
                }
            }
            (Some((owner, _)), None) => self.add_dependents(facts, owner, path),
            (None, None) => self.follow(Reach::Everything, path, "the table does not know it"),
        }
    }

    fn follow(&mut self, reach: Reach, path: &str, why: &str) {
        match reach {
            Reach::Crate(name) => self.add_crate(name, path),
            Reach::Target(krate, target) => {
                let key = (krate.to_owned(), target.to_owned());
                self.targets.entry(key).or_insert_with(|| path.to_owned());
            }
            Reach::Need(word) => {
                for suite in self.all_suites.clone() {
                    if suite.needs.iter().any(|need| need == word) {
                        self.add_suite(&suite, path);
                    }
                }
            }
            Reach::Lab => {
                for suite in self.all_suites.clone() {
                    self.add_suite(&suite, path);
                }
            }
            Reach::Everything => {
                self.everything
                    .get_or_insert_with(|| format!("{path}: {why}"));
            }
        }
    }

    fn add_dependents(&mut self, facts: &Facts, owner: &str, path: &str) {
        for name in facts.metadata.tested_with(owner) {
            self.add_crate(name, path);
        }
        if owner == suites::CRATE {
            self.follow(Reach::Lab, path, "");
        }
        let made = facts.metadata.made_of(owner);
        for (word, crates) in table::NEEDS {
            if crates.iter().any(|name| made.contains(name)) {
                self.follow(Reach::Need(word), path, "");
            }
        }
    }

    fn add_crate(&mut self, name: &str, path: &str) {
        let paths = self.crates.entry(name.to_owned());
        paths.or_insert_with(|| path.to_owned());
    }

    /// A suite that takes long is left to `--all`, unless it is what changed.
    fn add_suite(&mut self, suite: &Suite, path: &str) {
        if suite.is_default() || path.starts_with(suites::FOLDER) {
            self.suites
                .entry(suite.path.clone())
                .or_insert_with(|| (suite.clone(), path.to_owned()));
        }
    }

    /// nextest's filter of the tests of T0 and T1 that are run; nothing when there are none.
    pub(crate) fn filter(&self) -> Option<String> {
        if self.everything.is_some() {
            return Some(NOT_SUITES.to_owned());
        }
        let crates = self.crates.keys().map(|name| format!("package(={name})"));
        let targets = self
            .targets
            .keys()
            .map(|(krate, target)| format!("binary_id(={krate}::{target})"));
        let unsteady = self
            .unsteady
            .iter()
            .filter(|test| self.all_crates.contains(test.krate()))
            .map(single);
        let all: Vec<_> = crates.chain(targets).chain(unsteady).collect();
        (!all.is_empty()).then(|| format!("({}) & {NOT_SUITES}", all.join(" + ")))
    }

    /// The filter of new and changed tests of T0 and T1: run first, five times, in shake mode.
    pub(crate) fn touched_filter(&self) -> Option<String> {
        let tests = self.touched.iter();
        let all: Vec<_> = tests
            .map(|(krate, name)| format!("(package(={krate}) & test(/(^|::){name}$/))"))
            .collect();
        (!all.is_empty()).then(|| all.join(" + "))
    }

    /// The suites of the lab that are run, by cargo's target: names of tests with their modules. With
    /// `everything` all that a run without `--all` has.
    pub(crate) fn suites(&self) -> BTreeMap<String, Vec<String>> {
        let mut targets: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for suite in self.chosen_suites() {
            let tests = targets.entry(suite.target.clone()).or_default();
            tests.extend(suite.tests.iter().cloned());
        }
        let unsteady = self
            .unsteady
            .iter()
            .filter(|test| test.krate() == suites::CRATE);
        for test in unsteady {
            let known = |suite: &Suite| suite.tests.contains(&test.name);
            if let Some((_, target)) = test.binary.split_once("::")
                && self.all_suites.iter().any(known)
            {
                let tests = targets.entry(target.to_owned()).or_default();
                if !tests.contains(&test.name) {
                    tests.push(test.name.clone());
                }
            }
        }
        targets
    }

    /// nextest's filter of the suites that are run; nothing when none is.
    pub(crate) fn suites_filter(&self) -> Option<String> {
        let all: Vec<_> = self
            .suites()
            .iter()
            .map(|(target, tests)| {
                let tests: Vec<_> = tests.iter().map(|name| format!("test(={name})")).collect();
                let binary = format!("binary_id(={}::{target})", suites::CRATE);
                format!("({binary} & ({}))", tests.join(" + "))
            })
            .collect();
        (!all.is_empty()).then(|| all.join(" + "))
    }

    /// Whether a suite that is run needs `word`, as in `vm`: what nobody needs is not started.
    pub(crate) fn needs(&self, word: &str) -> bool {
        let chosen = self.chosen_suites();
        let unsteady = |suite: &&Suite| {
            self.unsteady
                .iter()
                .any(|test| suite.tests.contains(&test.name))
        };
        chosen
            .iter()
            .copied()
            .chain(self.all_suites.iter().filter(unsteady))
            .any(|suite| suite.needs.iter().any(|need| need == word))
    }

    fn chosen_suites(&self) -> Vec<&Suite> {
        let everything = self.everything.is_some();
        self.all_suites
            .iter()
            .filter(|suite| {
                everything && suite.is_default() || self.suites.contains_key(&suite.path)
            })
            .collect()
    }

    /// Whether `test` is new or changed: by its own text, of the lab's suites by their file.
    pub(crate) fn touches(&self, test: &TestName) -> bool {
        let last = test.name.rsplit("::").next().unwrap_or_default();
        self.touched
            .contains(&(test.krate().to_owned(), last.to_owned()))
            || self.suites.values().any(|(suite, why)| {
                why.starts_with(suites::FOLDER)
                    && test.binary == format!("{}::{}", suites::CRATE, suite.target)
                    && suite.tests.contains(&test.name)
            })
    }

    /// Whether `test` is left out although nothing says that it takes long.
    pub(crate) fn leaves_out(&self, test: &TestName) -> bool {
        if self.everything.is_some() || self.unsteady.contains(test) {
            return false;
        }
        if test.krate() == suites::CRATE && test.binary.contains("::") {
            let mut all = self.all_suites.iter();
            return match all.find(|suite| {
                test.binary == format!("{}::{}", suites::CRATE, suite.target)
                    && suite.tests.contains(&test.name)
            }) {
                Some(suite) => suite.is_default() && !self.suites.contains_key(&suite.path),
                None => true,
            };
        }
        let is_target =
            |(krate, target): &(String, String)| test.binary == format!("{krate}::{target}");
        !self.crates.contains_key(test.krate()) && !self.targets.keys().any(is_target)
    }
}

/// Failures that `--changed` would not have met: each one is a bug of the table, or of what a suite
/// declares. For the end of a run of everything.
pub(crate) fn missed(failures: &[TestName], selection: &Selection) -> Vec<String> {
    failures
        .iter()
        .filter(|failure| selection.leaves_out(failure))
        .map(|TestName { binary, name }| {
            format!(
                "{binary} {name} failed, and `--changed` would have left it out: unless the failure \
                 is older than this change, mend xtask/src/test/changed/table.rs or the `Needs:` of \
                 the suite"
            )
        })
        .collect()
}

/// Everything but the suites of the lab; unit tests of their crate are T0.
const NOT_SUITES: &str = "(all() - (package(=suites) & kind(test)))";

fn single(test: &TestName) -> String {
    // By its crate: nextest refuses the name of a binary that is gone since the last run.
    format!("(package(={}) & test(={}))", test.krate(), test.name)
}

/// Rust and data of a crate's tests alone: nobody is made of it.
fn is_of_tests(inner: &str) -> bool {
    inner.starts_with("tests/")
        || inner.starts_with("proptest-regressions/")
        || inner.contains("/tests/")
        || inner.ends_with("/tests.rs")
}

fn is_of_nobody(inner: &str) -> bool {
    inner.starts_with("examples/") || inner.starts_with("benches/")
}
