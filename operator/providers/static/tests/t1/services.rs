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

/// No DNS knows it, and kubeadm and the kubelet ask for it.
#[tokio::test]
async fn a_nodes_name_is_known_to_the_machine_for_as_long_as_it_is_a_node() -> Result<()> {
    on_each(async |flavour, machine| {
        programs(&machine, "our authority").await?;
        // Without a line break at its end.
        let theirs = "127.0.0.1 localhost\n192.0.2.1 covey # covey mine";
        machine
            .shell(&format!("printf '{theirs}' > /etc/hosts"))
            .await?;
        for _ in 0..2 {
            claim(&machine, &owner("m")).await?;
            let joined = join(&machine).await?;
            assert!(matches!(joined, Progress::Joined(_)), "{flavour:?}");
            let hosts = machine.shell("cat /etc/hosts").await?;
            assert_eq!(hosts, format!("{theirs}\n127.0.0.1 worker-1 # covey\n"));
            assert_eq!(reset(&machine).await?, Progress::Undone);
            let hosts = machine.shell("cat /etc/hosts").await?;
            assert_eq!(hosts, format!("{theirs}\n"), "{flavour:?}");
        }
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
