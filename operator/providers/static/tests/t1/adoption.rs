//! A node that runs already is taken over: its owner is swapped as it was seen, and it is shown the way to the API.

use anyhow::Result;
use api::host::HostOwner;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use provider_static::plan::claim::{Claim, Owner};
use provider_static::plan::facts::Facts;
use provider_static::plan::progress::{Expected, Operation, Progress};
use provider_static::scripts::{CLAIM, FACTS, JOIN, Parameters, start};
use rcgen::{CertificateParams, KeyPair};
use sha2::{Digest as _, Sha256};

use crate::hosts::{claim, on_each, owner, play_as, programs, reset};
use crate::machine::Machine;

const SERVER: &str = "https://api.example.com:6443";

fn seen(machine: &str) -> HostOwner {
    owner(machine).seen()
}

async fn take(machine: &Machine, who: &Owner, replaces: &HostOwner) -> Result<Claim> {
    let told = who.parameters("2026-01-02T00:00:00Z", Some(replaces));
    Ok(Claim::read(&machine.run(&CLAIM, &told).await?, who))
}

async fn facts(machine: &Machine, caller: &str) -> Result<Facts> {
    let caller = Parameters::default().plain("machine", caller);
    Ok(Facts::read(&machine.run(&FACTS, &caller).await?))
}

/// A certificate, as PEM, and its fingerprint.
fn authority() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::default().self_signed(&key).unwrap();
    let digest = hex::encode(Sha256::digest(certificate.der()));
    (certificate.pem(), digest)
}

/// A node that somebody else has joined, of which the kubelet believes this.
async fn node(machine: &Machine, authority: &str) -> Result<()> {
    programs(machine, "nobody").await?;
    let data = STANDARD.encode(authority);
    let config = format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {data}\n    server: https://192.0.2.1:6443\n\
         users:\n- name: default-auth\n  user:\n    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n"
    );
    machine
        .shell(&format!(
            "mkdir -p /etc/kubernetes/pki /var/lib/kubelet/pods/a /var/log/pods/a\n\
             printf '{config}' > /etc/kubernetes/kubelet.conf; chmod 0600 /etc/kubernetes/kubelet.conf\n\
             echo old > /etc/kubernetes/pki/ca.crt; echo running > /var/lib/kubelet/pods/a/volume"
        ))
        .await
        .map(drop)
}

async fn adopt(machine: &Machine, authority: &str, before: &str) -> Result<Progress> {
    let ca = hex::encode(Sha256::digest(authority));
    let told = Parameters::default()
        .plain("operation", "join")
        .plain("id", "0a1b2c3d")
        .plain("machine", "m")
        .plain("adopts", "true")
        .plain("ca", &ca)
        .plain("before", before)
        .plain("nodeName", "worker-1")
        .plain("server", SERVER)
        .plain("authority", STANDARD.encode(authority));
    let expected = Expected {
        operation: Operation::Join,
        id: "0a1b2c3d".to_owned(),
        machine: "m".to_owned(),
        ca,
        before: before.to_owned(),
    };
    play_as(machine, &expected, &start(&JOIN, "0a1b2c3d", 600, &told)).await
}

/// Its kubelet believes another authority than the operator saw.
async fn not_adopted(machine: &Machine, authority: &str) -> Result<()> {
    let foreign = adopt(machine, authority, "another digest").await?;
    assert!(matches!(foreign, Progress::Foreign(_)), "{foreign:?}");
    // That is seen before the worker is at its end, which is told to whoever starts another one meanwhile.
    let ends =
        "until grep -q '\"result\":\"foreign\"' /var/lib/covey/state.json; do sleep 0.05; done";
    machine.shell(ends).await.map(drop)
}

#[tokio::test]
async fn an_owner_is_replaced_only_as_it_was_seen_and_by_one_alone() -> Result<()> {
    on_each(async |flavour, machine| {
        claim(&machine, &owner("lost")).await?;
        let other = take(&machine, &owner("m"), &seen("another")).await?;
        assert_eq!(other, Claim::Foreign(owner("lost")), "{flavour:?}");
        assert_eq!(
            claim(&machine, &owner("m")).await?,
            Claim::Foreign(owner("lost"))
        );
        let (one, two, three) = (owner("one"), owner("two"), owner("three"));
        let lost = seen("lost");
        let claims = tokio::try_join!(
            take(&machine, &one, &lost),
            take(&machine, &two, &lost),
            take(&machine, &three, &lost)
        )?;
        let claims = [claims.0, claims.1, claims.2];
        let won = claims.iter().filter(|claim| **claim == Claim::Ours).count();
        assert_eq!(won, 1, "{flavour:?}: {claims:?}");
        let winner = facts(&machine, "").await?.owner.unwrap();
        assert_eq!(
            take(&machine, &winner, &lost).await?,
            Claim::Ours,
            "again is fine"
        );
        assert_eq!(
            machine.shell("ls /var/lib/covey").await?.trim(),
            "owner.json"
        );
        // Where it was nobody's, it is claimed as any other.
        machine.shell("rm /var/lib/covey/owner.json").await?;
        assert_eq!(take(&machine, &owner("m"), &lost).await?, Claim::Ours);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn nothing_is_taken_while_somebody_works_there() -> Result<()> {
    on_each(async |flavour, machine| {
        claim(&machine, &owner("lost")).await?;
        machine
            .shell("mkdir -p /run/covey; (exec 9> /run/covey/lock; flock 9; touch /run/held; sleep 60) > /dev/null 2>&1 &\n\
                    until [ -e /run/held ]; do sleep 0.05; done")
            .await?;
        let taken = take(&machine, &owner("m"), &seen("lost")).await?;
        assert_eq!(taken, Claim::Foreign(owner("lost")), "{flavour:?}");
        Ok(())
    })
    .await
}

/// A worker that gave up is a process for a moment more, with its number and its lock.
#[tokio::test]
async fn what_is_started_while_a_worker_goes_is_not_told_of_its_end() -> Result<()> {
    on_each(async |flavour, machine| {
        let ((old, _), (new, _)) = (authority(), authority());
        node(&machine, &old).await?;
        claim(&machine, &owner("m")).await?;
        let found = facts(&machine, "m").await?;
        not_adopted(&machine, &new).await?;
        let goes = "exec 9> /run/covey/lock; flock 9\n\
                    echo $$ $(sed 's/^.*) //' /proc/$$/stat | cut -d ' ' -f 20) > /run/covey/worker\n\
                    touch /run/goes; sleep 1.5";
        machine.program("goes", goes).await?;
        machine
            .shell("goes > /dev/null 2>&1 &\nuntil [ -e /run/goes ]; do sleep 0.05; done")
            .await?;
        let joined = adopt(&machine, &new, &found.kubelet_ca).await?;
        assert_eq!(joined, Progress::Joined("worker-1".to_owned()), "{flavour:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn who_has_a_machine_says_so_at_each_look_and_nobody_else_does() -> Result<()> {
    on_each(async |flavour, machine| {
        claim(&machine, &owner("m")).await?;
        assert_eq!(facts(&machine, "").await?.owner_looked, None, "{flavour:?}");
        assert_eq!(facts(&machine, "other").await?.owner_looked, None);
        assert!(facts(&machine, "m").await?.owner_looked.unwrap() < 60);
        machine
            .shell("echo $(($(date +%s) - 3600)) > /var/lib/covey/looked")
            .await?;
        let age = facts(&machine, "other").await?.owner_looked.unwrap();
        assert!((3600..3700).contains(&age), "{age}");
        // A clock that was set back, and a file that was cut off.
        machine
            .shell("echo 99999999999 > /var/lib/covey/looked")
            .await?;
        assert_eq!(facts(&machine, "").await?.owner_looked, Some(0));
        machine.shell(": > /var/lib/covey/looked").await?;
        assert_eq!(facts(&machine, "").await?.owner_looked, None);
        // The next owner has looked at it on its own only.
        facts(&machine, "m").await?;
        assert_eq!(take(&machine, &owner("n"), &seen("m")).await?, Claim::Ours);
        assert_eq!(facts(&machine, "m").await?.owner_looked, None);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_node_is_shown_the_way_and_its_pods_go_on() -> Result<()> {
    on_each(async |flavour, machine| {
        let ((old, old_print), (new, new_print)) = (authority(), authority());
        node(&machine, &old).await?;
        claim(&machine, &owner("m")).await?;
        let found = facts(&machine, "m").await?;
        assert_eq!(found.kubelet_authorities, std::slice::from_ref(&old_print), "{flavour:?}");
        // The authority was turned meanwhile: the old one is trusted beside the new one.
        let both = format!("{old}{new}");
        not_adopted(&machine, &both).await?;
        machine.shell("grep -q 192.0.2.1 /etc/kubernetes/kubelet.conf").await?;

        let joined = adopt(&machine, &both, &found.kubelet_ca).await?;
        assert_eq!(joined, Progress::Joined("worker-1".to_owned()), "{flavour:?}");
        let after = facts(&machine, "m").await?;
        assert_eq!(after.kubelet_authorities, [old_print, new_print]);
        let config = machine.shell("cat /etc/kubernetes/kubelet.conf").await?;
        assert!(config.contains(&format!("    server: {SERVER}\n")), "{config}");
        assert!(config.contains("client-certificate: /var/lib/kubelet"), "{config}");
        let mode = machine.shell("stat -c %a /etc/kubernetes/kubelet.conf").await?;
        assert_eq!(mode.trim(), "600");
        assert_eq!(machine.shell("cat /etc/kubernetes/pki/ca.crt").await?, both);
        let calls = machine.shell("cat /run/calls").await?;
        assert!(calls.contains("rc-service kubelet restart"), "{calls}");
        assert!(!calls.contains("kubeadm") && !calls.contains("containerd"), "{calls}");
        machine.shell("grep -q running /var/lib/kubelet/pods/a/volume").await?;
        // As if the answer had been lost, and the state with it.
        machine.shell("rm /var/lib/covey/state.json").await?;
        let again = adopt(&machine, &both, &after.kubelet_ca).await?;
        assert_eq!(again, Progress::Joined("worker-1".to_owned()));

        assert_eq!(reset(&machine).await?, Progress::Undone);
        let left = machine
            .shell("ls /etc/kubernetes /var/lib/kubelet /var/lib/covey/owner.json /var/lib/covey/looked 2> /dev/null || true")
            .await?;
        assert_eq!(left, "", "reset like any other");
        Ok(())
    })
    .await
}
