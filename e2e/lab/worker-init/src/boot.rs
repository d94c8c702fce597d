//! The first program of a worker, in its initrd: loads modules, finds the root disk, hands over.
//!
//! No process is started and no script read, which under emulation would cost more than the work.
//! Invariant: the initrd's modules are loaded in the order of their names, and whatever goes wrong
//! is said on the console before the kernel gives up.

use std::{
    convert::Infallible,
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use rustix::{
    mount::{MountFlags, mount, mount_move},
    process::{chdir, chroot},
    system::finit_module,
};

use crate::journal::say;

const MODULES: &str = "/modules";
const DISK: &str = "/dev/vda";
const ROOT: &str = "/root";
/// A disk is there as soon as its driver is, but for one that the machine adds late.
const PATIENCE: Duration = Duration::from_secs(10);

/// Never returns but with an error.
pub(crate) fn hand_over() -> Result<Infallible> {
    fs::create_dir_all("/dev")?;
    mount("dev", "/dev", "devtmpfs", MountFlags::empty(), None).context("no /dev")?;
    for module in modules(Path::new(MODULES))? {
        // One that is not needed here, or is built into this kernel, keeps nothing else from loading.
        if let Err(error) = load(&module) {
            say(&format!("{}: {error:#}", module.display()));
        }
    }
    wait_for(Path::new(DISK));
    fs::create_dir_all(ROOT)?;
    // No journal, no times of access: the disk lives as long as the virtual machine.
    mount(DISK, ROOT, "ext4", MountFlags::NOATIME, None)
        .with_context(|| format!("{DISK} cannot be mounted"))?;
    mount_move("/dev", format!("{ROOT}/dev")).context("/dev cannot be moved")?;
    // The initrd's files stay in memory otherwise.
    fs::remove_dir_all(MODULES)?;
    chdir(ROOT)?;
    mount_move(".", "/").context("the root disk cannot become the root")?;
    chroot(".")?;
    chdir("/")?;
    Err(Command::new("/sbin/init").exec()).context("/sbin/init cannot be run")
}

fn modules(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut modules: Vec<_> = fs::read_dir(folder)
        .context("the initrd has no modules")?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    modules.sort();
    Ok(modules)
}

fn load(module: &Path) -> Result<()> {
    Ok(finit_module(File::open(module)?, c"", 0)?)
}

fn wait_for(disk: &Path) {
    let end = Instant::now() + PATIENCE;
    while !disk.exists() && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn modules_are_loaded_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["10-virtio_blk.ko", "02-virtio.ko", "01-virtio_ring.ko"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let names: Vec<_> = super::modules(folder.path())
            .unwrap()
            .into_iter()
            .map(|path| path.file_name().unwrap().to_owned())
            .collect();
        assert_eq!(
            names,
            ["01-virtio_ring.ko", "02-virtio.ko", "10-virtio_blk.ko"]
        );
    }
}
