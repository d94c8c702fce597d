//! What a run says at its end: stages, the longest tests, stages over their budget, flaky tests.
//!
//! Invariant: pure, and it fails nothing: time is no judge.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::attempt::Attempt;
use super::changed::TestName;
use super::runs::{Run, Stage};

/// Names of stages, as they are kept.
pub(crate) const CHECKS: &str = "checks: format, lints, tidy, generated files";
pub(crate) const COMPILE: &str = "compiling tests";
pub(crate) const T0: &str = "T0: plans and laws";
pub(crate) const PROGRAMS: &str = "programs for T1";
pub(crate) const T1: &str = "T1: real kube-apiserver and etcd";
pub(crate) const BUILDS: &str = "waiting for the builds beside T1";
pub(crate) const LAB: &str = "lab with the operator";
pub(crate) const PLAYED: &str = "T2: workers on hosts";
pub(crate) const OVER: &str = "the lab goes over to KubeVirt";
pub(crate) const T2: &str = "T2: control planes in the lab";
pub(crate) const WORKERS: &str = "T2: workers in the lab";
pub(crate) const OLDER: &str = "T2: workers on an older KubeVirt";
pub(crate) const SHAKE: &str = "new and changed tests, shaken";

/// Minutes that a stage of a warm run may take.
const BUDGETS: [(&str, f64); 7] = [
    (CHECKS, 1.0),
    (COMPILE, 1.0),
    (T0, 0.5),
    (T1, 6.0),
    (LAB, 1.5),
    (T2, 4.0),
    (WORKERS, 3.0),
];
/// How much more than its budget, or than the usual start of servers, is worth a word.
const MUCH: f64 = 1.25;
/// So many of the longest tests are shown.
const LONGEST: usize = 20;

/// One test: seconds and core-seconds of all tries.
pub(crate) type Costs = Vec<(TestName, f64, Option<f64>)>;

/// Minutes and core-seconds of each stage.
pub(crate) fn stages(stages: &[Stage]) -> String {
    let mut text = format!(
        "{:<48} {:>6} {:>7} {:>8}\n",
        "stage", "min", "core-s", "machine"
    );
    for stage in stages {
        let Stage {
            name,
            seconds,
            core_seconds,
            machine_core_seconds,
            passed,
        } = stage;
        let failed = if *passed { "" } else { "  failed" };
        let minutes = seconds / 60.0;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{name:<48} {minutes:>6.1} {core_seconds:>7.0} {machine_core_seconds:>8.0}{failed}"
        );
    }
    text
}

/// What each test cost: its time by nextest's report, its processor time by our own notes.
pub(crate) fn costs(cases: &[super::junit::Case], attempts: &[Attempt]) -> Costs {
    let mut spent: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for attempt in attempts {
        *spent.entry((&attempt.binary, &attempt.name)).or_default() += attempt.core_seconds;
    }
    let mut costs: Costs = cases
        .iter()
        .map(|case| {
            let key = (case.test.binary.as_str(), case.test.name.as_str());
            (case.test.clone(), case.seconds, spent.get(&key).copied())
        })
        .collect();
    costs.sort_by(|a, b| b.1.total_cmp(&a.1));
    costs
}

/// The longest tests.
pub(crate) fn longest(costs: &Costs) -> String {
    let mut text = format!("{:>7} {:>7}  longest tests\n", "s", "core-s");
    for (test, seconds, core) in costs.iter().take(LONGEST) {
        let core = core.map_or_else(|| "?".to_owned(), |core| format!("{core:.1}"));
        let TestName { binary, name } = test;
        let _ = writeln!(text, "{seconds:>7.1} {core:>7}  {binary} {name}");
    }
    text
}

/// Stages that took much longer than they may although the machine was as quick as usual: `before` are
/// earlier runs' starts of the servers. Of a run that had more to build than our own crates, or loops
/// beside, nothing is said.
pub(crate) fn over_budget(run: &Run, before: &[f64]) -> Vec<String> {
    let quick = match (run.calibration_seconds, median(before)) {
        (Some(now), Some(usual)) => now <= usual * MUCH,
        _ => false,
    };
    if !quick || !run.is_warm() || run.kind.busy > 0 || run.kind.all {
        return Vec::new();
    }
    run.stages
        .iter()
        .filter_map(|stage| {
            let (_, budget) = BUDGETS.iter().find(|(name, _)| *name == stage.name)?;
            let minutes = stage.seconds / 60.0;
            (minutes > budget * MUCH).then(|| {
                format!(
                    "{}: {minutes:.1} min, and its budget is {budget:.1}; servers started as quickly as \
                     usual",
                    stage.name
                )
            })
        })
        .collect()
}

fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The last lines of a run: `flaky: N`, a line each, and why it is red.
pub(crate) fn closing(run: &Run) -> String {
    let mut text = String::new();
    for (test, how) in &run.quarantined {
        let _ = writeln!(text, "in quarantine: {test} {how}");
    }
    if let Some(what) = &run.left_out {
        let _ = writeln!(text, "left out: {what}");
    }
    let _ = writeln!(text, "flaky: {}", run.flaky.len());
    for test in &run.flaky {
        let pressure = test
            .pressure
            .map(|percent| format!(" (CPU pressure {percent:.0} %)"));
        let _ = writeln!(
            text,
            "  {} {}: {}{}",
            test.binary,
            test.name,
            test.message,
            pressure.unwrap_or_default()
        );
    }
    for red in &run.red {
        let _ = writeln!(text, "red: {red}");
    }
    text
}

#[cfg(test)]
mod tests;
