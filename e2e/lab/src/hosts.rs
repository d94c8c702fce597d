//! Hosts that are reached by SSH: machines at native speed that nobody has made nodes.
//!
//! | Module | What it does |
//! |---|---|
//! | `options` | what a host shall be |
//! | `plan` | names, numbers and ways, pure |
//! | `keys` | host keys and the user's key |
//! | `network` | cables, sites behind NAT, who may enter |
//! | `ground` | the lab that they are in, or what of one they need |
//! | `start`, `end` | one host's life |
//! | `describe` | what a user is told |
//! | `room` | whether they can become nodes here |
//!
//! Invariant: a host is remembered as soon as it runs, what [`remove`] or `lab down` leaves of it on the
//! machine is an error, and an [`add`] that fails leaves nothing that was not there before.

mod capacity;
mod describe;
mod end;
mod ground;
mod keys;
mod network;
mod options;
mod plan;
mod start;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use crate::{
    down,
    host_root::Disk,
    layout::Layout,
    progress::Progress,
    slot::Registry,
    ssh_host::Place,
    state::{self, State},
    up::preload,
};

pub use crate::host_root::{is_prepared, prepare};
pub use capacity::hindrance;
pub use describe::{Described, Way};
pub use options::Options;

/// Makes a host in the lab of this checkout. Without a lab there are hosts alone, until one is brought up.
///
/// # Errors
/// When the name or a way cannot be, when what is on its disk cannot be had, or the machine refuses.
pub fn add(
    layout: &Layout,
    name: &str,
    options: &Options,
    progress: &Progress,
) -> Result<Described> {
    let _lock = state::lock(layout, progress)?;
    let there = State::read(layout).map_or_else(BTreeMap::new, |state| places(&state));
    // Refused before anything is built for it.
    plan::added(&there, name, options)?;
    let disk = prepare(options.version.filter(|_| !options.jump), progress)?;
    let mut state = ground::ensure(layout, progress)?;
    if disk.is_of_node() {
        preload::push_for_nodes(&state, progress)?;
    }
    let before = places(&state);
    let added = plan::added(&before, name, options)
        .and_then(|wanted| make(layout, &mut state, wanted, &disk, progress))
        .and_then(|()| describe::describe(layout, &state, name).context("the host is gone"));
    match added {
        Ok(host) => ground::leave(layout, &state, progress).map(|()| host),
        Err(error) => {
            let undone = undo(layout, &mut state, &before, progress);
            let left = ground::leave(layout, &state, progress);
            Err(down::with_rest(error, undone.and(left)))
        }
    }
}

fn make(
    layout: &Layout,
    state: &mut State,
    wanted: Vec<(String, Place)>,
    disk: &Disk,
    progress: &Progress,
) -> Result<()> {
    for (name, place) in wanted {
        let step = progress.step(format!("starting the host {name}"));
        step.finish(start::start(layout, state, &name, place, disk))?;
    }
    Ok(())
}

/// Ends the hosts that were not there before.
fn undo(
    layout: &Layout,
    state: &mut State,
    before: &BTreeMap<String, Place>,
    progress: &Progress,
) -> Result<()> {
    let names = state.ssh_hosts.keys().cloned();
    let made = names.filter(|name| !before.contains_key(name)).collect();
    end_all(layout, state, made, progress)
}

fn end_all(
    layout: &Layout,
    state: &mut State,
    names: Vec<String>,
    progress: &Progress,
) -> Result<()> {
    for name in names {
        let step = progress.step(format!("ending the host {name}"));
        step.finish(end::end(layout, state, &name))?;
    }
    Ok(())
}

/// Ends a host and removes everything of it; with the last one of a site its gateway, too.
///
/// # Errors
/// When there is none of this name, others are reached through it, or something of it is left.
pub fn remove(layout: &Layout, name: &str, progress: &Progress) -> Result<()> {
    let _lock = state::lock(layout, progress)?;
    let mut state = State::read(layout).context("there is no lab, and no host")?;
    let names = plan::removed(&places(&state), name)?;
    // In a slot that is another checkout's by now there is nothing to keep from others.
    if !Registry::open()?.is_foreign(state.slot, layout.checkout()) {
        ground::take(layout, &state)?;
    }
    let ended = end_all(layout, &mut state, names, progress);
    let left = ground::leave(layout, &state, progress);
    ended.and(left)
}

/// All of them by name.
///
/// # Errors
/// When a key cannot be read.
pub fn list(layout: &Layout) -> Result<Vec<Described>> {
    let Some(state) = State::read(layout) else {
        return Ok(Vec::new());
    };
    let names = state.ssh_hosts.keys();
    names
        .map(|name| describe::describe(layout, &state, name))
        .collect()
}

fn places(state: &State) -> BTreeMap<String, Place> {
    let places = state.ssh_hosts.iter();
    places
        .map(|(name, host)| (name.clone(), host.place.clone()))
        .collect()
}
