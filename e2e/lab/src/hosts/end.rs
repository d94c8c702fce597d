//! Ends one host and removes everything of it.
//!
//! Invariant: it is forgotten only when nothing of it is left on the machine, and nothing in a slot that is
//! another checkout's is touched.

use std::{fs, time::Duration};

use anyhow::{Result, bail};

use super::network;
use crate::{
    cgroups::Cgroups,
    down,
    layout::Layout,
    leftovers,
    slot::{Registry, addresses::Slot},
    ssh_host::SshHost,
    state::State,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// Ends the host `name`; one that is not there, or only in part, is fine, and so is one that runs and is not
/// remembered.
pub(super) fn end(layout: &Layout, state: &mut State, name: &str) -> Result<()> {
    let slot = state.slot;
    let host = state.ssh_hosts.get(name);
    if let Some(host) = host {
        down::end_hosts(std::slice::from_ref(&host.host))?;
        if host.host.is_alive() {
            bail!("the host {name} does not end")
        }
    }
    // The state file may be older than a reboot: groups and cable of this name are another lab's by now.
    if !Registry::open()?.is_foreign(slot, layout.checkout()) {
        clear(layout, slot, name, host)?;
    }
    down::delete(&layout.host(name))?;
    let _ = fs::remove_file(layout.logs().join(format!("host-{name}.log")));
    if state.ssh_hosts.remove(name).is_some() {
        state.write(layout)?;
    }
    Ok(())
}

/// Removes what the host has in the slot.
fn clear(layout: &Layout, slot: Slot, name: &str, host: Option<&SshHost>) -> Result<()> {
    Cgroups::of_host(slot.number(), name)?.kill_and_remove(PATIENCE);
    if let Some(host) = host
        && !host.place.is_private()
    {
        network::disconnect(slot, host.place.number)?;
    }
    let look = || leftovers::of_host(layout, slot, name, host);
    // Dead namespaces are dismantled in the background.
    down::wait_until(PATIENCE, || look().is_ok_and(|found| found.is_empty()));
    let found = look()?;
    if !found.is_empty() {
        bail!(
            "the host {name} left something behind:\n  {}",
            found.join("\n  ")
        )
    }
    Ok(())
}
