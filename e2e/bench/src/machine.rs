//! The machine and the day a figure belongs to, and how busy the machine was.
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

/// Core-seconds that this machine has worked since its start, whatever for; none without Linux's /proc.
pub(super) fn busy_s() -> Option<f64> {
    busy_in(&fs::read_to_string("/proc/stat").ok()?)
}

/// user, nice, system, irq and softirq of all processors (proc(5)), in ticks, of which there are 100 a second.
/// Guests are in user and nice already; what others took from a virtual machine is not its work.
fn busy_in(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .map(|n| n.parse().ok())
        .collect::<Option<_>>()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = ticks[..] else {
        return None;
    };
    Some((user + nice + system + irq + softirq) as f64 / 100.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_and_what_was_stolen_are_no_work() {
        let stat = "cpu  1000 100 400 90000 5000 30 70 800 600 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_in(stat), Some(16.0));
        assert_eq!(busy_in("cpu0 1 1 1 1 1 1 1\n"), None);
        assert_eq!(busy_in("cpu  1 2 x 4 5 6 7\n"), None);
        assert_eq!(busy_in("cpu  1 2 3\n"), None);
    }
}
