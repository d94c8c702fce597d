//! The lab in which hosts are: one that is up, or what of one they need.
//!
//! Invariant: the slot of a lab that is not up belongs to the command that is at work, and between two
//! commands to a process that lives as long as one of its hosts.

use anyhow::{Result, bail};

use crate::{
    cgroups::Cgroups,
    down,
    layout::Layout,
    network,
    procfs::ProcessId,
    progress::Progress,
    slot::{Registry, addresses::Slot},
    state::{Phase, State},
};

/// The state of the lab, or of one that now begins with a slot and a network alone.
pub(super) fn ensure(layout: &Layout, progress: &Progress) -> Result<State> {
    match State::read(layout) {
        Some(state) if state.is_up() => return Ok(state),
        Some(state) if state.phase == Phase::HostsAlone && is_alive(&state) => {
            take(layout, &state)?;
            return Ok(state);
        }
        Some(state) if state.phase != Phase::HostsAlone => bail!(
            "the lab is not up: `cargo xtask lab status` says why, and `cargo xtask lab down` ends what is left"
        ),
        _ => {}
    }
    down::tear_down(layout, progress)?;
    let slot = Registry::open()?.claim(layout.checkout(), &ProcessId::own()?)?;
    begin(layout, slot).map_err(|error| down::with_rest(error, down::tear_down(layout, progress)))
}

fn begin(layout: &Layout, slot: Slot) -> Result<State> {
    let mut state = State::starting(slot);
    state.phase = Phase::HostsAlone;
    state.write(layout)?;
    // A dead lab of another checkout may have had it.
    down::clear_slot(slot)?;
    Cgroups::of_slot(slot.number())?.create()?;
    network::create_bridge(slot)?;
    Ok(state)
}

/// Lets the slot belong to this command, whichever hosts it ends. A lab that is up holds it by its management
/// host.
pub(super) fn take(layout: &Layout, state: &State) -> Result<()> {
    if state.is_up() {
        return Ok(());
    }
    Registry::open()?.hand_over(state.slot, layout.checkout(), &ProcessId::own()?)
}

/// The end of a command: lets the slot belong to a host that lives. With the last of hosts alone their network
/// goes, too.
pub(super) fn leave(layout: &Layout, state: &State, progress: &Progress) -> Result<()> {
    if state.phase == Phase::HostsAlone && state.ssh_hosts.is_empty() {
        return down::tear_down(layout, progress);
    }
    let alive = state.ssh_hosts.values().find(|host| host.host.is_alive());
    match alive {
        Some(host) if !state.is_up() => {
            Registry::open()?.hand_over(state.slot, layout.checkout(), &host.host.init)
        }
        _ => Ok(()),
    }
}

fn is_alive(state: &State) -> bool {
    state.ssh_hosts.values().any(|host| host.host.is_alive())
}
