//! Disks into virtual machines.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
    runtime::watcher::Config,
};
use serde_json::json;

use super::{Attached, Place, Report, Spread};
use crate::round;
use suites::cluster::wait::wait_list;

/// What the driver is called.
const DRIVER: &str = "csi.covey.dev";
/// The number of disks for which writes are counted.
const COUNTED: usize = 50;

pub(super) async fn measure(place: &Place<'_>, report: &mut Report) -> Result<()> {
    let machines = place.pool.list().await?;
    let machines: Vec<_> = machines.into_keys().collect();
    let one = &machines[..1];
    for count in &place.options.disks {
        let (attached, writes) = attach(place, one, *count).await?;
        if *count == COUNTED {
            report.vm_writes_per_50_attaches = Some(writes);
        }
        report.attach_s.insert(*count, attached);
    }
    let most = place.options.disks.iter().max().copied();
    if let Some(most) = most.filter(|_| machines.len() > 1) {
        report.attach_all_nodes_s = Some(attach(place, &machines, most).await?.0);
    }
    Ok(())
}

/// Attaches so many disks at once to these machines in turn, and takes them out again.
async fn attach(place: &Place<'_>, machines: &[String], count: usize) -> Result<(Attached, i64)> {
    let prefix = format!("disk-{count}-{}", machines.len());
    let volumes = place.volumes(&prefix, count).await?;
    let attachments: Api<VolumeAttachment> = Api::all(place.inside.clone());
    let before = generations(place, machines).await?;
    let begun = Instant::now();
    let mut wanted = BTreeMap::new();
    for (volume, machine) in volumes.iter().zip(machines.iter().cycle()) {
        let name = format!("{prefix}-{volume}");
        let attachment = json!({
            "metadata": { "name": name },
            "spec": {
                "attacher": DRIVER, "nodeName": machine,
                "source": { "persistentVolumeName": volume },
            },
        });
        let attachment: VolumeAttachment = serde_json::from_value(attachment)?;
        let asked = Instant::now();
        attachments
            .create(&PostParams::default(), &attachment)
            .await?;
        wanted.insert(name, asked);
    }
    let mut times: BTreeMap<String, Duration> = BTreeMap::new();
    let what = format!("{count} disks are attached");
    let patience = place.options.patience;
    let waited = wait_list(&attachments, Config::default(), &what, patience, |all| {
        for (name, asked) in &wanted {
            let status = all.get(name).and_then(|a| a.status.as_ref());
            if status.is_some_and(|s| s.attached) {
                times.entry(name.clone()).or_insert_with(|| asked.elapsed());
            }
        }
        (times.len() == wanted.len()).then_some(())
    })
    .await;
    waited.with_context(|| format!("{} of {count} disks were attached", times.len()))?;
    let all_s = round(begun.elapsed().as_secs_f64());
    let writes = generations(place, machines).await? - before;

    let begun = Instant::now();
    for name in wanted.keys() {
        attachments
            .delete(name, &DeleteParams::background())
            .await?;
    }
    let what = format!("{count} disks are detached");
    wait_list(&attachments, Config::default(), &what, patience, |all| {
        (!all.keys().any(|name| wanted.contains_key(name))).then_some(())
    })
    .await?;
    let detach_all_s = round(begun.elapsed().as_secs_f64());
    place.remove(&prefix, count).await?;
    let times: Vec<_> = times.values().map(Duration::as_secs_f64).collect();
    let attached = Attached {
        each_s: Spread::of(&times),
        all_s,
        detach_all_s,
    };
    (place.say)(format!(
        "{count} disks into {} machines: all after {all_s} s, out again after {detach_all_s} s, \
         {writes} writes to virtual machines",
        machines.len()
    ));
    Ok((attached, writes))
}

/// How often what is wanted of these virtual machines has been changed so far.
async fn generations(place: &Place<'_>, machines: &[String]) -> Result<i64> {
    let api = place.pool.virtual_machines();
    let mut sum = 0;
    for machine in machines {
        let found = api.get(machine).await?;
        sum += found.metadata.generation.unwrap_or_default();
    }
    Ok(sum)
}
