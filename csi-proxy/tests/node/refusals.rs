//! What is on a disk or below a path is not destroyed.
//!
//! Invariant: after each refusal everything is compared with what it was before.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Result;
use testkit::disks::{alone, tell};
use tonic::Code;

use crate::support::{MIB, Node, SIZE, block, mount, mounted};

/// Puts something on the first disk.
type Make = fn(&Node) -> Result<()>;

/// The parts of the first disk that anything was written to.
fn written(node: &Node) -> Result<Vec<u8>> {
    let mut all = fs::read(node.disks[0].file())?;
    all.truncate(usize::try_from(160 * MIB)?);
    Ok(all)
}

fn write_at(node: &Node, at: u64, bytes: &[u8]) -> Result<()> {
    let mut device = fs::OpenOptions::new()
        .write(true)
        .open(node.disks[0].device())?;
    device.seek(SeekFrom::Start(at))?;
    device.write_all(bytes)?;
    device.sync_all()?;
    Ok(())
}

#[test]
fn disk_with_anything_on_it_is_never_formatted() -> Result<()> {
    alone(
        "refusals::disk_with_anything_on_it_is_never_formatted",
        async || {
            let swap = |node: &Node| tell("mkswap", &[node.disks[0].device()]).map(drop);
            let text = |node: &Node| write_at(node, 100, b"a database without a mark");
            let lost = |node: &Node| {
                tell("mkfs.ext4", &["-q", node.disks[0].device()])?;
                write_at(node, 0, &[0; 4096])
            };
            let lost_xfs = |node: &Node| {
                tell("mkfs.xfs", &["-q", node.disks[0].device()])?;
                write_at(node, 0, &[0; 4096])
            };
            let luks = |node: &Node| write_at(node, 0, b"LUKS\xba\xbe\x00\x02");
            let cases: [(&str, Make); 5] = [
                ("swap space", swap),
                ("something unknown", text),
                ("ext4 filesystem that has lost", lost),
                ("XFS filesystem that has lost", lost_xfs),
                ("LUKS", luks),
            ];
            for (what, make) in cases {
                let node = Node::with_disk().await?;
                make(&node)?;
                let before = written(&node)?;
                for filesystem in ["ext4", "xfs", ""] {
                    let refusal = node.stage(mount(filesystem, &[])).await.unwrap_err();
                    assert_eq!(refusal.code(), Code::FailedPrecondition, "{refusal:?}");
                    assert!(refusal.message().contains(what), "{refusal:?}");
                }
                assert!(before == written(&node)?, "{what} is not as it was");
                node.unstage().await?;
            }
            Ok(())
        },
    )
}

#[test]
fn another_filesystem_than_the_one_asked_for_is_kept() -> Result<()> {
    alone(
        "refusals::another_filesystem_than_the_one_asked_for_is_kept",
        async || {
            let node = Node::with_disk().await?;
            node.stage(mount("xfs", &[])).await?;
            node.unstage().await?;
            let before = written(&node)?;
            let refusal = node.stage(mount("ext4", &[])).await.unwrap_err();
            assert_eq!(refusal.code(), Code::FailedPrecondition, "{refusal:?}");
            assert!(
                refusal.message().contains("has a filesystem xfs"),
                "{refusal:?}"
            );
            assert!(before == written(&node)?);
            let unknown = node.stage(mount("btrfs", &[])).await.unwrap_err();
            assert_eq!(unknown.code(), Code::InvalidArgument, "{unknown:?}");
            node.stage(mount("", &[])).await?;
            Ok(())
        },
    )
}

#[test]
fn nothing_below_a_mount_point_is_deleted() -> Result<()> {
    alone(
        "refusals::nothing_below_a_mount_point_is_deleted",
        async || {
            let node = Node::with_disk().await?;
            node.stage(mount("", &[])).await?;
            node.publish("a", mount("", &[]), false).await?;
            let file = node.path("a/file");
            fs::write(&file, "kept")?;
            // While a pod has a file open the kernel unmounts nothing.
            let open = fs::File::open(&file)?;
            let busy = node.unpublish("a").await.unwrap_err();
            assert_eq!(busy.code(), Code::FailedPrecondition, "{busy:?}");
            assert_eq!(fs::read_to_string(&file)?, "kept");
            drop(open);
            node.unpublish("a").await?;
            assert_eq!(fs::read_to_string(node.path("staging/file"))?, "kept");

            fs::create_dir(node.path("b"))?;
            fs::write(node.path("b/file"), "not a volume's")?;
            let full = node.unpublish("b").await.unwrap_err();
            assert_eq!(full.code(), Code::FailedPrecondition, "{full:?}");
            assert!(
                full.message().contains("nothing in it is removed"),
                "{full:?}"
            );
            assert_eq!(fs::read_to_string(node.path("b/file"))?, "not a volume's");
            fs::write(node.path("c"), "not empty")?;
            let theirs = node.unpublish("c").await.unwrap_err();
            assert_eq!(theirs.code(), Code::FailedPrecondition, "{theirs:?}");
            assert_eq!(fs::read_to_string(node.path("c"))?, "not empty");
            Ok(())
        },
    )
}

#[test]
fn paths_that_lead_out_of_the_kubelets_folder_are_refused() -> Result<()> {
    let name = "refusals::paths_that_lead_out_of_the_kubelets_folder_are_refused";
    alone(name, async || {
        let node = Node::with_disk().await?;
        node.stage(mount("", &[])).await?;
        let outside = node.folder.path().join("outside");
        fs::create_dir(&outside)?;
        fs::write(outside.join("file"), "")?;
        symlink(&outside, node.path("link"))?;
        symlink(outside.join("file"), node.path("last"))?;
        for target in ["../outside/a", "link/a", "/etc"] {
            let refusal = node
                .publish(target, mount("", &[]), false)
                .await
                .unwrap_err();
            assert_eq!(
                refusal.code(),
                Code::InvalidArgument,
                "{target}: {refusal:?}"
            );
        }
        for (target, call) in [
            ("link/file", Code::InvalidArgument),
            ("last", Code::FailedPrecondition),
        ] {
            let refusal = node.unpublish(target).await.unwrap_err();
            assert_eq!(refusal.code(), call, "{target}: {refusal:?}");
        }
        let refusal = node.publish("last", block(), false).await.unwrap_err();
        assert_eq!(refusal.code(), Code::FailedPrecondition, "{refusal:?}");
        assert!(outside.join("file").exists());
        assert!(mounted(&node.path("last"))?.is_empty());
        Ok(())
    })
}

#[test]
fn disk_that_can_only_be_read_is_mounted_so_and_never_written() -> Result<()> {
    let name = "refusals::disk_that_can_only_be_read_is_mounted_so_and_never_written";
    alone(name, async || {
        let node = Node::with_disk().await?;
        let device = node.disks[0].device().to_owned();
        tell("blockdev", &["--setro", &device])?;
        let empty = node.stage(mount("", &[])).await.unwrap_err();
        assert_eq!(empty.code(), Code::FailedPrecondition, "{empty:?}");
        tell("blockdev", &["--setrw", &device])?;
        node.stage(mount("", &[])).await?;
        node.unstage().await?;
        tell("blockdev", &["--setro", &device])?;
        node.enlarge(2 * SIZE)?;
        let before = written(&node)?;
        node.stage(mount("", &[])).await?;
        node.publish("a", mount("", &[]), true).await?;
        assert!(fs::write(node.path("a/file"), "").is_err());
        node.unpublish("a").await?;
        node.unstage().await?;
        assert!(before == written(&node)?);
        // The loop device is everybody's, and nobody who gets it next expects that.
        let shown = Path::new("/sys/block")
            .join(node.disks[0].name())
            .join("ro");
        drop(node);
        assert_eq!(fs::read_to_string(shown)?.trim(), "0");
        Ok(())
    })
}
