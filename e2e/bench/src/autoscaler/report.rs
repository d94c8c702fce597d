//! The figures of `autoscaler` as JSON and as a table.
//!
//! Invariant: a figure that was not measured is null, never zero.

use std::fmt::Write as _;

use serde::Serialize;

use super::Spread;
use crate::Machine;

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where and when.
    pub machine: Machine,
    /// Kubernetes version of the tenant cluster.
    pub version: String,
    /// IncreaseSize called to the VirtualMachine there, seconds: what a pod that cannot be scheduled
    /// waits for beside the Cluster Autoscaler's own scan.
    pub pod_to_vm_s: Spread,
    /// Writes of the adapter to the management API in an idle minute.
    pub idle_writes_per_min: Option<f64>,
    /// From zero to several nodes and back.
    pub phases: Option<Phases>,
    /// What was measured without the lab: `loop_ms`, `rss_mib` and others.
    #[serde(flatten)]
    pub service: serde_json::Map<String, serde_json::Value>,
}

/// From zero to several nodes and back. All of it counts from the Deployment's creation or deletion
/// and has the client's scans (1 s) in it; a node goes 5 s after it was needed last.
#[derive(Clone, Debug, Serialize)]
pub struct Phases {
    /// How many.
    pub nodes: i32,
    /// All VirtualMachines are there, seconds.
    pub vms_s: f64,
    /// All nodes are ready, seconds.
    pub nodes_ready_s: f64,
    /// All pods are ready, seconds.
    pub pods_ready_s: f64,
    /// From the deletion until no Machine is left, seconds.
    pub given_back_s: f64,
}

impl Report {
    /// For people.
    #[must_use]
    pub fn table(&self) -> String {
        let m = &self.machine;
        let mut text = format!(
            "{} · {} cores {} · {} GiB · load {} · {}\nKubernetes {}\n\n",
            m.date, m.cores, m.cpu, m.memory_gib, m.load_before, m.commit, self.version,
        );
        let mut row = |what: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{what:<52} {value}");
        };
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
        let vm = &self.pod_to_vm_s;
        let pair = format!("{} / {}", number(vm.p50), number(vm.p95));
        row("wish to VirtualMachine, s, p50 / p95", pair);
        row("writes in an idle minute", number(self.idle_writes_per_min));
        for (name, value) in &self.service {
            row(name, value.to_string());
        }
        if let Some(phases) = &self.phases {
            let up = format!("0 to {}: virtual machines; nodes; pods, s", phases.nodes);
            let times = [phases.vms_s, phases.nodes_ready_s, phases.pods_ready_s];
            row(&up, times.map(|time| time.to_string()).join("; "));
            let down = format!("{} to 0, s", phases.nodes);
            row(&down, phases.given_back_s.to_string());
        }
        text
    }
}
