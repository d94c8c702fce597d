//! Services of a machine that joins: they run now, and come back with a boot.
//!
//! Invariant: played with dash and with busybox; what plays OpenRC writes down what it was asked.

use anyhow::Result;
use provider_static::plan::progress::Progress;

use crate::hosts::{claim, join, join_with, on_each, owner, programs, reset};

/// The reset switches its service off, and kubeadm starts it without switching it on.
#[tokio::test]
async fn a_node_that_joined_after_a_reset_comes_back_with_a_boot() -> Result<()> {
    on_each(async |flavour, machine| {
        programs(&machine, "our authority").await?;
        for _ in 0..2 {
            claim(&machine, &owner("m")).await?;
            machine.shell("rm -f /run/calls").await?;
            assert!(
                matches!(join(&machine).await?, Progress::Joined(_)),
                "{flavour:?}"
            );
            let calls = machine
                .shell("grep 'rc-update.*kubelet' /run/calls")
                .await?;
            assert_eq!(calls, "rc-update add kubelet default\n", "{flavour:?}");
            assert_eq!(reset(&machine).await?, Progress::Undone, "{flavour:?}");
        }
        let calls = machine
            .shell("grep 'rc-update.*kubelet' /run/calls")
            .await?;
        assert!(
            calls.ends_with("rc-update del kubelet default\n"),
            "{calls}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn containerd_is_started_with_the_configuration_that_the_machine_has() -> Result<()> {
    on_each(async |flavour, machine| {
        programs(&machine, "our authority").await?;
        claim(&machine, &owner("m")).await?;
        machine
            .shell("mkdir -p /etc/containerd && echo theirs > /etc/containerd/config.toml")
            .await?;
        assert!(
            matches!(join_with(&machine, "").await?, Progress::Joined(_)),
            "{flavour:?}"
        );
        machine
            .shell("grep -q 'rc-service containerd restart' /run/calls && grep -qx theirs /etc/containerd/config.toml")
            .await?;
        Ok(())
    })
    .await
}
