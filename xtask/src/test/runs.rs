//! Runs that are kept: `<cache>/runs/<time>-<commit>/` with the reports of nextest, what each stage and
//! each test cost, and what failing tests said.
//!
//! Invariant: `run.json` is written last, so a folder without it is a run that was broken off, which
//! counts for nothing; of each kind of run the last twenty are kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use lab::cache_dir;
use serde::{Deserialize, Serialize};

use super::changed::TestName;

/// So many runs of a kind are kept.
const KEPT: usize = 20;
const FILE: &str = "run.json";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What was asked for; runs that were asked for the same are of one kind.
#[derive(Clone, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Kind {
    /// The one tier that was run; all of them without.
    pub(crate) only: Option<String>,
    pub(crate) all: bool,
    pub(crate) changed: bool,
    /// Busy loops beside.
    pub(crate) busy: usize,
}

/// What one stage cost.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Stage {
    pub(crate) name: String,
    pub(crate) seconds: f64,
    /// Of what this command started and waited for.
    pub(crate) core_seconds: f64,
    /// Of the whole machine: the lab's processes too, and whatever else there was.
    pub(crate) machine_core_seconds: f64,
    pub(crate) passed: bool,
}

/// One test that was flaky or failed.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Unsteady {
    pub(crate) binary: String,
    pub(crate) name: String,
    /// What its first try said.
    pub(crate) message: String,
    /// Of its first try, in per cent.
    pub(crate) pressure: Option<f64>,
}

impl Unsteady {
    pub(crate) fn test(&self) -> TestName {
        TestName {
            binary: self.binary.clone(),
            name: self.name.clone(),
        }
    }
}

/// One run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Run {
    pub(crate) began: String,
    pub(crate) commit: String,
    /// Something was not committed.
    pub(crate) dirty: bool,
    pub(crate) kind: Kind,
    pub(crate) stages: Vec<Stage>,
    /// From the start of etcd and kube-apiserver until they answered.
    pub(crate) calibration_seconds: Option<f64>,
    /// Programs that Go built in this run.
    pub(crate) go: Vec<String>,
    /// Crates of others that were compiled in this run.
    pub(crate) dependencies: usize,
    /// Nothing was there when it began.
    pub(crate) from_empty: bool,
    pub(crate) minutes: f64,
    pub(crate) flaky: Vec<Unsteady>,
    pub(crate) failed: Vec<Unsteady>,
    /// Tests in quarantine, and how they ended.
    pub(crate) quarantined: BTreeMap<String, String>,
    /// What was not run because of the time, and why.
    #[serde(default)]
    pub(crate) left_out: Option<String>,
    pub(crate) passed: bool,
    /// Why it did not pass.
    pub(crate) red: Vec<String>,
}

impl Run {
    /// Nothing had to be built but what is ours.
    pub(crate) fn is_warm(&self) -> bool {
        self.go.is_empty() && self.dependencies == 0 && !self.from_empty
    }

    /// Every tier, as a landing has them.
    pub(crate) fn is_whole(&self) -> bool {
        self.kind == Kind::default() && self.left_out.is_none()
    }

    pub(crate) fn stage(&self, name: &str) -> Option<&Stage> {
        self.stages.iter().find(|stage| stage.name == name)
    }
}

/// Where runs are kept.
///
/// # Errors
/// When there is no cache folder.
pub(crate) fn folder() -> Result<PathBuf> {
    Ok(cache_dir()?.join("runs"))
}

/// All kept runs, the latest first.
pub(crate) fn read(folder: &Path) -> Vec<(PathBuf, Run)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut runs: Vec<_> = entries
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path().join(FILE)).ok()?;
            Some((entry.path(), serde_json::from_str::<Run>(&text).ok()?))
        })
        .collect();
    runs.sort_by(|(_, a), (_, b)| b.began.cmp(&a.began));
    runs
}

/// Makes the folder and removes what runs left in it that were broken off a day before `now`.
///
/// # Errors
/// When something stays.
pub(crate) fn sweep(folder: &Path, now: SystemTime) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    for entry in fs::read_dir(folder)? {
        let place = entry?.path();
        let changed = fs::metadata(&place).and_then(|metadata| metadata.modified());
        let age = changed.ok().and_then(|time| now.duration_since(time).ok());
        if !place.join(FILE).exists() && age.is_some_and(|age| age > DAY) {
            fs::remove_dir_all(&place).with_context(|| format!("{} stays", place.display()))?;
        }
    }
    Ok(())
}

/// Writes down a run that is over, and removes what is one too many of its kind.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn keep(place: &Path, run: &Run) -> Result<()> {
    let text = serde_json::to_string_pretty(run)?;
    fs::write(place.join(FILE), text)
        .with_context(|| format!("{} cannot be written", place.display()))?;
    let all = place.parent().map(read).unwrap_or_default();
    for old in surplus(&all) {
        fs::remove_dir_all(old).with_context(|| format!("{} stays", old.display()))?;
    }
    Ok(())
}

/// Runs, the latest first, that are more than are kept of a kind.
fn surplus(runs: &[(PathBuf, Run)]) -> Vec<&Path> {
    let mut seen: BTreeMap<&Kind, usize> = BTreeMap::new();
    runs.iter()
        .filter(|(_, run)| {
            let number = seen.entry(&run.kind).or_default();
            *number += 1;
            *number > KEPT
        })
        .map(|(place, _)| place.as_path())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(began: usize, busy: usize) -> Run {
        Run {
            began: format!("2026-11-24T10:{began:02}:00Z"),
            kind: Kind {
                busy,
                ..Kind::default()
            },
            ..Run::default()
        }
    }

    #[test]
    fn of_each_kind_the_last_twenty_are_kept_and_one_broken_off_counts_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let place = folder.path().join(name);
            fs::create_dir(&place).unwrap();
            place
        };
        place("broken-off");
        keep(&place("loaded"), &run(0, 2)).unwrap();
        for number in 1..=KEPT + 2 {
            keep(&place(&format!("{number:02}")), &run(number, 0)).unwrap();
        }
        let kept = read(folder.path());
        let names: Vec<_> = kept
            .iter()
            .map(|(place, _)| place.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names.len(), KEPT + 1);
        assert_eq!((names[0].as_str(), names[19].as_str()), ("22", "03"));
        assert_eq!(names[20], "loaded");
    }

    #[test]
    fn what_a_broken_off_run_left_goes_a_day_later_and_a_kept_run_stays() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["broken-off", "kept"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        keep(&folder.path().join("kept"), &run(0, 0)).unwrap();
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let now = SystemTime::now();
        sweep(folder.path(), now).unwrap();
        assert_eq!(names(), 2);
        sweep(folder.path(), now + DAY * 2).unwrap();
        assert_eq!(names(), 1);
        assert_eq!(read(folder.path()).len(), 1);
    }

    #[test]
    fn a_run_knows_whether_it_was_warm() {
        assert!(Run::default().is_warm());
        let go = vec!["etcd-1".to_owned()];
        assert!(
            !Run {
                go,
                ..Run::default()
            }
            .is_warm()
        );
        let compiled = Run {
            dependencies: 1,
            ..Run::default()
        };
        assert!(!compiled.is_warm());
        assert!(run(0, 0).is_whole() && !run(0, 1).is_whole());
        let late = Run {
            left_out: Some("T2".to_owned()),
            ..run(0, 0)
        };
        assert!(!late.is_whole());
    }
}
