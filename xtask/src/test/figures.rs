//! `cargo xtask bench checks`: how long checks take and how steady they are, from the kept runs.
//!
//! Invariant: pure; a figure of which no run is kept is none.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::report::T1;
use super::runs::Run;

/// What the kept runs say. Minutes are those of the latest run of the sort that passed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Figures {
    /// Every tier, with everything but our own crates built before.
    pub(crate) warm_min: Option<f64>,
    /// Every tier, from empty caches.
    pub(crate) empty_min: Option<f64>,
    /// T1 of a run without busy loops.
    pub(crate) t1_min: Option<f64>,
    /// Different tests that were flaky in the last twenty runs with T1, but for those in quarantine.
    pub(crate) flaky: Option<usize>,
    /// Runs of T1 with busy loops beside.
    pub(crate) loaded: Loaded,
}

/// Runs of T1 with busy loops beside.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Loaded {
    pub(crate) runs: usize,
    pub(crate) red: usize,
    /// Names of the tests that were flaky in them.
    pub(crate) flaky: BTreeSet<String>,
    /// The commits that were run.
    pub(crate) commits: BTreeSet<String>,
}

/// Reads the figures off kept runs, the latest first.
pub(crate) fn figures(runs: &[Run]) -> Figures {
    let passed = |run: &&Run| run.passed;
    let minutes = |wanted: &dyn Fn(&Run) -> bool| {
        let mut found = runs.iter().filter(passed);
        let run = found.find(|run| run.is_whole() && wanted(run))?;
        Some(run.minutes)
    };
    let t1 = |run: &Run| Some(run.stage(T1)?.seconds / 60.0);
    let own = |run: &&Run| run.kind.busy == 0 && !run.kind.changed && !run.kind.all;
    let with_t1: Vec<_> = runs
        .iter()
        .filter(|run| run.stage(T1).is_some() && !run.kind.changed)
        .take(20)
        .collect();
    let names = |runs: &[&Run]| -> BTreeSet<String> {
        let tests = runs.iter().flat_map(|run| &run.flaky);
        tests
            .map(|test| format!("{} {}", test.binary, test.name))
            .collect()
    };
    let loaded: Vec<_> = runs
        .iter()
        .filter(|run| run.kind.busy > 0 && run.stage(T1).is_some())
        .collect();
    Figures {
        warm_min: minutes(&Run::is_warm),
        empty_min: minutes(&|run| run.from_empty),
        t1_min: runs.iter().filter(passed).filter(own).find_map(t1),
        flaky: (!with_t1.is_empty()).then(|| names(&with_t1).len()),
        loaded: Loaded {
            runs: loaded.len(),
            red: loaded.iter().filter(|run| !run.passed).count(),
            flaky: names(&loaded),
            commits: loaded.iter().map(|run| run.commit.clone()).collect(),
        },
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = |value: Option<f64>| match value {
            Some(minutes) => format!("{minutes:.1} min"),
            None => "no such run is kept".to_owned(),
        };
        writeln!(f, "warm        {}", minutes(self.warm_min))?;
        writeln!(f, "from empty  {}", minutes(self.empty_min))?;
        writeln!(f, "T1          {}", minutes(self.t1_min))?;
        match self.flaky {
            Some(number) => writeln!(f, "flaky       {number} in the last twenty runs")?,
            None => writeln!(f, "flaky       no such run is kept")?,
        }
        let Loaded {
            runs, red, flaky, ..
        } = &self.loaded;
        write!(
            f,
            "loaded      {runs} runs of T1 with busy loops beside, {red} of them red, {} tests flaky",
            flaky.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::runs::{Kind, Stage, Unsteady};
    use super::*;

    fn run(minutes: f64) -> Run {
        Run {
            minutes,
            passed: true,
            stages: vec![Stage {
                name: T1.to_owned(),
                seconds: minutes * 30.0,
                ..Stage::default()
            }],
            ..Run::default()
        }
    }

    #[test]
    fn figures_are_of_the_latest_run_of_their_sort() {
        let cold = Run {
            from_empty: true,
            dependencies: 400,
            go: vec!["etcd-1".to_owned()],
            ..run(48.0)
        };
        let half = Run {
            dependencies: 3,
            ..run(25.0)
        };
        let red = Run {
            passed: false,
            ..run(9.0)
        };
        let figures = figures(&[red, half, run(17.0), run(19.0), cold]);
        assert_eq!(figures.warm_min, Some(17.0));
        assert_eq!(figures.empty_min, Some(48.0));
        assert_eq!(figures.t1_min, Some(12.5));
        assert_eq!(figures.flaky, Some(0));
    }

    #[test]
    fn without_runs_there_are_no_figures() {
        let figures = figures(&[]);
        assert_eq!(figures, Figures::default());
        let json = serde_json::to_value(&figures).unwrap();
        assert!(json["warm_min"].is_null() && json["flaky"].is_null());
    }

    #[test]
    fn loaded_runs_are_counted_apart_and_are_nobodys_minutes() {
        let loaded = Run {
            kind: Kind {
                only: Some("t1".to_owned()),
                busy: 2,
                ..Kind::default()
            },
            flaky: vec![Unsteady {
                binary: "ccm::t1".to_owned(),
                name: "nodes::a".to_owned(),
                ..Unsteady::default()
            }],
            commit: "abc".to_owned(),
            ..run(30.0)
        };
        let figures = figures(&[loaded.clone(), loaded]);
        assert_eq!((figures.t1_min, figures.flaky), (None, Some(1)));
        assert_eq!((figures.loaded.runs, figures.loaded.red), (2, 0));
        assert_eq!(figures.loaded.commits.len(), 1);
    }
}
