//! Version, memory, CPU time and threads of this process, read from /proc when somebody asks.
//!
//! Names follow the Prometheus client guidelines (`process_*`), and the version is that of the workspace, which all
//! programs share. Invariant: no `unsafe`: resident
//! memory comes from /proc/self/status in KiB rather than from statm in pages of a size that only
//! libc knows, and clock ticks are 100 a second, which Linux's user ABI fixes (`USER_HZ`).

use std::fmt;
use std::fs;
use std::path::Path;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

const TICKS_PER_SECOND: f64 = 100.0;
/// The release that this is.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What this process uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Resident memory.
    pub rss_bytes: u64,
    /// User and system time since the start.
    pub cpu_seconds: f64,
    /// Threads.
    pub threads: u64,
}

impl Usage {
    /// Resident memory in MiB.
    #[must_use]
    pub fn rss_mib(&self) -> f64 {
        self.rss_bytes as f64 / f64::from(1 << 20)
    }
}

/// Reads the present usage; `None` where there is no Linux /proc.
pub fn usage() -> Option<Usage> {
    usage_in(Path::new("/proc/self"))
}

/// The same of another process, by its folder in /proc; `None` when it is gone.
pub fn usage_in(folder: &Path) -> Option<Usage> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    parse(&read("status")?, &read("stat")?)
}

fn parse(status: &str, stat: &str) -> Option<Usage> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    // The second field is the command in parentheses and may hold spaces and parentheses. After
    // it, utime and stime are fields 14 and 15 of proc(5), counted from 3.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut ticks = rest
        .split_whitespace()
        .skip(14 - 3)
        .take(2)
        .map(str::parse::<u32>);
    let (user, system) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    Some(Usage {
        rss_bytes: field("VmRSS:")? * 1024,
        cpu_seconds: (f64::from(user) + f64::from(system)) / TICKS_PER_SECOND,
        threads: field("Threads:")?,
    })
}

/// Shows [`usage`] whenever the metrics are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessMetrics;

impl ProcessMetrics {
    /// Adds `covey_build_info`, `process_resident_memory_bytes`, `process_cpu_seconds_total` and `process_threads`.
    pub fn register(registry: &mut Registry) {
        registry.register_collector(Box::new(Self));
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let build = ConstGauge::new(1_i64);
        let help = "1, with the version of the program";
        let kind = build.metric_type();
        let mut family = encoder.encode_descriptor("covey_build_info", help, None, kind)?;
        build.encode(family.encode_family(&[("version", VERSION)])?)?;
        let Some(Usage {
            rss_bytes,
            cpu_seconds,
            threads,
        }) = usage()
        else {
            return Ok(());
        };
        let memory = ConstGauge::new(i64::try_from(rss_bytes).unwrap_or(i64::MAX));
        let cpu = ConstCounter::new(cpu_seconds);
        let threads = ConstGauge::new(i64::try_from(threads).unwrap_or(i64::MAX));
        let help = "Resident memory";
        let kind = memory.metric_type();
        memory.encode(encoder.encode_descriptor(
            "process_resident_memory",
            help,
            Some(&Unit::Bytes),
            kind,
        )?)?;
        let help = "User and system CPU time";
        let kind = cpu.metric_type();
        cpu.encode(encoder.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), kind)?)?;
        let kind = threads.metric_type();
        threads.encode(encoder.encode_descriptor("process_threads", "Threads", None, kind)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tx\nVmHWM:\t  900 kB\nVmRSS:\t  512 kB\nThreads:\t3\n";

    #[test]
    fn fields_are_found_behind_a_command_full_of_parentheses() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 1 2 3";
        let expected = Usage {
            rss_bytes: 524_288,
            cpu_seconds: 3.0,
            threads: 3,
        };
        assert_eq!(parse(STATUS, stat), Some(expected));
        assert_eq!(parse("", stat), None);
        assert_eq!(parse(STATUS, "7 (a) S 1"), None);
    }

    #[test]
    fn this_process_shows_its_own_usage() {
        let now = usage().expect("tests run on Linux");
        assert!(now.rss_bytes > 1 << 20 && now.threads >= 1, "{now:?}");
        let mut registry = Registry::default();
        ProcessMetrics::register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for name in [
            "process_resident_memory_bytes ",
            "process_cpu_seconds_total ",
            "process_threads ",
        ] {
            assert!(
                text.lines().any(|line| line.starts_with(name)),
                "no {name}in\n{text}"
            );
        }
    }
}
