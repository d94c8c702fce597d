//! Scripts on machines: claims, joins, resets.
//!
//! Invariant: each is played with dash and with busybox, and proven by what is on the machine afterwards.
//! Long because the programs that are played and what starts a worker are the same for all of them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use provider_static::plan::claim::{Claim, Owner};
use provider_static::plan::cleanliness::Cleanliness;
use provider_static::plan::facts::Facts;
use provider_static::plan::progress::{Expected, Operation, Progress};
use provider_static::scripts::{CLAIM, CLEAN, FACTS, JOIN, POLL, Parameters, RESET, START, start};
use sha2::{Digest as _, Sha256};

use crate::machine::{FLAVOURS, Flavour, Machine};
use crate::sshd::is_possible;

pub(crate) const TOKEN: &str = "abcdef.0123456789abcdef";

pub(crate) fn owner(machine: &str) -> Owner {
    Owner {
        installation: "installation".to_owned(),
        tenant_cluster: "tenant".to_owned(),
        machine: machine.to_owned(),
    }
}

pub(crate) fn ca(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

fn expected(operation: Operation) -> Expected {
    Expected {
        operation,
        id: "0a1b2c3d".to_owned(),
        machine: "m".to_owned(),
        ca: ca("our authority"),
        before: String::new(),
    }
}

pub(crate) async fn claim(machine: &Machine, who: &Owner) -> Result<Claim> {
    let answer = machine
        .run(&CLAIM, &who.parameters("2026-01-01T00:00:00Z", None))
        .await?;
    Ok(Claim::read(&answer, who))
}

/// What plays the programs of a node: kubeadm writes a kubelet.conf with this authority.
pub(crate) async fn programs(machine: &Machine, authority: &str) -> Result<()> {
    let authority = STANDARD.encode(authority);
    let kubeadm = format!(
        "echo \"kubeadm $*\" >> /run/calls\n\
         if [ \"$1\" = join ]; then stat -c %a \"$3\" >> /run/calls; grep -q {TOKEN} \"$3\" || exit 1; mkdir -p /etc/kubernetes\n\
         echo '    certificate-authority-data: {authority}' > /etc/kubernetes/kubelet.conf; fi"
    );
    machine.program("kubeadm", &kubeadm).await?;
    machine
        .program("kubelet", "echo Kubernetes v1.36.1")
        .await?;
    machine
        .program("rc-service", "echo \"rc-service $*\" >> /run/calls")
        .await?;
    machine
        .program("rc-update", "echo \"rc-update $*\" >> /run/calls")
        .await?;
    machine.program("systemctl", "exit 1").await
}

pub(crate) async fn join(machine: &Machine) -> Result<Progress> {
    join_with(machine, "version = 3").await
}

/// Empty: with the configuration of containerd that the machine has.
pub(crate) async fn join_with(machine: &Machine, containerd: &str) -> Result<Progress> {
    join_told(machine, containerd, "").await
}

/// `address`: the one in the overlay; empty: none.
async fn join_told(machine: &Machine, containerd: &str, address: &str) -> Result<Progress> {
    play(machine, Operation::Join, &started(containerd, address)).await
}

/// What starts a join.
fn started(containerd: &str, address: &str) -> Parameters {
    let told = Parameters::default()
        .plain("operation", "join")
        .plain("id", "0a1b2c3d")
        .plain("machine", "m")
        .plain("ca", ca("our authority"))
        .plain("version", "1.36.1")
        .plain("nodeName", "worker-1")
        .plain("address", address)
        .plain("programs", "")
        .plain("containerdConfig", containerd)
        .secret(
            "config",
            format!("kind: JoinConfiguration\ntoken: \"{TOKEN}\"\n"),
        );
    start(&JOIN, "0a1b2c3d", 600, &told)
}

pub(crate) async fn reset(machine: &Machine) -> Result<Progress> {
    let told = Parameters::default()
        .plain("operation", "reset")
        .plain("id", "0a1b2c3d")
        .plain("machine", "m");
    play(
        machine,
        Operation::Reset,
        &start(&RESET, "0a1b2c3d", 600, &told),
    )
    .await
}

/// Starts a worker, and again when it is gone before its end, as the operator does.
pub(crate) async fn play(
    machine: &Machine,
    operation: Operation,
    told: &Parameters,
) -> Result<Progress> {
    play_as(machine, &expected(operation), told).await
}

pub(crate) async fn play_as(
    machine: &Machine,
    expected: &Expected,
    told: &Parameters,
) -> Result<Progress> {
    machine.run(&START, told).await?;
    let mut looks = tokio::time::interval(Duration::from_millis(100));
    let played = async {
        loop {
            looks.tick().await;
            let answer = machine.run(&POLL, &Parameters::default()).await?;
            match Progress::read(&answer, expected) {
                Progress::Working(_) => {}
                Progress::Start => drop(machine.run(&START, told).await?),
                over => return Ok::<_, anyhow::Error>(over),
            }
        }
    };
    let played = tokio::time::timeout(Duration::from_secs(120), played).await;
    played.context("it does not end")?
}

/// Plays with one machine of each flavour.
pub(crate) async fn on_each(play: impl AsyncFn(Flavour, Machine) -> Result<()>) -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    for flavour in FLAVOURS {
        play(flavour, Machine::start(flavour).await?).await?;
    }
    Ok(())
}

pub(crate) async fn cleanliness(machine: &Machine) -> Result<Cleanliness> {
    Ok(Cleanliness::read(
        &machine.run(&CLEAN, &Parameters::default()).await?,
    ))
}

#[tokio::test]
async fn of_two_claims_at_once_one_wins() -> Result<()> {
    on_each(async |flavour, machine| {
        let (one, two, three) = (owner("one"), owner("two"), owner("three"));
        let claims = tokio::try_join!(
            claim(&machine, &one),
            claim(&machine, &two),
            claim(&machine, &three)
        )?;
        let claims = [claims.0, claims.1, claims.2];
        let won: Vec<_> = claims
            .iter()
            .filter(|claim| **claim == Claim::Ours)
            .collect();
        assert_eq!(won.len(), 1, "{flavour:?}: {claims:?}");
        let facts = Facts::read(&machine.run(&FACTS, &Parameters::default()).await?);
        let winner = facts.owner.unwrap();
        assert_eq!(
            claim(&machine, &winner).await?,
            Claim::Ours,
            "again is fine"
        );
        let other = [one, two]
            .into_iter()
            .find(|owner| *owner != winner)
            .unwrap();
        assert_eq!(claim(&machine, &other).await?, Claim::Foreign(winner));
        let left = machine.shell("ls /var/lib/covey").await?;
        assert_eq!(left.trim(), "owner.json", "no draft is left");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn facts_of_an_empty_machine_name_nobody() -> Result<()> {
    on_each(async |flavour, machine| {
        let facts = Facts::read(&machine.run(&FACTS, &Parameters::default()).await?);
        assert_eq!(facts.owner, None, "{flavour:?}");
        assert!(
            !facts.kubelet_configured && facts.writable && facts.run_is_memory,
            "{flavour:?}: {facts:?}"
        );
        assert!(
            facts.disk_free_mib.is_some() && facts.swap_mib.is_some(),
            "{facts:?}"
        );
        assert_eq!((facts.tasks, facts.foreign_tasks), (0, 0));
        assert_eq!(facts.processes, [""; 0]);
        assert_eq!(cleanliness(&machine).await?, Cleanliness::Clean);
        Ok(())
    })
    .await
}

/// Where it is started again before its worker has begun, both workers come; the late one would work after the end that
/// was told.
#[tokio::test]
async fn of_two_workers_that_were_started_the_last_one_works() -> Result<()> {
    on_each(async |flavour, machine| {
        if flavour == Flavour::Busybox {
            // Its shell has a setsid of its own, so nobody can hold a worker up there. The scripts are the same.
            return Ok(());
        }
        programs(&machine, "our authority").await?;
        let fails = "if [ \"$1\" = join ]; then echo join >> /run/calls; exit 1; fi";
        machine.program("kubeadm", fails).await?;
        let held = "echo >> /run/workers; number=$(wc -l < /run/workers)\n\
                    until [ -e /run/go-$number ]; do sleep 0.05; done\n\
                    busybox setsid \"$@\"; touch /run/gone-$number";
        machine.program("setsid", held).await?;
        claim(&machine, &owner("m")).await?;
        for worker in 1..=2 {
            machine.run(&START, &started("version = 3", "")).await?;
            let comes =
                format!("until [ \"$(wc -l < /run/workers)\" = {worker} ]; do sleep 0.05; done");
            machine.shell(&comes).await?;
        }
        for worker in 1..=2 {
            machine
                .shell(&format!(
                    "touch /run/go-{worker}; until [ -e /run/gone-{worker} ]; do sleep 0.05; done"
                ))
                .await?;
        }
        let answer = machine.run(&POLL, &Parameters::default()).await?;
        let ended = Progress::read(&answer, &expected(Operation::Join));
        assert!(
            matches!(ended, Progress::Failed(_)),
            "{flavour:?}: {ended:?}"
        );
        assert_eq!(
            machine
                .shell("cat /run/calls | grep -c '^join'")
                .await?
                .trim(),
            "1",
            "{flavour:?}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_join_is_done_once_and_leaves_no_token() -> Result<()> {
    on_each(async |flavour, machine| {
        programs(&machine, "our authority").await?;
        claim(&machine, &owner("m")).await?;
        assert_eq!(
            join(&machine).await?,
            Progress::Joined("worker-1".to_owned()),
            "{flavour:?}"
        );
        let calls = machine.shell("cat /run/calls").await?;
        assert!(calls.contains("rc-service containerd restart"), "{calls}");
        assert!(
            calls.contains("kubeadm join --config /run/covey/join.yaml\n600\n"),
            "{calls}"
        );
        let left = machine
            .shell("grep -rl 0123456789abcdef /run/covey /var/lib/covey /etc/kubernetes /etc/containerd || true")
            .await?;
        assert_eq!(left, "", "the token is gone");
        // As if the answer had been lost: the state is gone, the kubelet is joined.
        machine.shell("rm /var/lib/covey/state.json").await?;
        assert_eq!(
            join(&machine).await?,
            Progress::Joined("worker-1".to_owned())
        );
        let joins = machine.shell("grep -c 'kubeadm join' /run/calls").await?;
        assert_eq!(joins.trim(), "1", "nothing is bootstrapped twice");
        Ok(())
    })
    .await
}

/// A kubelet starts with an address that the machine has, and what brings it runs on that kubelet.
#[tokio::test]
async fn a_machine_has_its_address_in_the_overlay_before_its_kubelet_starts_and_until_its_reset()
-> Result<()> {
    on_each(async |flavour, machine| {
        programs(&machine, "our authority").await?;
        claim(&machine, &owner("m")).await?;
        let has = "ip -o address show dev lo | sed -n 's/^.*inet \\(198[^ ]*\\) .*$/\\1/p'";
        let kubeadm = machine.shell("cat /usr/local/bin/kubeadm").await?;
        let kubeadm = kubeadm.trim_start_matches("#!/bin/sh\n");
        let looks = format!("{has} > /run/had\n{kubeadm}");
        machine.program("kubeadm", &looks).await?;
        for address in ["198.18.0.7", "198.18.0.7", "198.18.0.8"] {
            // As if the join were a new one.
            machine.shell("rm -f /var/lib/covey/state.json").await?;
            let joined = join_told(&machine, "version = 3", address).await?;
            assert_eq!(
                joined,
                Progress::Joined("worker-1".to_owned()),
                "{flavour:?}"
            );
            let now = machine.shell(has).await?;
            assert_eq!(now, format!("{address}/32\n"), "{flavour:?}");
        }
        let had = machine.shell("cat /run/had").await?;
        assert_eq!(had, "198.18.0.7/32\n", "before kubeadm starts the kubelet");
        let Cleanliness::Traces(traces) = cleanliness(&machine).await? else {
            panic!("a node is there");
        };
        let trace = "file /var/lib/covey/address".to_owned();
        assert!(traces.contains(&trace), "{traces:?}");
        assert_eq!(reset(&machine).await?, Progress::Undone, "{flavour:?}");
        assert_eq!(cleanliness(&machine).await?, Cleanliness::Clean);
        assert_eq!(machine.shell(has).await?, "", "{flavour:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_join_that_is_killed_goes_on_and_one_that_fails_says_why() -> Result<()> {
    on_each(async |flavour, machine| {
        programs(&machine, "our authority").await?;
        claim(&machine, &owner("m")).await?;
        machine
            .program("kubelet", "echo Kubernetes v1.35.0")
            .await?;
        let Progress::Failed(words) = join(&machine).await? else {
            panic!("the kubelet is another one");
        };
        assert!(words.contains("v1.35.0 instead of v1.36.1"), "{words}");
        machine.shell("! grep -q kubeadm /run/calls").await?;
        machine
            .program("kubelet", "echo Kubernetes v1.36.1")
            .await?;
        machine
            .program(
                "kubeadm",
                "echo \"kubeadm $1\" >> /run/tries; if [ \"$1\" = join ]; then cat \"$3\" >&2; exit 1; fi",
            )
            .await?;
        let Progress::Failed(words) = join(&machine).await? else {
            panic!("kubeadm refuses");
        };
        assert!(
            words.contains("kubeadm join failed") && words.contains("[redacted]"),
            "{words}"
        );
        assert!(!words.contains("0123456789abcdef"), "{words}");
        // kubeadm refuses what its own half has left.
        let tries = machine.shell("cat /run/tries").await?;
        assert_eq!(tries, "kubeadm join\nkubeadm reset\n", "{flavour:?}");
        machine
            .shell("! grep -r 0123456789abcdef /var/lib/covey && ! test -e /run/covey/join.yaml")
            .await?;
        programs(&machine, "our authority").await?;
        machine.program("kubelet", "if [ ! -e /run/killed ]; then touch /run/killed; kill -9 $(cut -d ' ' -f 1 /run/covey/worker); fi; echo Kubernetes v1.36.1").await?;
        assert_eq!(
            join(&machine).await?,
            Progress::Joined("worker-1".to_owned()),
            "{flavour:?}"
        );
        machine.shell("test -e /run/killed").await?;
        Ok(())
    })
    .await
}

/// Its number is written only once it has the lock; until then two wrote the state at once, and one of them failed.
#[tokio::test]
async fn a_worker_that_has_just_begun_is_not_written_under() -> Result<()> {
    on_each(async |flavour, machine| {
        programs(&machine, "our authority").await?;
        claim(&machine, &owner("m")).await?;
        machine
            .shell("mkdir -p /run/covey && exec 9> /run/covey/lock && flock -n 9 && (tail -f /dev/null & echo $! > /run/holds) > /dev/null 2>&1")
            .await?;
        let told = start(&JOIN, "0a1b2c3d", 600, &Parameters::default().plain("operation", "join"));
        let answer = machine.run(&START, &told).await?;
        assert_eq!(answer.get("result"), "working", "{flavour:?}");
        machine.shell("test ! -e /var/lib/covey/state.json").await?;
        machine.shell("kill $(cat /run/holds)").await?;
        assert_eq!(join(&machine).await?, Progress::Joined("worker-1".to_owned()), "{flavour:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_node_of_another_cluster_is_left_alone() -> Result<()> {
    on_each(async |flavour, machine| {
        programs(&machine, "another authority").await?;
        claim(&machine, &owner("m")).await?;
        machine.shell(&format!("kubeadm join --config /dev/null; mkdir -p /etc/kubernetes; echo 'certificate-authority-data: {}' > /etc/kubernetes/kubelet.conf; rm /run/calls", STANDARD.encode("another authority"))).await?;
        assert!(
            matches!(join(&machine).await?, Progress::Foreign(_)),
            "{flavour:?}"
        );
        machine
            .shell("test ! -e /run/calls && test -e /etc/kubernetes/kubelet.conf")
            .await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_reset_leaves_no_trace_and_no_data_of_others_behind_mounts() -> Result<()> {
    on_each(async |flavour, machine| {
        programs(&machine, "our authority").await?;
        claim(&machine, &owner("m")).await?;
        join(&machine).await?;
        machine
            .shell(
                "set -e\n\
                 mkdir -p '/var/lib/kubelet/pods/a b/volume' /var/lib/precious /etc/cni/net.d /run/flannel /var/lib/covey/overlay /var/log/pods/a\n\
                 echo key > /var/lib/covey/overlay/private.key\n\
                 ip link add covey0 type bridge\n\
                 echo said > /var/log/pods/a/0.log\n\
                 echo data > /var/lib/precious/file\n\
                 mount --bind /var/lib/precious '/var/lib/kubelet/pods/a b/volume'\n\
                 mkdir -p '/var/lib/kubelet/pods/a b/volume/inner'\n\
                 mount -t tmpfs tmpfs '/var/lib/kubelet/pods/a b/volume/inner'\n\
                 echo x > /etc/cni/net.d/10.conf\n\
                 ip link add cni0 type bridge\n\
                 nft add table ip kube-proxy\n\
                 nft add table ip mine\n\
                 if command -v iptables-nft; then\n\
                 iptables-nft -t nat -N KUBE-SERVICES; iptables-nft -t nat -A OUTPUT -m comment --comment 'a b' -j KUBE-SERVICES\n\
                 iptables-nft -t nat -A OUTPUT -p tcp --dport 1 -j RETURN; fi",
            )
            .await?;
        let Cleanliness::Traces(traces) = cleanliness(&machine).await? else {
            panic!("a node is there");
        };
        for trace in [
            "folder /etc/kubernetes",
            "folder /var/lib/covey/overlay",
            "folder /var/log/pods",
            "mount /var/lib/kubelet/",
            "link cni0",
            "link covey0",
            "table ip kube-proxy",
            "file /var/lib/covey/owner.json",
        ] {
            assert!(
                traces.iter().any(|found| found.starts_with(trace)),
                "{trace}: {traces:?}"
            );
        }
        assert_eq!(reset(&machine).await?, Progress::Undone, "{flavour:?}");
        assert_eq!(
            cleanliness(&machine).await?,
            Cleanliness::Clean,
            "{flavour:?}"
        );
        machine
            .shell("! test -e /var/lib/covey/overlay/private.key && ! ip link show covey0")
            .await?;
        assert_eq!(machine.shell("cat /var/lib/precious/file").await?, "data\n");
        machine.shell("nft list table ip mine").await?;
        machine
            .shell("! command -v iptables-nft || iptables-nft -t nat -S OUTPUT | grep -q RETURN")
            .await?;
        assert_eq!(reset(&machine).await?, Progress::Undone, "again is fine");
        assert_eq!(
            claim(&machine, &owner("next")).await?,
            Claim::Ours,
            "the next one has it"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_reset_after_a_join_that_failed_takes_the_token_away() -> Result<()> {
    on_each(async |flavour, machine| {
        programs(&machine, "our authority").await?;
        claim(&machine, &owner("m")).await?;
        machine.program("kubeadm", "[ \"$1\" != join ]").await?;
        // A disk of its own stays a mount point.
        machine.shell("mkdir /var/lib/kubelet && mount -t tmpfs tmpfs /var/lib/kubelet && mkdir -p /var/lib/kubelet/.hidden/pods").await?;
        assert!(
            matches!(join(&machine).await?, Progress::Failed(_)),
            "{flavour:?}"
        );
        machine
            .shell("grep -rq 0123456789abcdef /run/covey")
            .await?;
        assert!(matches!(
            cleanliness(&machine).await?,
            Cleanliness::Traces(_)
        ));
        assert_eq!(reset(&machine).await?, Progress::Undone);
        assert_eq!(cleanliness(&machine).await?, Cleanliness::Clean);
        machine
            .shell(
                "! grep -rq 0123456789abcdef /run/covey /var/lib && mountpoint -q /var/lib/kubelet",
            )
            .await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_machine_of_somebody_else_is_not_reset() -> Result<()> {
    on_each(async |flavour, machine| {
        programs(&machine, "our authority").await?;
        claim(&machine, &owner("other")).await?;
        machine
            .shell("mkdir -p /etc/kubernetes; touch /etc/kubernetes/kubelet.conf")
            .await?;
        assert!(
            matches!(reset(&machine).await?, Progress::Foreign(_)),
            "{flavour:?}"
        );
        machine
            .shell("test -e /etc/kubernetes/kubelet.conf && test ! -e /run/calls")
            .await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_read_only_disk_is_said_in_words() -> Result<()> {
    on_each(async |flavour, machine| {
        machine.shell("mount -o remount,ro /var/lib").await?;
        assert_eq!(
            claim(&machine, &owner("m")).await?,
            Claim::Unwritable,
            "{flavour:?}"
        );
        // Whose it is does not change by that: the first answer may have been lost.
        machine.shell("mount -o remount,rw /var/lib").await?;
        claim(&machine, &owner("m")).await?;
        machine.shell("mount -o remount,ro /var/lib").await?;
        assert_eq!(
            claim(&machine, &owner("m")).await?,
            Claim::Ours,
            "{flavour:?}"
        );
        Ok(())
    })
    .await
}
