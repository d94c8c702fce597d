//! Programs that are sent: unpacked, found, started, and gone with the reset.
//!
//! Invariant: played with dash and with busybox; what plays OpenRC writes down what it was asked.

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use provider_static::plan::cleanliness::Cleanliness;
use provider_static::plan::facts::Facts;
use provider_static::plan::progress::{Operation, Progress};
use provider_static::scripts::{FACTS, JOIN, Parameters, start};

use crate::hosts::{TOKEN, ca, claim, cleanliness, on_each, owner, play, reset};
use crate::machine::Machine;

/// A machine without a node's programs, and an archive that has them, as the session leaves it there. Gives its digest.
async fn prepare(machine: &Machine, kubelet: &str) -> Result<String> {
    for name in ["rc-service", "rc-update"] {
        let noted = format!("echo \"{name} $*\" >> /run/calls");
        machine.program(name, &noted).await?;
    }
    machine.program("systemctl", "exit 1").await?;
    let authority = STANDARD.encode("our authority");
    let made = machine
        .shell(&format!(
            "set -e\n\
             rm -rf /run/made; mkdir -p /run/made/bin /run/made/cni /run/made/containerd /var/lib/covey; cd /run/made\n\
             for name in containerd containerd-shim-runc-v2 runc ctr; do printf '#!/bin/sh\\n' > bin/$name; done\n\
             printf '#!/bin/sh\\necho Kubernetes v{kubelet}\\n' > bin/kubelet\n\
             printf '#!/bin/sh\\nif [ \"$1\" = join ]; then grep -q {TOKEN} \"$3\" || exit 1; mkdir -p /etc/kubernetes; \
             echo \"    certificate-authority-data: {authority}\" > /etc/kubernetes/kubelet.conf; fi\\n' > bin/kubeadm\n\
             printf x > cni/bridge; printf x > cni/loopback; echo 'version = 3' > containerd/config.toml\n\
             chmod 0755 bin/* cni/*\n\
             tar -cf - bin cni containerd | gzip > /var/lib/covey/programs.tar.gz\n\
             sha256sum /var/lib/covey/programs.tar.gz | cut -d ' ' -f 1"
        ))
        .await?;
    Ok(made.trim().to_owned())
}

async fn join(machine: &Machine, sent: &str) -> Result<Progress> {
    let told = Parameters::default()
        .plain("operation", "join")
        .plain("id", "0a1b2c3d")
        .plain("machine", "m")
        .plain("ca", ca("our authority"))
        .plain("version", "1.36.1")
        .plain("nodeName", "worker-1")
        .plain("programs", sent)
        .secret("config", format!("token: \"{TOKEN}\"\n"));
    play(
        machine,
        Operation::Join,
        &start(&JOIN, "0a1b2c3d", 600, &told),
    )
    .await
}

async fn facts(machine: &Machine) -> Result<Facts> {
    Ok(Facts::read(
        &machine.run(&FACTS, &Parameters::default()).await?,
    ))
}

#[tokio::test]
async fn a_machine_without_programs_joins_by_what_was_sent_and_has_none_after_its_reset()
-> Result<()> {
    on_each(async |flavour, machine| {
        let sent = prepare(&machine, "1.36.1").await?;
        assert_eq!(facts(&machine).await?.kubelet, None, "{flavour:?}");
        // A plugin of the machine's own.
        machine.shell("mkdir -p /opt/cni/bin && echo own > /opt/cni/bin/bridge").await?;
        for _ in 0..2 {
            claim(&machine, &owner("m")).await?;
            machine.shell("rm -f /run/calls /var/lib/covey/state.json").await?;
            let joined = join(&machine, &sent).await?;
            assert_eq!(joined, Progress::Joined("worker-1".to_owned()), "{flavour:?}");
            assert_eq!(facts(&machine).await?.kubelet.as_deref(), Some("1.36.1"));
            let seen = machine
                .shell(
                    "readlink /usr/local/bin/kubelet; stat -c %a /opt/covey/programs/bin/kubelet; cat /opt/cni/bin/bridge; \
                     readlink /opt/cni/bin/loopback; cat /etc/containerd/config.toml; stat -c %a /etc/init.d/kubelet; \
                     grep -c kubeadm-flags.env /etc/init.d/kubelet",
                )
                .await?;
            assert_eq!(
                seen,
                "/opt/covey/programs/bin/kubelet\n755\nown\n/opt/covey/programs/cni/loopback\nversion = 3\n755\n1\n",
                "{flavour:?}"
            );
            let calls = machine.shell("cat /run/calls").await?;
            assert!(calls.contains("rc-service containerd restart"), "{calls}");
            assert_eq!(reset(&machine).await?, Progress::Undone, "{flavour:?}");
            assert_eq!(cleanliness(&machine).await?, Cleanliness::Clean, "{flavour:?}");
            assert_eq!(facts(&machine).await?.kubelet, None, "{flavour:?}");
            // The archive alone stays, and the machine's own.
            let left = machine
                .shell("ls /opt; ls /var/lib/covey/programs.tar.gz; ls /opt/cni/bin /etc/init.d; ls /usr/local/bin | grep -c kube || true")
                .await?;
            assert_eq!(
                left, "cni\n/var/lib/covey/programs.tar.gz\n/etc/init.d:\n\n/opt/cni/bin:\nbridge\n0\n",
                "{flavour:?}"
            );
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_is_not_what_was_sent_is_not_unpacked_and_what_is_in_its_way_is_named() -> Result<()> {
    on_each(async |flavour, machine| {
        let sent = prepare(&machine, "1.36.1").await?;
        claim(&machine, &owner("m")).await?;
        machine.shell("cp /var/lib/covey/programs.tar.gz /run/kept; echo x >> /var/lib/covey/programs.tar.gz").await?;
        let says = async |words: &str| {
            let Progress::Failed(found) = join(&machine, &sent).await? else {
                panic!("{flavour:?}: {words}");
            };
            assert!(found.contains(words), "{flavour:?}: {found}");
            Ok::<_, anyhow::Error>(())
        };
        says("were changed").await?;
        machine.shell("test ! -e /opt/covey && cp /run/kept /var/lib/covey/programs.tar.gz").await?;
        machine.program("kubelet", "echo Kubernetes v1.35.0").await?;
        says("/usr/local/bin/kubelet is there already").await?;
        machine.shell("rm /usr/local/bin/kubelet; mkdir -p /etc/init.d; echo own > /etc/init.d/kubelet").await?;
        says("/etc/init.d/kubelet is there already").await?;
        machine.shell("grep -qx own /etc/init.d/kubelet && rm /etc/init.d/kubelet").await?;
        assert_eq!(
            join(&machine, &sent).await?,
            Progress::Joined("worker-1".to_owned()),
            "{flavour:?}"
        );
        assert_eq!(reset(&machine).await?, Progress::Undone, "{flavour:?}");
        assert_eq!(cleanliness(&machine).await?, Cleanliness::Clean, "{flavour:?}");
        Ok(())
    })
    .await
}
