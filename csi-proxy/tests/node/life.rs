//! The life of a volume on a node.
//!
//! Invariant: what was written is read back.

use std::fs;
use std::io::Write as _;

use anyhow::{Context as _, Result};
use proto::csi::volume_capability::access_mode::Mode;
use proto::csi::volume_usage::Unit;
use proto::csi::{CapacityRange, NodeExpandVolumeRequest, NodeGetVolumeStatsRequest, VolumeUsage};
use testkit::disks::{alone, tell};
use tonic::Code;

use crate::support::{MIB, Node, SIZE, VOLUME, block, mount, mounted, with_mode};

async fn stats(node: &Node, path: &str) -> Result<Vec<VolumeUsage>> {
    let request = NodeGetVolumeStatsRequest {
        volume_id: VOLUME.to_owned(),
        volume_path: path.to_owned(),
        ..Default::default()
    };
    Ok(node
        .client()
        .node_get_volume_stats(request)
        .await?
        .into_inner()
        .usage)
}

async fn expand(node: &Node, path: &str, bytes: u64) -> Result<u64> {
    let request = NodeExpandVolumeRequest {
        volume_id: VOLUME.to_owned(),
        volume_path: path.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: bytes.try_into()?,
            limit_bytes: 0,
        }),
        ..Default::default()
    };
    let answer = node.client().node_expand_volume(request).await?;
    Ok(answer.into_inner().capacity_bytes.try_into()?)
}

async fn lives(filesystem: &str) -> Result<()> {
    let node = Node::with_disk().await?;
    let text = "what a pod wrote".repeat(1000);
    let (target, file) = (node.path("a"), node.path("a/file"));
    for round in 0..2 {
        node.stage(mount(filesystem, &["noatime"])).await?;
        node.stage(mount(filesystem, &["noatime"])).await?;
        node.publish("a", mount(filesystem, &[]), false).await?;
        node.publish("a", mount(filesystem, &[]), false).await?;
        assert_eq!(
            mounted(&target)?.len(),
            1,
            "the second call changes nothing"
        );
        let line = mounted(&node.path("staging"))?.remove(0);
        assert!(
            line.contains("noatime") && line.contains(&format!(" - {filesystem} ")),
            "{line}"
        );
        if round == 0 {
            let mut written = fs::File::create_new(&file)?;
            written.write_all(text.as_bytes())?;
            written.sync_all()?;
        }
        assert_eq!(fs::read_to_string(&file)?, text);
        // A pod that only reads, beside it.
        node.publish("b", mount(filesystem, &[]), true).await?;
        let refused = fs::write(node.path("b/file"), "").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        let usage = stats(&node, &target).await?;
        assert_eq!(usage[0].unit, i32::from(Unit::Bytes));
        assert!(usage[0].used > 0 && usage[0].available < usage[0].total);
        assert!(usage[1].total > 0 && usage[1].unit == i32::from(Unit::Inodes));
        node.unpublish("b").await?;
        node.unpublish("a").await?;
        assert!(
            !fs::exists(&target)?,
            "the target is the driver's to remove"
        );
        node.unpublish("a").await?;
        node.unstage().await?;
        node.unstage().await?;
        assert!(mounted(&node.path("staging"))?.is_empty());
        assert!(!node.folder.path().join("records").join(VOLUME).exists());
    }
    Ok(())
}

async fn grows(filesystem: &str) -> Result<()> {
    let node = Node::with_disk().await?;
    let (target, file) = (node.path("a"), node.path("a/file"));
    node.stage(mount(filesystem, &[])).await?;
    node.publish("a", mount(filesystem, &[]), false).await?;
    fs::write(&file, "kept")?;
    // While a pod has it.
    node.enlarge(2 * SIZE)?;
    assert_eq!(expand(&node, &target, 2 * SIZE).await?, 2 * SIZE);
    assert_eq!(expand(&node, &target, 2 * SIZE).await?, 2 * SIZE);
    let grown = stats(&node, &target).await?[0].total;
    assert!(grown > i64::try_from(SIZE * 3 / 2)?, "{grown}");
    node.unpublish("a").await?;
    node.unstage().await?;
    // While it is nowhere, or of a smaller snapshot: it is staged with all of its room.
    node.enlarge(3 * SIZE)?;
    node.stage(mount(filesystem, &[])).await?;
    node.publish("a", mount(filesystem, &[]), false).await?;
    let grown = stats(&node, &target).await?[0].total;
    assert!(grown > i64::try_from(SIZE * 5 / 2)?, "{grown}");
    assert_eq!(fs::read_to_string(&file)?, "kept");
    Ok(())
}

#[test]
fn ext4_is_made_written_and_read_back() -> Result<()> {
    let name = "life::ext4_is_made_written_and_read_back";
    alone(name, async || lives("ext4").await)
}

#[test]
fn xfs_is_made_written_and_read_back() -> Result<()> {
    let name = "life::xfs_is_made_written_and_read_back";
    alone(name, async || lives("xfs").await)
}

#[test]
fn xfs_grows_while_it_is_used_and_while_it_is_nowhere() -> Result<()> {
    let name = "life::xfs_grows_while_it_is_used_and_while_it_is_nowhere";
    alone(name, async || grows("xfs").await)
}

#[test]
fn ext4_grows_while_it_is_used_and_while_it_is_nowhere() -> Result<()> {
    let name = "life::ext4_grows_while_it_is_used_and_while_it_is_nowhere";
    alone(name, async || {
        if may_use_more()? {
            return grows("ext4").await;
        }
        // The kernel grows ext4 for nobody without that right, so here is what is said then.
        let mut said = std::io::stderr();
        writeln!(
            said,
            "SKIPPED {name}: there is no CAP_SYS_RESOURCE, so nothing grows"
        )?;
        let node = Node::with_disk().await?;
        node.stage(mount("ext4", &[])).await?;
        node.publish("a", mount("ext4", &[]), false).await?;
        fs::write(node.path("a/file"), "kept")?;
        node.enlarge(2 * SIZE)?;
        let refused = expand(&node, &node.path("a"), 2 * SIZE)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("resize2fs says: ") && refused.contains("denied"),
            "{refused}"
        );
        assert_eq!(fs::read_to_string(node.path("a/file"))?, "kept");
        Ok(())
    })
}

/// Whether this process has CAP_SYS_RESOURCE (capabilities(7)).
fn may_use_more() -> Result<bool> {
    const BIT: u64 = 1 << 24;
    let status = fs::read_to_string("/proc/self/status")?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.context("the kernel names no capabilities")?;
    Ok(u64::from_str_radix(effective.trim(), 16)? & BIT != 0)
}

#[test]
fn block_volume_is_the_disk_itself() -> Result<()> {
    alone("life::block_volume_is_the_disk_itself", async || {
        let node = Node::with_disk().await?;
        let (target, device) = (node.path("a"), node.disks[0].device().to_owned());
        node.stage(block()).await?;
        node.publish("a", block(), false).await?;
        node.publish("a", block(), false).await?;
        assert_eq!(mounted(&target)?.len(), 1);
        fs::OpenOptions::new()
            .write(true)
            .open(&target)?
            .write_all(b"raw")?;
        assert_eq!(&fs::read(&device)?[..3], b"raw");
        let usage = stats(&node, &target).await?;
        assert_eq!((usage.len(), usage[0].total), (1, i64::try_from(SIZE)?));
        node.enlarge(SIZE + MIB)?;
        assert_eq!(expand(&node, &target, SIZE + MIB).await?, SIZE + MIB);
        let busy = node.unstage().await.unwrap_err();
        assert_eq!(busy.code(), Code::FailedPrecondition, "{busy:?}");
        node.unpublish("a").await?;
        assert!(!fs::exists(&target)?);
        node.unstage().await?;
        // What a pod wrote there is not formatted.
        let refused = node.stage(mount("", &[])).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
        assert_eq!(&fs::read(&device)?[..3], b"raw");
        Ok(())
    })
}

#[test]
fn volume_for_one_pod_is_at_one_place_alone() -> Result<()> {
    alone(
        "life::volume_for_one_pod_is_at_one_place_alone",
        async || {
            let node = Node::with_disk().await?;
            let alone = || with_mode(Mode::SingleNodeSingleWriter, "", &[]);
            node.stage(alone()).await?;
            node.publish("a", alone(), false).await?;
            let second = node.publish("b", alone(), false).await.unwrap_err();
            assert_eq!(second.code(), Code::FailedPrecondition, "{second:?}");
            assert!(!fs::exists(node.path("b"))?);
            node.unpublish("a").await?;
            node.publish("b", alone(), false).await?;
            Ok(())
        },
    )
}

#[test]
fn ext4_that_was_torn_off_is_repaired_before_it_is_mounted() -> Result<()> {
    let name = "life::ext4_that_was_torn_off_is_repaired_before_it_is_mounted";
    alone(name, async || {
        let node = Node::with_disk().await?;
        let device = node.disks[0].device().to_owned();
        node.stage(mount("ext4", &[])).await?;
        node.unstage().await?;
        // As after errors of a disk.
        tell("debugfs", &["-w", "-R", "ssv state 2", &device])?;
        node.stage(mount("ext4", &[])).await?;
        let state = tell("dumpe2fs", &["-h", &device])?;
        let clean = |line: &&str| line.starts_with("Filesystem state:") && line.ends_with(" clean");
        assert!(state.lines().any(|line| clean(&line)), "{state}");
        Ok(())
    })
}
