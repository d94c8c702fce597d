//! What the kernel says of the programs of one tenant cluster.
//!
//! Invariant: a figure that cannot be read is an error, not zero.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kit::metrics::usage_in;
use serde_json::{Value, json};

const KIB_IN_MIB: f64 = 1024.0;
/// Tenant clusters that share a node, and with it the files of their programs.
const NEIGHBOURS: f64 = 20.0;

/// One process so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) cpu_s: f64,
    /// How often its threads slept.
    sleeps: u64,
    /// Memory that is its own, MiB.
    anonymous: f64,
    /// Pages of files, which it shares with others that run the same, MiB.
    file: f64,
    /// The most resident memory at any time, MiB.
    pub(crate) peak: f64,
}

/// Programs by the names of their containers.
pub(crate) type Reading = BTreeMap<String, Used>;

pub(crate) fn of(pid: u32) -> Result<Used> {
    let folder = Path::new("/proc").join(pid.to_string());
    let usage = usage_in(&folder).context("it has ended")?;
    let status = fs::read_to_string(folder.join("status")).context("it has ended")?;
    let mib = |name: &str| -> Result<f64> {
        let kib = field(&status, name).with_context(|| format!("no {name} in its status"))?;
        Ok(kib / KIB_IN_MIB)
    };
    let mut sleeps = 0.0;
    for thread in fs::read_dir(folder.join("task")).context("it has ended")? {
        // A thread may end meanwhile.
        let status = fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
        sleeps += field(&status, "voluntary_ctxt_switches:").unwrap_or_default();
    }
    Ok(Used {
        cpu_s: usage.cpu_seconds,
        sleeps: sleeps as u64,
        anonymous: mib("RssAnon:")?,
        file: mib("RssFile:")?,
        peak: mib("VmHWM:")?,
    })
}

fn field(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn tenth(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// What each program took between two readings, and all of them together.
pub(crate) fn difference(before: &Reading, after: &Reading, between: Duration) -> Value {
    let seconds = between.as_secs_f64();
    let each = after.iter().filter_map(|(name, after)| {
        let before = before.get(name)?;
        let cpu = (after.cpu_s - before.cpu_s) / seconds * 1000.0;
        let sleeps = after.sleeps.saturating_sub(before.sleeps) as f64 / seconds;
        Some((name, cpu, sleeps, *after))
    });
    let mut programs = serde_json::Map::new();
    let mut sum = (0.0, 0.0, 0.0, 0.0);
    for (name, cpu, sleeps, used) in each {
        let shared = used.anonymous + used.file / NEIGHBOURS;
        sum = (
            sum.0 + cpu,
            sum.1 + sleeps,
            sum.2 + used.anonymous,
            sum.3 + shared,
        );
        programs.insert(
            name.clone(),
            json!({
                "cpu_m": tenth(cpu), "sleeps_per_s": tenth(sleeps),
                "anonymous_mib": tenth(used.anonymous), "file_mib": tenth(used.file),
            }),
        );
    }
    json!({
        "programs": programs,
        "sum": {
            "cpu_m": tenth(sum.0), "sleeps_per_s": tenth(sum.1), "anonymous_mib": tenth(sum.2),
            // As `pss_mib` of `bench control-plane`.
            "proportional_mib_of_20": tenth(sum.3),
        },
    })
}
