//! Disks that failed, went, or came back as another one: every volume can be unstaged.
//!
//! Filesystems are shut down by the kernel's own request for that, which ext4 and XFS share, as the
//! kernel does it when a disk fails under them; a disk that is gone is listed no more.
//! Invariant: what is lost is told once at most.

use std::fs;
use std::os::unix::fs::FileExt as _;

use anyhow::Result;
use proto::csi::NodeGetVolumeHealthRequest;
use testkit::disks::{LoopDevice, alone, tell};
use tonic::{Code, Status};

use crate::support::{Node, SERIAL, SIZE, VOLUME, block, mount, mounted};

/// Has the kernel shut the filesystem down that is mounted there (xfs_io(8)).
fn shut_down(path: &str) -> Result<()> {
    tell("xfs_io", &["-x", "-c", "shutdown", path]).map(drop)
}

/// Takes the first disk out of the list of disks; what is mounted of it stays.
fn take_out(node: &Node) -> Result<()> {
    let shown = node.folder.path().join("sys").join(node.disks[0].name());
    Ok(fs::remove_dir_all(shown)?)
}

/// Shows the first disk again, as a device of another number.
fn bring_back(node: &mut Node) -> Result<()> {
    let file = node.disks[0].file().to_owned();
    let disk = LoopDevice::new(&file, SIZE)?;
    disk.show(&node.folder.path().join("sys"), SERIAL)?;
    node.disks.push(disk);
    Ok(())
}

/// Unstaging comes to an end, at the second call at the latest: what is lost is told by the first.
async fn unstaged(node: &Node) -> Result<()> {
    if let Err(told) = node.unstage().await {
        assert_eq!(told.code(), Code::Internal, "{told:?}");
        assert!(told.message().contains("is lost"), "{told:?}");
        node.unstage().await?;
    }
    assert!(mounted(&node.path("staging"))?.is_empty());
    assert!(!node.folder.path().join("records").join(VOLUME).exists());
    Ok(())
}

/// What the node says is wrong with the volume, if anything.
async fn health(node: &Node) -> Result<Option<String>, Status> {
    let request = NodeGetVolumeHealthRequest {
        volume_id: VOLUME.to_owned(),
        staging_target_path: node.path("staging"),
        ..Default::default()
    };
    let answer = node.client().node_get_volume_health(request).await?;
    let health = answer.into_inner().volume_health.unwrap_or_default();
    assert_eq!(health.volume_id, VOLUME);
    Ok(health
        .health_statuses
        .into_iter()
        .map(|one| one.reason)
        .next())
}

async fn shuts_down(filesystem: &str) -> Result<()> {
    let node = Node::with_disk().await?;
    node.stage(mount(filesystem, &[])).await?;
    node.publish("a", mount(filesystem, &[]), false).await?;
    fs::write(node.path("a/file"), "lost")?;
    shut_down(&node.path("a"))?;
    node.unpublish("a").await?;
    unstaged(&node).await?;
    // The disk itself is well: it is used again.
    node.stage(mount(filesystem, &[])).await?;
    node.unstage().await?;
    Ok(())
}

#[test]
fn ext4_that_is_shut_down_is_unstaged() -> Result<()> {
    let name = "failed::ext4_that_is_shut_down_is_unstaged";
    alone(name, async || shuts_down("ext4").await)
}

#[test]
fn xfs_that_is_shut_down_is_unstaged() -> Result<()> {
    let name = "failed::xfs_that_is_shut_down_is_unstaged";
    alone(name, async || shuts_down("xfs").await)
}

/// Every read and write fails, as of a disk whose storage is lost, while a pod writes.
async fn fails(filesystem: &str) -> Result<()> {
    let mut node = Node::start().await?;
    let disk = node.plug_failing(SERIAL, SIZE)?;
    node.stage(mount(filesystem, &[])).await?;
    node.publish("a", mount(filesystem, &[]), false).await?;
    fs::write(node.path("a/kept"), "kept")?;
    tell("sync", &["-f", &node.path("a")])?;
    disk.fail(true);
    fs::write(node.path("a/lost"), "lost")?;
    let synced = tell("sync", &["-f", &node.path("a")]);
    assert!(synced.is_err(), "the disk fails");
    node.unpublish("a").await?;
    unstaged(&node).await?;
    // Once it is well again it is repaired and used, and has what was written before.
    disk.fail(false);
    node.stage(mount(filesystem, &[])).await?;
    node.publish("a", mount(filesystem, &[]), false).await?;
    assert_eq!(fs::read_to_string(node.path("a/kept"))?, "kept");
    node.unpublish("a").await?;
    node.unstage().await?;
    Ok(())
}

#[test]
fn ext4_whose_disk_answers_with_errors_is_unstaged() -> Result<()> {
    let name = "failed::ext4_whose_disk_answers_with_errors_is_unstaged";
    alone(name, async || fails("ext4").await)
}

#[test]
fn xfs_whose_disk_answers_with_errors_is_unstaged() -> Result<()> {
    let name = "failed::xfs_whose_disk_answers_with_errors_is_unstaged";
    alone(name, async || fails("xfs").await)
}

#[test]
fn device_whose_disk_answers_with_errors_is_unpublished_and_unstaged() -> Result<()> {
    let name = "failed::device_whose_disk_answers_with_errors_is_unpublished_and_unstaged";
    alone(name, async || {
        let mut node = Node::start().await?;
        let disk = node.plug_failing(SERIAL, SIZE)?;
        node.stage(block()).await?;
        node.publish("a", block(), false).await?;
        disk.fail(true);
        let device = fs::OpenOptions::new().write(true).open(node.path("a"))?;
        let written = device.write_all_at(&[1; 4096], 0);
        assert!(
            written.and_then(|()| device.sync_all()).is_err(),
            "the disk fails"
        );
        drop(device);
        node.unpublish("a").await?;
        unstaged(&node).await
    })
}

/// The loop device has no file any more, as a disk that is pulled out while it is in use.
async fn is_detached(filesystem: Option<&str>) -> Result<()> {
    let mut node = Node::with_disk().await?;
    let capability = || filesystem.map_or_else(block, |filesystem| mount(filesystem, &[]));
    node.stage(capability()).await?;
    node.publish("a", capability(), false).await?;
    node.disks[0].detach()?;
    take_out(&node)?;
    node.unpublish("a").await?;
    unstaged(&node).await
}

#[test]
fn ext4_whose_device_is_detached_is_unstaged() -> Result<()> {
    let name = "failed::ext4_whose_device_is_detached_is_unstaged";
    alone(name, async || is_detached(Some("ext4")).await)
}

#[test]
fn device_that_is_detached_is_unpublished_and_unstaged() -> Result<()> {
    let name = "failed::device_that_is_detached_is_unpublished_and_unstaged";
    alone(name, async || is_detached(None).await)
}

async fn vanishes(filesystem: &str) -> Result<()> {
    let node = Node::with_disk().await?;
    node.stage(mount(filesystem, &[])).await?;
    node.publish("a", mount(filesystem, &[]), false).await?;
    fs::write(node.path("a/file"), "lost")?;
    shut_down(&node.path("a"))?;
    take_out(&node)?;
    node.unpublish("a").await?;
    unstaged(&node).await
}

#[test]
fn ext4_of_a_disk_that_is_gone_is_unstaged() -> Result<()> {
    let name = "failed::ext4_of_a_disk_that_is_gone_is_unstaged";
    alone(name, async || vanishes("ext4").await)
}

#[test]
fn xfs_of_a_disk_that_is_gone_is_unstaged() -> Result<()> {
    let name = "failed::xfs_of_a_disk_that_is_gone_is_unstaged";
    alone(name, async || vanishes("xfs").await)
}

#[test]
fn device_of_a_disk_that_is_gone_is_unpublished_and_unstaged() -> Result<()> {
    let name = "failed::device_of_a_disk_that_is_gone_is_unpublished_and_unstaged";
    alone(name, async || {
        let node = Node::with_disk().await?;
        node.stage(block()).await?;
        node.publish("a", block(), false).await?;
        take_out(&node)?;
        node.unpublish("a").await?;
        unstaged(&node).await
    })
}

#[test]
fn disk_that_came_back_under_another_number_is_unstaged() -> Result<()> {
    let name = "failed::disk_that_came_back_under_another_number_is_unstaged";
    alone(name, async || {
        let mut node = Node::with_disk().await?;
        node.stage(mount("ext4", &[])).await?;
        take_out(&node)?;
        bring_back(&mut node)?;
        unstaged(&node).await
    })
}

#[test]
fn disk_that_came_back_under_another_number_is_staged_anew_once_nobody_has_the_old_one()
-> Result<()> {
    let name = "failed::disk_that_came_back_under_another_number_is_staged_anew_once_nobody_has_the_old_one";
    alone(name, async || {
        let mut node = Node::with_disk().await?;
        node.stage(mount("ext4", &[])).await?;
        node.publish("a", mount("ext4", &[]), false).await?;
        fs::write(node.path("a/file"), "kept")?;
        assert_eq!(health(&node).await?, None);
        take_out(&node)?;
        assert_eq!(health(&node).await?.as_deref(), Some("DiskGone"));
        bring_back(&mut node)?;
        assert_eq!(health(&node).await?.as_deref(), Some("DiskReplaced"));
        let used = node.stage(mount("ext4", &[])).await.unwrap_err();
        assert_eq!(used.code(), Code::FailedPrecondition, "{used:?}");
        assert!(used.message().contains(&node.path("a")), "{used:?}");
        node.unpublish("a").await?;
        node.stage(mount("ext4", &[])).await?;
        let line = mounted(&node.path("staging"))?.remove(0);
        assert!(line.contains(node.disks[1].device()), "{line}");
        assert_eq!(health(&node).await?, None);
        node.publish("a", mount("ext4", &[]), false).await?;
        assert_eq!(fs::read_to_string(node.path("a/file"))?, "kept");
        node.unpublish("a").await?;
        node.unstage().await?;
        let unknown = health(&node).await.unwrap_err();
        assert_eq!(unknown.code(), Code::NotFound, "{unknown:?}");
        Ok(())
    })
}
