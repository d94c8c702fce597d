//! The figures of `csi` as JSON and as a table.
//!
//! Invariant: a figure that was not measured is null, never zero.

use std::{collections::BTreeMap, fmt::Write as _};

use api::storage::Hotplug;
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
    /// How disks were hot-plugged.
    pub hotplug: Hotplug,
    /// Nodes of the tenant cluster.
    pub nodes: i32,
    /// Claim created to Bound, seconds.
    pub bound_s: Spread,
    /// Disks into one machine, by how many at once.
    pub attach_s: BTreeMap<usize, Attached>,
    /// The largest number of disks, into all machines in turn.
    pub attach_all_nodes_s: Option<Attached>,
    /// Changes of what is wanted of one VirtualMachine while 50 disks were attached at once.
    pub vm_writes_per_50_attaches: Option<i64>,
    /// End of a machine to its pod ready on another node, seconds.
    pub failover_s: Spread,
    /// Memory of the driver after all attachments, MiB.
    pub rss_mib: Option<f64>,
    /// Writes of the driver to the management API in an idle minute.
    pub idle_writes_per_min: Option<f64>,
    /// What went wrong, in words.
    pub notes: Vec<String>,
}

/// Several disks at once.
#[derive(Clone, Debug, Serialize)]
pub struct Attached {
    /// VolumeAttachment created to `attached`, seconds.
    pub each_s: Spread,
    /// The same from the first to the last of all, seconds.
    pub all_s: f64,
    /// The first deletion to the last one gone, seconds.
    pub detach_all_s: f64,
}

impl Report {
    /// For people.
    #[must_use]
    pub fn table(&self) -> String {
        let m = &self.machine;
        let mut text = format!(
            "{} · {} cores {} · {} GiB · load {} · {}\nKubernetes {}, {:?}\n\n",
            m.date,
            m.cores,
            m.cpu,
            m.memory_gib,
            m.load_before,
            m.commit,
            self.version,
            self.hotplug,
        );
        let mut row = |what: String, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{what:<52} {value}");
        };
        let pair = |s: &Spread| format!("{} / {}", number(s.p50), number(s.p95));
        row("claim to Bound, s, p50 / p95".into(), pair(&self.bound_s));
        for (count, attached) in &self.attach_s {
            row(
                format!("{count} disks into one machine, s, p50 / p95"),
                pair(&attached.each_s),
            );
            row(
                "    all in; all out again, s".into(),
                format!("{}; {}", attached.all_s, attached.detach_all_s),
            );
        }
        if let Some(attached) = &self.attach_all_nodes_s {
            row(
                format!("the same into {} machines, s, p50 / p95", self.nodes),
                pair(&attached.each_s),
            );
        }
        let writes = self.vm_writes_per_50_attaches;
        row(
            "writes to the VirtualMachine for 50".into(),
            writes.map_or("-".into(), |n| n.to_string()),
        );
        row(
            "machine dead to pod ready elsewhere, s, p50 / p95".into(),
            pair(&self.failover_s),
        );
        row("driver's memory, MiB".into(), number(self.rss_mib));
        row(
            "writes in an idle minute".into(),
            number(self.idle_writes_per_min),
        );
        for note in &self.notes {
            row("note".into(), note.clone());
        }
        text
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}
