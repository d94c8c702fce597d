//! The figures of `control-plane` as JSON and as a table.
//!
//! Invariant: a figure that was not measured is null, never zero.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use super::{Machine, percentile, processes::IdleTenant, round};

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where and when.
    pub machine: Machine,
    /// Kubernetes version of the tenants.
    pub version: String,
    /// Tenants created one after another.
    pub tenants: usize,
    /// Create call to the first authenticated write, seconds.
    pub usable_s: Spread,
    /// Create call to the condition Ready, seconds.
    pub ready_s: Spread,
    /// Create call to the first authenticated write where a control plane waits and is taken over, seconds; then nothing
    /// else is measured.
    pub standby_usable_s: Spread,
    /// The same to the condition Ready.
    pub standby_ready_s: Spread,
    /// What the operator costs.
    pub operator: OperatorCost,
    /// Create calls of 8 tenants at once to the last one's first write, seconds.
    pub burst8_s: Option<f64>,
    /// The same for 20.
    pub burst20_s: Option<f64>,
    /// Container restarts in all bursts.
    pub burst_restarts: Option<i64>,
    /// Writes to the management API by the operator per creation.
    pub writes_per_create: Option<f64>,
    /// Reads from the management API by the operator per creation, watches included.
    pub reads_per_create: Option<f64>,
    /// Core-seconds of the whole machine per creation, from the create call until everything is settled: of
    /// all programs, the management cluster at rest and the bench included.
    pub core_s_per_create: Option<f64>,
    /// What a tenant at rest takes, in the idle time.
    pub idle_tenant: IdleTenant,
    /// Pod templates per Deployment or StatefulSet and creation; the worst of all creations.
    pub rollouts_per_create: Option<usize>,
    /// Requests of the operator per creation, by verb and resource.
    pub requests_per_create: BTreeMap<String, f64>,
    /// Requests of the operator in an idle minute, by verb and resource.
    pub idle_requests_per_min: BTreeMap<String, f64>,
    /// Container restarts while tenants were created one after another.
    pub single_restarts: i64,
    /// Each burst.
    pub bursts: Vec<Burst>,
    /// Create call until everything of a tenant is gone again, seconds from the delete call.
    pub delete_s: Spread,
    /// CPU seconds of the bench itself per creation: what it took away from what it measured.
    pub client_cpu_s_per_create: Option<f64>,
    /// What went wrong, in words.
    pub notes: Vec<String>,
}

/// A few values of one kind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Spread {
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile (nearest rank; the greatest of fewer than 20 values).
    pub p95: Option<f64>,
    /// All, in the order they were measured.
    pub all: Vec<f64>,
}

impl Spread {
    pub(super) fn of(values: &[f64]) -> Self {
        Self {
            p50: percentile(values, 0.5).map(round),
            p95: percentile(values, 0.95).map(round),
            all: values.iter().copied().map(round).collect(),
        }
    }
}

/// A value, or that it was not measured.
pub(super) fn number(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

/// Median and 95th percentile.
pub(super) fn pair(spread: &Spread) -> String {
    format!("{} / {}", number(spread.p50), number(spread.p95))
}

/// A table for people: what was measured, and its goal.
pub(super) fn table(
    machine: &Machine,
    version: &str,
    rows: &[(&str, String, &str)],
    notes: &[String],
) -> String {
    let m = machine;
    let mut text = format!(
        "{} · {} cores {} · {} GiB · load {} · {}\nKubernetes {version}\n\n",
        m.date, m.cores, m.cpu, m.memory_gib, m.load_before, m.commit,
    );
    let heading = ("", "measured".to_owned(), "goal");
    for (what, value, goal) in [&heading].into_iter().chain(rows) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{what:<52} {value:>14} {goal:>8}");
    }
    for note in notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// What the operator costs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OperatorCost {
    /// Memory of the larger pod before the first tenant, MiB.
    pub rss_mib: Option<f64>,
    /// What each further tenant adds to that, MiB: from the smallest burst to the largest.
    pub rss_mib_per_tenant: Option<f64>,
    /// CPU seconds of all pods per creation.
    pub cpu_s_per_create: Option<f64>,
    /// CPU seconds of all pods in an idle minute.
    pub idle_cpu_s_per_min: Option<f64>,
    /// Writes to the management API in an idle minute, the Lease aside.
    pub idle_writes_per_min: Option<f64>,
    /// Tenants that were there in the idle minute.
    pub idle_tenants: usize,
}

/// Tenants created at once.
#[derive(Clone, Debug, Serialize)]
pub struct Burst {
    /// How many.
    pub count: usize,
    /// How many became usable.
    pub usable: usize,
    /// Until the last was usable, seconds; null when not all were.
    pub seconds: Option<f64>,
    /// Until each was usable, seconds, sorted.
    pub each: Vec<f64>,
    /// Container restarts.
    pub restarts: i64,
    /// Resident memory of the operator's larger pod with all of them there, MiB.
    pub rss_mib: f64,
}

impl Report {
    /// The table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::new();
        let m = &self.machine;
        let _ = writeln!(
            text,
            "{} · {} cores {} · {} GiB · Linux {} · load {} · {}\nKubernetes {}, {} tenants one \
             after another\n",
            m.date,
            m.cores,
            m.cpu,
            m.memory_gib,
            m.kernel,
            m.load_before,
            m.commit,
            self.version,
            self.tenants,
        );
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| v.to_string());
        let spread = |s: &Spread| format!("{} / {}", number(s.p50), number(s.p95));
        let (op, rest) = (&self.operator, &self.idle_tenant);
        let rows = [
            (
                "create to first write, p50 / p95",
                spread(&self.usable_s),
                "s",
                "4.5 / 6.5",
            ),
            ("create to Ready, p50 / p95", spread(&self.ready_s), "s", ""),
            (
                "usable by taking over, p50 / p95",
                spread(&self.standby_usable_s),
                "s",
                "≤ 0.8",
            ),
            (
                "Ready by taking over, p50 / p95",
                spread(&self.standby_ready_s),
                "s",
                "",
            ),
            ("delete to gone, p50 / p95", spread(&self.delete_s), "s", ""),
            ("8 at once, all usable", number(self.burst8_s), "s", "45"),
            ("20 at once, all usable", number(self.burst20_s), "s", "110"),
            (
                "container restarts in bursts",
                count(self.burst_restarts),
                "",
                "0",
            ),
            (
                "pod rollouts per creation",
                count(self.rollouts_per_create),
                "",
                "1",
            ),
            (
                "writes per creation",
                number(self.writes_per_create),
                "",
                "",
            ),
            (
                "reads per creation",
                number(self.reads_per_create),
                "",
                "40",
            ),
            (
                "core-seconds per creation",
                number(self.core_s_per_create),
                "s",
                "",
            ),
            (
                "writes per idle minute",
                number(op.idle_writes_per_min),
                "",
                "0",
            ),
            ("operator memory, idle", number(op.rss_mib), "MiB", "40"),
            (
                "operator memory per tenant",
                number(op.rss_mib_per_tenant),
                "MiB",
                "0.3",
            ),
            (
                "operator CPU per creation",
                number(op.cpu_s_per_create),
                "s",
                "",
            ),
            (
                "operator CPU per idle minute",
                number(op.idle_cpu_s_per_min),
                "s",
                "",
            ),
            ("CPU of an idle tenant", number(rest.cpu_m), "m", ""),
            ("RSS of an idle tenant", number(rest.rss_mib), "MiB", ""),
            ("PSS of an idle tenant", number(rest.pss_mib), "MiB", ""),
        ];
        let _ = writeln!(
            text,
            "{:<34} {:>16} {:<4} {:>10}",
            "", "measured", "", "target"
        );
        for (what, value, unit, target) in rows {
            let _ = writeln!(text, "{what:<34} {value:>16} {unit:<4} {target:>10}");
        }
        for (title, requests) in [
            ("requests per creation", &self.requests_per_create),
            ("requests per idle minute", &self.idle_requests_per_min),
        ] {
            let _ = writeln!(text, "\n{title}");
            for (what, number) in requests {
                let _ = writeln!(text, "  {number:>7}  {what}");
            }
        }
        for note in &self.notes {
            let _ = writeln!(text, "\nnote: {note}");
        }
        text
    }
}

fn count(value: Option<impl ToString>) -> String {
    value.map_or("-".to_owned(), |v| v.to_string())
}
