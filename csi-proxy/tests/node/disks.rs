//! Disks are found by their serial numbers, and let go of when nobody uses them.
//!
//! Invariant: of two disks that could be meant, none is taken.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;
use testkit::disks::alone;
use tonic::Code;

use crate::support::{Node, SERIAL, SIZE, mount, mounted};

/// Between two calls of one who tries again.
const PAUSE: Duration = Duration::from_millis(20);

#[test]
fn disk_that_comes_late_is_waited_for_and_one_that_does_not_is_named() -> Result<()> {
    let name = "disks::disk_that_comes_late_is_waited_for_and_one_that_does_not_is_named";
    alone(name, async || {
        let hasty = Node::with_patience(Duration::ZERO).await?;
        let missing = hasty.stage(mount("", &[])).await.unwrap_err();
        assert_eq!(missing.code(), Code::DeadlineExceeded, "{missing:?}");
        assert!(missing.message().contains(SERIAL), "{missing:?}");

        let mut node = Node::start().await?;
        let mut client = node.client();
        let request = proto::csi::NodeStageVolumeRequest {
            volume_id: crate::support::VOLUME.to_owned(),
            publish_context: [("serial".to_owned(), SERIAL.to_owned())].into(),
            staging_target_path: node.path("staging"),
            volume_capability: Some(mount("", &[])),
            ..Default::default()
        };
        let first = tokio::spawn({
            let request = request.clone();
            async move {
                let mut calls = tokio::time::interval(PAUSE);
                loop {
                    calls.tick().await;
                    match client.node_stage_volume(request.clone()).await {
                        // The other call was there first.
                        Err(refusal) if refusal.code() == Code::Aborted => {}
                        result => return result,
                    }
                }
            }
        });
        // The first call has the volume in hand once the second one is told so.
        let mut calls = tokio::time::interval(PAUSE);
        let second = loop {
            calls.tick().await;
            match node
                .client()
                .node_unstage_volume(proto::csi::NodeUnstageVolumeRequest {
                    volume_id: request.volume_id.clone(),
                    staging_target_path: request.staging_target_path.clone(),
                })
                .await
            {
                Ok(_) => {}
                Err(refusal) => break refusal,
            }
        };
        assert_eq!(second.code(), Code::Aborted, "{second:?}");
        node.plug(SERIAL, SIZE)?;
        first.await??;
        assert_eq!(mounted(&node.path("staging"))?.len(), 1);
        Ok(())
    })
}

#[test]
fn of_two_disks_with_one_serial_number_none_is_taken() -> Result<()> {
    alone(
        "disks::of_two_disks_with_one_serial_number_none_is_taken",
        async || {
            let mut node = Node::with_disk().await?;
            node.plug("another", SIZE)?;
            node.stage(mount("", &[])).await?;
            node.unstage().await?;
            node.plug(SERIAL, SIZE)?;
            let twice = node.stage(mount("", &[])).await.unwrap_err();
            assert_eq!(twice.code(), Code::FailedPrecondition, "{twice:?}");
            assert!(twice.message().contains("same serial number"), "{twice:?}");
            Ok(())
        },
    )
}

#[test]
fn mount_in_another_namespace_holds_the_volume() -> Result<()> {
    alone(
        "disks::mount_in_another_namespace_holds_the_volume",
        async || {
            let node = Node::with_disk().await?;
            node.stage(mount("", &[])).await?;
            // It has a copy of every mount, and is told of no change; its line says when.
            let mut other = Command::new("unshare")
                .args([
                    "--mount",
                    "--propagation",
                    "private",
                    "sh",
                    "-c",
                    "echo; exec cat",
                ])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let mut line = [0; 1];
            std::io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut line)?;
            let held = node.unstage().await.unwrap_err();
            assert_eq!(held.code(), Code::FailedPrecondition, "{held:?}");
            assert!(held.message().contains("another namespace"), "{held:?}");
            let again = node.unstage().await.unwrap_err();
            assert_eq!(
                again.code(),
                Code::FailedPrecondition,
                "it is not forgotten: {again:?}"
            );
            drop(other.stdin.take());
            other.wait()?;
            node.unstage().await?;
            Ok(())
        },
    )
}

#[test]
fn half_done_calls_are_finished_by_the_next_one() -> Result<()> {
    alone(
        "disks::half_done_calls_are_finished_by_the_next_one",
        async || {
            let node = Node::with_disk().await?;
            // What is left when a process dies: a folder without a mount, half a record.
            fs::create_dir(node.path("a"))?;
            fs::create_dir(node.folder.path().join("records"))?;
            fs::write(node.folder.path().join("records/.vol-1"), "0123")?;
            node.stage(mount("", &[])).await?;
            node.publish("a", mount("", &[]), false).await?;
            assert_eq!(mounted(&node.path("a"))?.len(), 1);
            // Mounted twice: all of it goes.
            testkit::disks::tell("mount", &["--bind", &node.path("staging"), &node.path("a")])?;
            node.unpublish("a").await?;
            assert!(!fs::exists(node.path("a"))?);
            node.unstage().await?;
            Ok(())
        },
    )
}
