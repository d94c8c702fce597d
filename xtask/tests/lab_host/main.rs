//! `cargo xtask lab host` with real parts: namespaces, sshd, OpenRC and containerd, entered as the operator
//! enters machines. No management cluster is needed.
//!
//! Invariant: each test has labs of its own, in folders that are checkouts by their looks, and takes them down.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

use std::net::{SocketAddrV6, TcpStream};
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use lab::programs::KubernetesVersion;
use lab::ssh_host::PORT;
use provider_static::answer::Answer;
use provider_static::plan::claim::{Claim, Owner};
use provider_static::plan::cleanliness::Cleanliness;
use provider_static::plan::facts::Facts;
use provider_static::plan::preflight::{Needs, Problem, problems};
use provider_static::scripts::{CLAIM, CLEAN, FACTS, Parameters, Script};
use provider_static::session::{Error, Session};
use serde_json::Value;

mod checkout;
mod control_plane;
mod ends;
mod entered;
mod joining;
mod played;
mod sent;
#[path = "../support/mod.rs"]
mod support;
use checkout::{Lab, connector};

/// What `lab status` says without a lab.
const DOWN: &str = "the lab is down: `cargo xtask lab up` starts it\n";

async fn facts(session: &Session) -> Result<Facts> {
    let asked = Timestamp::now();
    let answer = session.run(&FACTS, &Parameters::default()).await?;
    Ok(Facts::read(&answer).asked_between(asked, Timestamp::now()))
}

/// What keeps the machine from becoming a node, but for what its kernel, which is this machine's, does.
fn own_problems(facts: &Facts, sends_programs: bool) -> Vec<Problem> {
    let needs = Needs {
        us: owner(),
        sends_programs,
        ..Needs::default()
    };
    let mut found = problems(facts, &needs);
    for problem in &found {
        eprintln!("{problem}");
    }
    found.retain(|problem| {
        !matches!(
            problem,
            Problem::Cgroup
                | Problem::Disk(_)
                | Problem::Kernel(_)
                | Problem::Memory(_)
                | Problem::Module(_)
                | Problem::Swap(_)
        )
    });
    found
}

fn owner() -> Owner {
    Owner {
        installation: "installation".to_owned(),
        tenant_cluster: "tenant".to_owned(),
        machine: "machine".to_owned(),
    }
}

/// Whether this machine reaches a host's SSH server by its link-local address; none: it has no such address.
fn by_ipv6(lab: &Lab, name: &str) -> Result<Option<bool>> {
    let show = "ip -o -6 addr show dev eth0 scope link";
    let exec = ["exec", "--host", name, "--", "sh", "-c", show];
    let shown = lab.xtask(&exec)?;
    let mut words = shown.split_whitespace();
    let Some(address) = words.find_map(|word| word.strip_suffix("/64")) else {
        return Ok(None);
    };
    let bridge = lab.state()?.slot.bridge();
    let index = std::fs::read_to_string(format!("/sys/class/net/{bridge}/ifindex"))?;
    let server = SocketAddrV6::new(address.parse()?, PORT, 0, index.trim().parse()?);
    Ok(Some(
        TcpStream::connect_timeout(&server.into(), Duration::from_secs(5)).is_ok(),
    ))
}

/// A script of this test, whose last line is its answer.
async fn run(session: &Session, text: &'static str) -> Result<Answer> {
    let script = Script { name: "test", text };
    Ok(session.run(&script, &Parameters::default()).await?)
}

#[tokio::test]
async fn a_host_can_become_a_node_and_leaves_nothing() -> Result<()> {
    let Some(lab) = Lab::begin("node")? else {
        return Ok(());
    };
    let host = lab.add("edge", &[])?;
    let session = host.enter().await?;
    let facts = facts(&session).await?;
    assert_eq!(facts.machine_id, host.0["machineId"].as_str().unwrap());
    assert_eq!(facts.owner, None);
    assert_eq!(facts.processes, ["containerd"]);
    assert_eq!(own_problems(&facts, false), [], "{facts:?}");
    let clean = session.run(&CLEAN, &Parameters::default()).await?;
    assert_eq!(Cleanliness::read(&clean), Cleanliness::Clean);

    let claim = owner().parameters("2026-01-01T00:00:00Z", None);
    let claim = session.run(&CLAIM, &claim).await?;
    assert_eq!(Claim::read(&claim, &owner()), Claim::Ours);
    // As the script `join` starts it where there is no systemd.
    let started = run(
        &session,
        "rc-service containerd restart > /run/said 2>&1 && \
         rc-service kubelet status > /dev/null 2>&1; [ $? = 3 ] && ctr version > /run/said 2>&1 && result=ok || result=$(tail -n 5 /run/said | tr -cd 'a-zA-Z0-9 .:/_-'); \
         printf '{\"result\":\"%s\",\"version\":\"%s\"}\\n' \"$result\" \"$(kubelet --version)\"\n",
    )
    .await?;
    assert_eq!(started.get("result"), "ok");
    let version = format!("Kubernetes v{}", KubernetesVersion::default());
    assert_eq!(started.get("version"), version);
    let facts = self::facts(&session).await?;
    assert_eq!(
        own_problems(&facts, false),
        [],
        "nothing but its owner is new"
    );
    drop(session);

    let list = lab.xtask(&["host", "list"])?;
    assert!(list.contains("edge") && list.contains("runs"), "{list}");
    lab.xtask(&["host", "remove", "edge"])?;
    let status = lab.status()?;
    assert_eq!(status, DOWN);
    Ok(())
}

#[tokio::test]
async fn hosts_behind_jump_hosts_are_reached_through_them_alone() -> Result<()> {
    let Some(lab) = Lab::begin("jump")? else {
        return Ok(());
    };
    let gate = lab.add("gate", &["--jump"])?;
    assert_eq!(
        gate.0["objects"].as_array().map(Vec::len),
        Some(1),
        "no Host"
    );
    let behind = lab.add("behind", &["--via", "gate"])?;
    let (west, east) = (
        lab.add("one", &["--site", "west"])?,
        lab.add("two", &["--site", "east"])?,
    );
    assert_eq!(west.0["address"], east.0["address"], "one private range");
    let mut seen = Vec::new();
    for host in [&behind, &west, &east] {
        let facts = facts(&host.enter().await?).await?;
        assert_eq!(facts.machine_id, host.0["machineId"].as_str().unwrap());
        assert_eq!(own_problems(&facts, false), [], "{facts:?}");
        seen.push(facts.machine_id);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 3, "three machines");
    // The gateway of the other site leads to a machine with the same address and another key.
    let mut astray = west.target();
    astray.via = east.target().via;
    let error = connector().connect(&astray).await.unwrap_err();
    assert!(matches!(error, Error::WrongHostKey { .. }), "{error}");
    let error = connector().connect(&behind.straight()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    // Addresses that nobody gave out; a machine without IPv6 has none.
    assert_ne!(by_ipv6(&lab, "gate")?, Some(false));
    assert_ne!(by_ipv6(&lab, "behind")?, Some(true));
    // From its site a machine reaches the lab's network, with its gateway's address.
    let gate = lab.xtask(&["host", "list", "--json"])?;
    let gate: Vec<Value> = serde_json::from_str(&gate)?;
    assert_eq!(gate.len(), 6, "two gateways came along");
    let out = lab.xtask(&[
        "exec",
        "--host",
        "one",
        "--",
        "sh",
        "-c",
        "ip -o -4 addr show eth0; ip route",
    ])?;
    assert!(out.contains("192.168.77.11/24"), "{out}");

    let error = lab.xtask(&["host", "remove", "gate"]).unwrap_err();
    assert!(error.to_string().contains("behind"), "{error}");
    lab.xtask(&["host", "remove", "one"])?;
    let left = lab.xtask(&["host", "list"])?;
    assert!(!left.contains("west-gateway") && left.contains("east-gateway"));
    // The rest goes with the lab, which fails where something is left.
    lab.xtask(&["down"])?;
    let status = lab.status()?;
    assert_eq!(status, DOWN);
    Ok(())
}
