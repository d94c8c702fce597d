//! What the processes of tenants take on this machine, which is the lab's only host: read from /proc by the
//! UIDs of their pods, which are in the names of control groups.
//!
//! Invariant: a figure of which a part cannot be read is none, never a smaller one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::ListParams};
use serde::Serialize;

use suites::cluster::Tenant;

const MIB: f64 = 1_048_576.0;

/// What one tenant at rest takes: the mean of those that were there.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct IdleTenant {
    /// Thousandths of a core.
    pub cpu_m: Option<f64>,
    /// Resident memory of its processes, MiB; pages that they share count for each of them.
    pub rss_mib: Option<f64>,
    /// The same, in which a page that is shared by n processes counts as 1/n for each (`Pss` of proc(5)).
    pub pss_mib: Option<f64>,
}

impl IdleTenant {
    /// Changes each figure that there is.
    pub(super) fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self {
            cpu_m: self.cpu_m.map(&change),
            rss_mib: self.rss_mib.map(&change),
            pss_mib: self.pss_mib.map(&change),
        }
    }
}

/// One process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    cpu_s: f64,
    rss_mib: f64,
    pss_mib: Option<f64>,
}

/// Processes by their pids.
pub(super) type Samples = BTreeMap<u32, Sample>;

/// Those of all pods of these tenants; without those that end meanwhile.
pub(super) async fn of(tenants: &[Tenant]) -> Result<Samples> {
    let mut uids = BTreeSet::new();
    for tenant in tenants {
        let pods = tenant.parts::<Pod>().list(&ListParams::default()).await?;
        uids.extend(pods.iter().filter_map(|pod| pod.uid()));
    }
    Ok(of_pods(&uids))
}

/// Those of pods with these UIDs; of none where processes cannot be listed.
pub(super) fn of_pods(uids: &BTreeSet<String>) -> Samples {
    let mut samples = Samples::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_string_lossy().parse();
        let Ok(pid) = pid else { continue };
        let folder = entry.path();
        let group = fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
        if is_in_pod(&group, uids) {
            samples.extend(sample(&folder).map(|sample| (pid, sample)));
        }
    }
    samples
}

fn sample(folder: &Path) -> Option<Sample> {
    let usage = kit::metrics::usage_in(folder)?;
    let rollup = fs::read_to_string(folder.join("smaps_rollup"));
    Some(Sample {
        cpu_s: usage.cpu_seconds,
        rss_mib: usage.rss_bytes as f64 / MIB,
        pss_mib: rollup.ok().and_then(|text| pss_mib(&text)),
    })
}

/// Whether a control group is one of these pods': kubelets write the UID with dashes, or, for systemd, with
/// underscores.
fn is_in_pod(group: &str, uids: &BTreeSet<String>) -> bool {
    let group = group.replace('_', "-");
    let pods = group.split("pod").skip(1);
    let mut uid_of = pods.filter_map(|rest| rest.get(..36));
    uid_of.any(|uid| uids.contains(uid))
}

fn pss_mib(rollup: &str) -> Option<f64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

/// The mean of so many tenants between two readings; nothing where no process was found.
pub(super) fn idle(
    before: &Samples,
    after: &Samples,
    between: Duration,
    tenants: usize,
) -> IdleTenant {
    if tenants == 0 || after.is_empty() {
        return IdleTenant::default();
    }
    let each = |sum: f64| sum / tenants as f64;
    // All of what began meanwhile was used meanwhile.
    let used = |(pid, now): (&u32, &Sample)| {
        let was = before.get(pid).map_or(0.0, |then| then.cpu_s);
        now.cpu_s - was
    };
    // The time of one that ended is not known.
    let all_there = before.keys().all(|pid| after.contains_key(pid));
    let seconds = between.as_secs_f64();
    let cpu: f64 = after.iter().map(used).sum();
    let pss: Option<f64> = after.values().map(|s| s.pss_mib).sum();
    IdleTenant {
        cpu_m: (all_there && seconds > 0.0).then(|| each(cpu / seconds * 1000.0)),
        rss_mib: Some(each(after.values().map(|s| s.rss_mib).sum())),
        pss_mib: pss.map(each),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0a1b2c3d-1111-4000-8000-000000000001";

    fn sample(cpu_s: f64, pss_mib: Option<f64>) -> Sample {
        Sample {
            cpu_s,
            rss_mib: 30.0,
            pss_mib,
        }
    }

    #[test]
    fn control_group_of_a_pod_is_known_by_its_uid() {
        let uids = BTreeSet::from([UID.to_owned()]);
        let slice = UID.replace('-', "_");
        for group in [
            format!("0::/kubepods/burstable/pod{UID}/abc"),
            format!("0::/kubepods.slice/kubepods-pod{slice}.slice/cri-abc.scope"),
        ] {
            assert!(is_in_pod(&group, &uids), "{group}");
        }
        let other = UID.replace("0001", "0002");
        for group in [
            format!("0::/kubepods/burstable/pod{other}/abc"),
            "0::/user.slice/pods".to_owned(),
            String::new(),
        ] {
            assert!(!is_in_pod(&group, &uids), "{group}");
        }
    }

    #[test]
    fn share_of_shared_pages_is_read_in_kib() {
        let rollup = "5581-7ffe [rollup]\nRss:   4096 kB\nPss:   2560 kB\nPss_Dirty:   1 kB\n";
        assert_eq!(pss_mib(rollup), Some(2.5));
        assert_eq!(pss_mib(""), None);
    }

    #[test]
    fn idle_tenant_is_the_mean_of_those_that_were_there() {
        let minute = Duration::from_secs(60);
        let before = Samples::from([(1, sample(1.0, Some(20.0))), (2, sample(5.0, Some(10.0)))]);
        let mut after = before.clone();
        after.insert(1, sample(2.2, Some(20.0)));
        // One that began meanwhile.
        after.insert(3, sample(0.6, Some(6.0)));
        let expected = IdleTenant {
            cpu_m: Some(15.0),
            rss_mib: Some(45.0),
            pss_mib: Some(18.0),
        };
        assert_eq!(idle(&before, &after, minute, 2).map(f64::round), expected);
    }

    #[test]
    fn what_cannot_be_known_is_none() {
        let minute = Duration::from_secs(60);
        let before = Samples::from([(1, sample(1.0, Some(20.0))), (2, sample(5.0, None))]);
        assert_eq!(
            idle(&before, &Samples::new(), minute, 2),
            IdleTenant::default()
        );
        assert_eq!(idle(&before, &before, minute, 0), IdleTenant::default());
        let without = |pid| {
            let mut after = before.clone();
            after.remove(&pid);
            idle(&before, &after, minute, 1)
        };
        // The second one's share of pages cannot be read; the first one's CPU time is lost.
        let (no_share, no_time) = (without(3), without(1));
        assert_eq!((no_share.cpu_m, no_share.pss_mib), (Some(0.0), None));
        assert_eq!((no_time.cpu_m, no_time.rss_mib), (None, Some(30.0)));
    }
}
