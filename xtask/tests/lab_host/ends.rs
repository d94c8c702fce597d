//! What ends of itself, is killed or fails on its way: nothing of it stays, and nothing else is touched.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use lab::host::Host;
use lab::run::{command, output};

use crate::DOWN;
use crate::checkout::Lab;

/// It needs no programs of a node.
const BARE: &[&str] = &["--bare"];
/// The longest that the kernel may take to end what was killed: only a failing test uses it up.
const PATIENCE: Duration = Duration::from_secs(20);

async fn killed(host: &Host) -> Result<()> {
    host.init.kill();
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    let gone = async {
        while host.is_alive() {
            looks.tick().await;
        }
    };
    let gone = tokio::time::timeout(PATIENCE, gone).await;
    gone.context("it was killed and lives")
}

#[tokio::test]
async fn labs_of_two_checkouts_never_touch_each_other() -> Result<()> {
    let Some(lab) = Lab::begin("one")? else {
        return Ok(());
    };
    let other = Lab::begin("another")?.context("it was able a moment ago")?;
    lab.add("a", BARE)?;
    lab.add("b", BARE)?;
    let mut state = lab.state()?;
    // The slot is claimed in the name of the first one.
    killed(&state.ssh_hosts["a"].host).await?;
    other.add("b", BARE)?;
    let others = other.state()?;
    assert_ne!(others.slot, state.slot, "a host lives in it");
    let b = state.ssh_hosts["b"].host.clone();
    assert!(b.is_alive());

    // As after a reboot: the slot that is remembered is another checkout's.
    state.slot = others.slot;
    state.write(&lab.layout())?;
    lab.xtask(&["host", "remove", "b"])?;
    assert!(!b.is_alive());
    assert!(!lab.layout().host("b").exists());
    assert!(!lab.state()?.ssh_hosts.contains_key("b"), "it is forgotten");
    let theirs = &others.ssh_hosts["b"];
    assert!(theirs.host.is_alive(), "it has the same name");
    let cable = others.slot.cable(theirs.place.number);
    assert!(Path::new("/sys/class/net").join(cable).exists());
    other.xtask(&["host", "remove", "b"])?;
    assert_eq!(other.status()?, DOWN);
    Ok(())
}

#[tokio::test]
async fn what_a_killed_command_or_test_left_is_ended_by_the_next() -> Result<()> {
    const NAME: &str = "killed";
    let Some(lab) = Lab::begin(NAME)? else {
        return Ok(());
    };
    lab.add("stays", BARE)?;
    lab.add("edge", BARE)?;
    // As if `add` had been killed before it wrote down what it had started.
    let mut state = lab.state()?;
    let forgotten = state.ssh_hosts.remove("edge").context("it was added")?;
    state.write(&lab.layout())?;
    // Its cable would have come afterwards.
    let cable = state.slot.cable(forgotten.place.number);
    output(&mut command("ip", ["link", "delete", &cable]))?;
    assert!(forgotten.host.is_alive());
    lab.add("edge", BARE)?;
    assert!(!forgotten.host.is_alive(), "its disk is another one's now");
    let state = lab.state()?;
    let hosts = ["edge", "stays"].map(|name| state.ssh_hosts[name].host.clone());
    assert!(hosts.iter().all(Host::is_alive));

    lab.abandon()?;
    assert!(hosts.iter().all(Host::is_alive));
    let lab = Lab::begin(NAME)?.context("it was able a moment ago")?;
    assert!(!hosts.iter().any(Host::is_alive));
    assert_eq!(lab.status()?, DOWN);
    Ok(())
}

#[tokio::test]
async fn an_add_that_fails_leaves_nothing() -> Result<()> {
    let Some(lab) = Lab::begin("failed")? else {
        return Ok(());
    };
    // No folder can be made there, which is noticed when the gateway of the site runs.
    let place = lab.layout().host("edge");
    std::fs::create_dir_all(place.parent().context("it is in a folder")?)?;
    std::fs::write(&place, "")?;
    let at_site = ["host", "add", "edge", "--bare", "--site", "west"];
    let error = lab.xtask(&at_site).unwrap_err().to_string();
    assert!(error.contains("edge: cannot be emptied"), "{error}");
    assert_eq!(lab.status()?, DOWN);
    assert!(!lab.layout().host("west-gateway").exists());
    std::fs::remove_file(&place)?;
    lab.xtask(&at_site)?;
    Ok(())
}
