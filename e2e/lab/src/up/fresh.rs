//! Prepares a start: takes a slot, empties what must not be inherited, writes configuration.
//!
//! Invariant: images and programs are kept, objects and pods are not (unless `keep`).

use std::{fs, io, os::unix::fs::PermissionsExt as _};

use anyhow::{Context, Result, bail};

use super::options::UpOptions;
use crate::{
    config::Cluster,
    down::{clear_slot, empty},
    layout::{Layout, MANAGEMENT_HOST},
    pki,
    procfs::ProcessId,
    slot::{Registry, Slot},
    state::State,
};

/// Claims a slot and makes `.lab/` ready for the first process.
pub(super) fn prepare(layout: &Layout, options: &UpOptions) -> Result<Cluster> {
    let slot = Registry::open()?.claim(layout.checkout(), &ProcessId::own()?)?;
    State::starting(slot).write(layout)?;
    // A dead lab of another checkout may have had it.
    clear_slot(slot)?;

    let kept = layout.root().join("kept-slot");
    if options.keep {
        check_kept(&kept, slot)?;
    } else {
        empty(&layout.etcd_data())?;
        // etcd complains about a folder that others may read.
        fs::set_permissions(layout.etcd_data(), fs::Permissions::from_mode(0o700))?;
        empty(&layout.pki())?;
        empty(&layout.volumes())?;
        empty(&layout.blocks())?;
        pki::create(&layout.pki(), slot, MANAGEMENT_HOST)?;
        fs::write(&kept, slot.to_string())?;
    }
    empty(&layout.config())?;
    empty_host(layout)?;
    rotate_logs(layout)?;
    fs::create_dir_all(layout.registry_data())?;
    Ok(Cluster {
        layout: layout.clone(),
        slot,
    })
}

/// Everything of the host but containerd's images.
fn empty_host(layout: &Layout) -> Result<()> {
    let host = layout.host(MANAGEMENT_HOST);
    for folder in [
        "kubelet", "machines", "overlay", "programs", "sysctl", "tmp",
    ] {
        empty(&host.join(folder))?;
    }
    Ok(())
}

fn check_kept(kept: &std::path::Path, slot: Slot) -> Result<()> {
    match fs::read_to_string(kept) {
        Ok(number) if number == slot.to_string() => Ok(()),
        Ok(number) => bail!(
            "the kept management cluster has the addresses of slot {number}, only slot {slot} is \
             free: take the other lab down, or start without --keep"
        ),
        Err(_) => bail!("there is no management cluster to keep: start without --keep"),
    }
}

fn rotate_logs(layout: &Layout) -> Result<()> {
    let (logs, previous) = (layout.logs(), layout.previous_logs());
    empty(&previous)?;
    match fs::rename(&logs, &previous) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("{}: cannot be moved", logs.display()));
        }
        _ => {}
    }
    fs::create_dir_all(logs.join("pods"))?;
    fs::create_dir_all(logs.join("containers"))?;
    Ok(())
}
