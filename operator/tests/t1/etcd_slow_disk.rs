//! The disk of the member of etcd that leads becomes slow: real etcd processes, one of them on a filesystem of its own
//! whose disk takes its time (E6 of the fault matrix).
//!
//! Invariant: every write that etcd acknowledged meanwhile is on every member afterwards, and no member was replaced for
//! what has not lasted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::tenant_cluster::EtcdStatus;
use api::{ConditionType, Reason, TenantCluster};
use kube::Client;
use operator::etcd_replacement::patience::Patience;
use operator::tenant_session::etcd;
use testkit::FaultPlan;
use testkit::disks::failing::FailingFile;
use testkit::disks::{LoopDevice, alone, tell};
use testkit::fixtures::wait_for;
use testkit::waiting::ask_until;

use crate::support::PATIENCE;
use crate::support::etcd_stage::{Stage, check};

/// Within this it is told, and another one leads (`operations.md` §8, E6).
const MOST: Duration = Duration::from_secs(300);
/// What a flush takes. A commit of ext4 takes two, and the lead is lost by itself after a second.
const SLOW: Duration = Duration::from_millis(150);
/// Bytes of the disk.
const SIZE: u64 = 512 << 20;
/// The member that is on it.
const SEAT: usize = 0;

/// A filesystem whose disk can be made slow.
struct SlowDisk {
    mounted: PathBuf,
    // Before the file that is behind it.
    _device: LoopDevice,
    file: FailingFile,
}

impl SlowDisk {
    /// Mounts it below a folder that is empty.
    fn mount(folder: &Path) -> Result<Self> {
        let (files, mounted) = (folder.join("disk"), folder.join("mounted"));
        std::fs::create_dir(&files)?;
        std::fs::create_dir(&mounted)?;
        let file = FailingFile::new(&files, SIZE)?;
        let device = LoopDevice::new(file.path(), SIZE)?;
        let at_once = "lazy_itable_init=0,lazy_journal_init=0";
        tell("mkfs.ext4", &["-q", "-E", at_once, device.device()])?;
        let place = mounted.to_str().context("a path is text")?;
        tell("mount", &[device.device(), place])?;
        Ok(Self {
            mounted,
            _device: device,
            file,
        })
    }

    /// Takes it away, once no process has it any more.
    async fn unmount(self) -> Result<()> {
        let place = self.mounted.to_string_lossy();
        ask_until("nobody has the disk", PATIENCE, async || {
            let told = tell("umount", &[place.as_ref()]).map(drop);
            anyhow::Ok(told.map_err(|error| format!("{error:#}")))
        })
        .await
    }
}

/// Identifier of the one that leads, as this member sees it.
async fn leader(client: &Client) -> Result<Option<String>> {
    Ok(etcd::status(client).await?.leader)
}

/// Makes the member on the slow disk lead.
async fn lead(clients: &[Client], etcd: &EtcdStatus) -> Result<String> {
    let wanted = etcd.members[SEAT].id.clone();
    let wanted = wanted.context("invariant: it is whole")?;
    ask_until("it leads", PATIENCE, async || {
        let leads = leader(&clients[SEAT]).await?;
        if leads.as_ref() == Some(&wanted) {
            return Ok(Ok(()));
        }
        let mut members = etcd.members.iter();
        if let Some(seat) = members.position(|member| member.id == leads) {
            etcd::move_leader(&clients[seat], &wanted).await?;
        }
        Ok(Err(format!("{leads:?} leads")))
    })
    .await?;
    Ok(wanted)
}

fn is_told(cluster: &TenantCluster) -> bool {
    let mut conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| {
        condition.type_ == ConditionType::Degraded.as_str()
            && condition.reason == Reason::SlowDisk.as_str()
            && condition.message.starts_with("the disk of etcd-0 is slow")
    })
}

#[test]
fn lead_goes_from_a_member_whose_disk_becomes_slow_and_people_are_told() -> Result<()> {
    let name =
        "etcd_slow_disk::lead_goes_from_a_member_whose_disk_becomes_slow_and_people_are_told";
    alone(name, async || Box::pin(becomes_slow()).await)
}

async fn becomes_slow() -> Result<()> {
    let Some(stage) = Stage::new("etcd-slow", &[]).await? else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let disk = SlowDisk::mount(folder.path())?;
    stage.members.place(SEAT, &disk.mounted);
    let operator = stage.operator(&FaultPlan::none(), Patience::default())?;
    let before = stage.whole(PATIENCE).await?;
    let clients = stage.clients().await?;
    let first = lead(&clients, &before).await?;
    let writer = stage.writer().await?;
    disk.file.slow(SLOW);
    let clusters = stage.site.clusters();
    wait_for(&clusters, "demo", |c| c.is_some_and(is_told), MOST).await?;
    ask_until("another one leads", MOST, async || {
        let leads = leader(&clients[SEAT]).await?;
        let is_another = leads.as_ref().is_some_and(|leads| *leads != first);
        Ok(is_another.then_some(()).ok_or("it still leads".to_owned()))
    })
    .await?;
    let writes = writer.stop().await?;
    disk.file.slow(Duration::ZERO);
    ensure!(writes.len() > 100, "it wrote {} times", writes.len());
    check(&stage, &before, &writes).await?;
    operator.stop().await?;
    drop(stage);
    disk.unmount().await
}
