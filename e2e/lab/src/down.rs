//! Ends a lab and removes everything of it outside `.lab/`; finds it with or without state file.
//!
//! Invariant: only what carries this lab's slot, its PID namespace or its `.lab/` path is touched;
//! the self-check at the end looks at the machine itself, never at what was meant to be done.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, Result, bail};

use crate::{
    cgroups::Cgroups,
    host::{Host, Order},
    layout::Layout,
    leftovers, loops, network,
    procfs::{self, ProcessId},
    progress::Progress,
    slot::{Registry, Slot},
    state::{self, State},
};

/// Pause between two looks.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// How long etcd may close its files before everything is killed.
const GRACE: Duration = Duration::from_secs(4);

/// How long the kernel may take to bury what was killed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Takes the lab of this checkout down; nothing to do is fine. `purge` also deletes `.lab/`.
///
/// # Errors
/// When something of the lab is left afterwards; the message lists it.
pub fn down(layout: &Layout, purge: bool, progress: &Progress) -> Result<()> {
    if !layout.root().exists() && Registry::open()?.of_checkout(layout.checkout()).is_empty() {
        return Ok(());
    }
    let _lock = state::lock(layout, progress)?;
    tear_down(layout, progress)?;
    if purge {
        let step = progress.step("deleting .lab");
        let root = layout.root();
        step.finish(fs::remove_dir_all(&root))
            .with_context(|| format!("{}: cannot be deleted", root.display()))?;
    }
    Ok(())
}

/// [`down`] for a caller that holds the lock.
pub(crate) fn tear_down(layout: &Layout, progress: &Progress) -> Result<()> {
    let registry = Registry::open()?;
    let state = State::read(layout);
    let mut slots = registry.of_checkout(layout.checkout());
    let hosts: Vec<Host> = state
        .iter()
        .flat_map(|s| s.all_hosts().map(|(_, host)| host.clone()))
        .collect();
    let by_ssh = state.iter().flat_map(|s| s.ssh_hosts.keys());
    let mut disks: Vec<_> = by_ssh.map(|name| layout.host(name)).collect();
    disks.push(layout.machines());
    // The state file may be older than a reboot, and another checkout have its slot by now.
    let remembered = state.map(|state| state.slot);
    let checkout = layout.checkout();
    slots.extend(remembered.filter(|s| !slots.contains(s) && !registry.is_foreign(*s, checkout)));
    if slots.is_empty() && !hosts.iter().any(Host::is_alive) {
        return State::remove(layout);
    }

    // While its owner dies and the rest is cleared away nobody may take it.
    let me = ProcessId::own()?;
    slots
        .iter()
        .try_for_each(|slot| registry.hand_over(*slot, checkout, &me))?;
    let step = progress.step("taking the lab down");
    let result = end_hosts(&hosts).and_then(|()| {
        slots.iter().try_for_each(|slot| clear_slot(*slot))?;
        loops::detach(layout)?;
        check(layout, &slots, &hosts)
    });
    step.finish(result)?;
    // A machine that is made anew has an empty disk.
    disks.iter().try_for_each(|disk| delete(disk))?;
    registry.release(checkout)?;
    State::remove(layout)
}

/// Removes what a dead lab left in `slot`: interfaces, processes, control groups.
pub(crate) fn clear_slot(slot: Slot) -> Result<()> {
    Cgroups::of_slot(slot.number())?.kill_and_remove(PATIENCE);
    network::remove(slot)
}

/// Ends hosts, and waits until nothing of them runs.
pub(crate) fn end_hosts(hosts: &[Host]) -> Result<()> {
    for host in hosts.iter().filter(|host| host.is_alive()) {
        if host.order(&Order::Shutdown).is_ok() {
            wait_until(GRACE, || !host.is_alive());
        }
        host.init.kill();
        host.keeper.kill();
    }
    for host in hosts {
        // The kernel kills the namespace with its first process; this only waits for it.
        if !wait_until(PATIENCE, || leftovers::in_namespace(host).is_empty()) {
            leftovers::in_namespace(host)
                .into_iter()
                .for_each(procfs::kill);
            wait_until(PATIENCE, || leftovers::in_namespace(host).is_empty());
        }
    }
    Ok(())
}

fn check(layout: &Layout, slots: &[Slot], hosts: &[Host]) -> Result<()> {
    let look = || leftovers::find(layout, slots, hosts);
    // Dead namespaces are dismantled in the background.
    wait_until(Duration::from_secs(5), || {
        look().is_ok_and(|found| found.is_empty())
    });
    let found = look()?;
    if !found.is_empty() {
        bail!("the lab left something behind:\n  {}", found.join("\n  "))
    }
    Ok(())
}

/// Whether `condition` came true.
pub(crate) fn wait_until(patience: Duration, condition: impl Fn() -> bool) -> bool {
    let end = Instant::now() + patience;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        thread::sleep(TICK);
    }
}

/// Why something failed, and why what there was of it could not be taken back.
pub(crate) fn with_rest(error: Error, undone: Result<()>) -> Error {
    match undone {
        Ok(()) => error,
        Err(rest) => error.context(rest),
    }
}

/// Empties a folder that a fresh lab must not inherit.
pub(crate) fn empty(folder: &Path) -> Result<()> {
    delete(folder)?;
    fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))
}

/// Deletes a folder; one that is not there is fine.
pub(crate) fn delete(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{}: cannot be emptied", folder.display()))
        }
        _ => Ok(()),
    }
}
