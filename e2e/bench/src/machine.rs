//! The machine and the day a figure belongs to.
//!
//! Invariant: no figure is reported without them.

use std::fs;

use serde::Serialize;

/// Where and when.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// UTC, RFC 3339.
    pub date: String,
    /// Logical processors.
    pub cores: usize,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// Kernel release.
    pub kernel: String,
    /// Processor's name.
    pub cpu: String,
    /// Load average of the last minute when the bench began: much above 0 means a disturbed run.
    pub load_before: f64,
    /// Commit of the checkout, with `+` when it has changes.
    pub commit: String,
}

impl Machine {
    /// This machine, now.
    #[must_use]
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line
                .and_then(|line| line.split_once(':'))
                .map(|(_, value)| value.trim());
            value.unwrap_or_default().to_owned()
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let kib: f64 = memory
            .split(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or_default();
        let load = read("/proc/loadavg");
        let load = load.split(' ').next().and_then(|n| n.parse().ok());
        Self {
            date: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: super::round(kib / 1_048_576.0),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            load_before: load.unwrap_or_default(),
            commit: commit(),
        }
    }
}

fn commit() -> String {
    let git = |args: &[&str]| {
        let output = std::process::Command::new("git").args(args).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let Some(hash) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return String::new();
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    let mark = if changed.is_some_and(|text| !text.is_empty()) {
        "+"
    } else {
        ""
    };
    format!("{hash}{mark}")
}
