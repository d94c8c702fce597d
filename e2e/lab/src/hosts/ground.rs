//! The lab in which hosts are: one that is up, or what of one they need.
//!
//! Invariant: with hosts alone the slot belongs to a process that lives as long as one of them.

use anyhow::{Context as _, Result, bail};

use crate::{
    cgroups::Cgroups,
    down,
    layout::Layout,
    network,
    procfs::ProcessId,
    progress::Progress,
    slot::Registry,
    state::{Phase, State},
};

/// The state of the lab, or of one that now begins with a slot and a network alone.
pub(super) fn ensure(layout: &Layout, progress: &Progress) -> Result<State> {
    match State::read(layout) {
        Some(state) if state.is_up() => return Ok(state),
        Some(state) if state.phase == Phase::HostsAlone && is_alive(&state) => return Ok(state),
        Some(state) if state.phase != Phase::HostsAlone => bail!(
            "the lab is not up: `cargo xtask lab status` says why, and `cargo xtask lab down` ends what is left"
        ),
        _ => {}
    }
    down::tear_down(layout, progress)?;
    let me = i32::try_from(std::process::id()).ok();
    let me = me.and_then(ProcessId::of);
    let me = me.context("our own process is missing in /proc")?;
    let slot = Registry::open()?.claim(layout.checkout(), &me)?;
    let mut state = State::starting(slot);
    state.phase = Phase::HostsAlone;
    state.write(layout)?;
    // A dead lab of another checkout may have had it.
    down::clear_slot(slot)?;
    Cgroups::of_slot(slot.number())?.create()?;
    network::create_bridge(slot)?;
    Ok(state)
}

/// Lets the slot belong to a host that lives. A lab that is up holds it by its management host.
pub(super) fn hold(layout: &Layout, state: &State) -> Result<()> {
    let alive = state.ssh_hosts.values().find(|host| host.host.is_alive());
    match alive {
        Some(host) if state.phase == Phase::HostsAlone => {
            Registry::open()?.hand_over(state.slot, layout.checkout(), &host.host.init)
        }
        _ => Ok(()),
    }
}

/// With the last of hosts alone their network goes, too.
pub(super) fn leave(layout: &Layout, state: &State, progress: &Progress) -> Result<()> {
    if state.phase == Phase::HostsAlone && state.ssh_hosts.is_empty() {
        down::tear_down(layout, progress)?;
    }
    Ok(())
}

fn is_alive(state: &State) -> bool {
    state.ssh_hosts.values().any(|host| host.host.is_alive())
}
