//! The figures of `workers` as JSON and as a table.
//!
//! Invariant: a figure that was not measured is null, never zero.

use std::fmt::Write as _;

use serde::Serialize;

use super::boot::Systemd;
use crate::{Machine, report::Spread};

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where and when.
    pub machine: Machine,
    /// Kubernetes version of tenant cluster and nodes.
    pub version: String,
    /// Pools of one that were made one after another.
    pub rounds: usize,
    /// Create call of the NodePool until its VirtualMachine was seen, seconds.
    pub pool_to_vm_s: Spread,
    /// Instance seen Running until its Node was seen ready, seconds.
    pub vm_running_to_ready_s: Spread,
    /// The parts of the way from the create call to the ready Node, seconds.
    pub phases: Phases,
    /// Instance seen Running until the Machine's status said so, seconds.
    pub vm_to_machine_s: Spread,
    /// Create call of the NodePool until it was Ready, seconds.
    pub pool_ready_s: Spread,
    /// Delete call of a pool of one until it and everything of it was gone, seconds.
    pub pool_delete_s: Spread,
    /// A pool of more than one.
    pub pool: Option<Sizes>,
    /// What the first node says of its boot.
    pub systemd: Option<Systemd>,
    /// Requests of the steady client that failed.
    pub failed_requests: Option<u64>,
    /// Requests of the steady client that were answered.
    pub answered_requests: Option<u64>,
    /// Longest time in which the steady client had no success with one kind of request, seconds.
    pub longest_gap_s: Option<f64>,
    /// Failures by kind and error, in words.
    pub failures: Vec<String>,
    /// What went wrong, in words.
    pub notes: Vec<String>,
}

/// The way of one machine, part by part.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Phases {
    /// VirtualMachine seen until its instance was seen Running: KubeVirt.
    pub start: Spread,
    /// From the start of its kernel until systemd took over.
    pub boot: Spread,
    /// Until the commands of the user data began, which join: systemd, the disk of user data.
    pub cloud_init: Spread,
    /// Until the Node was seen: kubeadm, the kubelet's start, its certificate.
    pub join: Spread,
    /// Until it was ready: the pods of the network on it.
    pub cni: Spread,
}

/// What a pool of more than one took.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sizes {
    /// Its size.
    pub size: i32,
    /// Create call until it was Ready, seconds.
    pub ready_s: Option<f64>,
    /// Each machine's instance seen Running until its node was ready, seconds.
    pub each_running_to_ready_s: Vec<f64>,
    /// Scaled to 0 until nothing of it was left, seconds.
    pub to_zero_s: Option<f64>,
    /// Scaled from 0 to 2 until it was Ready, seconds.
    pub back_to_2_s: Option<f64>,
    /// Another template for 2 until both were replaced and Ready, seconds.
    pub rollout_of_2_s: Option<f64>,
}

impl Report {
    /// The table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::new();
        let m = &self.machine;
        let _ = writeln!(
            text,
            "{} · {} cores {} · {} GiB · Linux {} · load {} · {}\nKubernetes {}, {} pools of one, \
             one after another\n",
            m.date,
            m.cores,
            m.cpu,
            m.memory_gib,
            m.kernel,
            m.load_before,
            m.commit,
            self.version,
            self.rounds,
        );
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| v.to_string());
        let spread = |s: &Spread| format!("{} / {}", number(s.p50), number(s.p95));
        let pool = self.pool.clone().unwrap_or_default();
        let phases = &self.phases;
        let count = self.failed_requests.map(|count| count as f64);
        let mut rows = vec![
            (
                "pool to virtual machine".into(),
                spread(&self.pool_to_vm_s),
                "1",
            ),
            (
                "instance Running to node ready".into(),
                spread(&self.vm_running_to_ready_s),
                "60",
            ),
            (
                "  virtual machine to Running".into(),
                spread(&phases.start),
                "",
            ),
            ("  kernel to systemd".into(), spread(&phases.boot), ""),
            ("  systemd to join".into(), spread(&phases.cloud_init), ""),
            ("  join to Node".into(), spread(&phases.join), ""),
            ("  Node to ready".into(), spread(&phases.cni), ""),
            (
                "Running to Machine's status".into(),
                spread(&self.vm_to_machine_s),
                "1",
            ),
            ("pool to Ready".into(), spread(&self.pool_ready_s), ""),
            (
                "pool deleted to gone".into(),
                spread(&self.pool_delete_s),
                "",
            ),
        ];
        if self.pool.is_some() {
            rows.extend([
                (
                    format!("pool of {} to Ready", pool.size),
                    number(pool.ready_s),
                    "",
                ),
                ("to 0, all gone".to_owned(), number(pool.to_zero_s), ""),
                ("0 to 2, Ready".to_owned(), number(pool.back_to_2_s), ""),
                ("rollout of 2".to_owned(), number(pool.rollout_of_2_s), ""),
            ]);
        }
        rows.extend([
            ("failed requests (a number)".to_owned(), number(count), "0"),
            ("longest gap".to_owned(), number(self.longest_gap_s), "1"),
        ]);
        let _ = writeln!(
            text,
            "{:<34} {:>16} {:>8}",
            "seconds, p50 / p95", "measured", "target"
        );
        for (what, value, target) in rows {
            let _ = writeln!(text, "{what:<34} {value:>16} {target:>8}");
        }
        if let Some(systemd) = &self.systemd {
            let _ = writeln!(text, "\n{}", systemd.time);
            for line in systemd.blame.iter().take(12) {
                let _ = writeln!(text, "  {line}");
            }
        }
        for note in self.notes.iter().chain(&self.failures) {
            let _ = writeln!(text, "\nnote: {note}");
        }
        text
    }
}
