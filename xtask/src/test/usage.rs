//! What work costs: processor time of children and of the machine, and waiting for a processor.
//!
//! Invariant: figures only grow, so a difference of two is what was spent between them; reading them is
//! apart from understanding them, and what cannot be read counts as nothing.

use std::fs;

/// Seconds of processor time of all children that ended and were waited for, with theirs.
pub(crate) fn children() -> f64 {
    let ticks = read("/proc/self/stat").as_deref().and_then(children_ticks);
    seconds(ticks)
}

/// Seconds of processor time that this machine has worked since its start, for whomever.
pub(crate) fn machine() -> f64 {
    seconds(read("/proc/stat").as_deref().and_then(machine_ticks))
}

/// Seconds in which something on this machine waited for a processor; none without pressure figures.
pub(crate) fn pressure() -> Option<f64> {
    read("/proc/pressure/cpu").as_deref().and_then(waited)
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[allow(clippy::cast_precision_loss, reason = "figures to be read by people")]
fn seconds(ticks: Option<u64>) -> f64 {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    ticks.unwrap_or_default() as f64 / per_second as f64
}

/// Fields 16 and 17 of proc_pid_stat(5); the name before them may hold spaces and brackets.
fn children_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The first line of proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal.
fn machine_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .filter_map(|f| f.parse().ok())
        .collect();
    let busy = [0, 1, 2, 5, 6];
    busy.iter().map(|at| fields.get(*at).copied()).sum()
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=123` in microseconds.
#[allow(clippy::cast_precision_loss, reason = "figures to be read by people")]
fn waited(pressure: &str) -> Option<f64> {
    let line = pressure.lines().find(|line| line.starts_with("some"))?;
    let (_, total) = line.rsplit_once("total=")?;
    let microseconds: u64 = total.trim().parse().ok()?;
    Some(microseconds as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_kernels_texts() {
        let stat = "7 (a) b) R 1 7 7 0 -1 4 9 9 9 9 11 12 130 70 20 0 1 0 99 1 1";
        assert_eq!(children_ticks(stat), Some(200));
        let stat = "cpu  10 1 5 999 99 2 2 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(machine_ticks(stat), Some(20));
        let text =
            "some avg10=1.00 avg60=2.00 avg300=3.00 total=2500000\nfull avg10=0.00 total=1\n";
        assert_eq!(waited(text), Some(2.5));
        for nonsense in ["", "7 (a", "some total=x"] {
            assert_eq!(children_ticks(nonsense), None, "{nonsense}");
            assert_eq!(waited(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn this_machine_has_worked() {
        assert!(machine() > 0.0);
    }
}
