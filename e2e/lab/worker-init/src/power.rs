//! Waits for the power button and ends the machine: how KubeVirt asks a virtual machine to stop.
//! systemd-logind would do it too, but comes late in a worker's boot, with udev and D-Bus.
//!
//! Invariant: only the kernel's own buttons are listened to, and nothing runs between two presses.

use std::{
    fs::{self, File},
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc,
    thread,
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::{system::finit_module, system::uname};

use crate::journal::say;

/// Drivers of the button and of the file in which presses are read, below the kernel's modules.
const MODULES: [&str; 2] = ["drivers/acpi/button.ko", "drivers/input/evdev.ko"];
const BUTTON: &str = "Power Button";
/// `struct input_event` of 64 bits (include/uapi/linux/input.h): time, type, code, value.
const EVENT: usize = 24;
/// `EV_KEY`, `KEY_POWER` (include/uapi/linux/input-event-codes.h), and pressed.
const PRESSED: (u16, u16, i32) = (1, 116, 1);

/// Returns once the machine was told to end.
pub(crate) fn wait() -> Result<()> {
    let release = uname().release().to_string_lossy().into_owned();
    for module in MODULES {
        let file = Path::new("/lib/modules")
            .join(&release)
            .join("kernel")
            .join(module);
        // Loaded already, or part of the kernel.
        if let Err(error) = load(&file) {
            say(&format!("{}: {error:#}", file.display()));
        }
    }
    let (press, pressed) = mpsc::channel();
    let buttons = buttons(Path::new("/sys/class/input"), Path::new("/dev/input"))?;
    ensure!(!buttons.is_empty(), "this machine has no power button");
    for button in buttons {
        let press = press.clone();
        let events = File::open(&button).with_context(|| format!("{}", button.display()))?;
        // The other end is there as long as this program is.
        thread::spawn(move || press.send(until_pressed(events)));
    }
    pressed.recv()??;
    let done = Command::new("systemctl")
        .args(["start", "poweroff.target", "--no-block"])
        .arg("--job-mode=replace-irreversibly")
        .status()?;
    ensure!(done.success(), "systemctl: {done}");
    Ok(())
}

fn load(module: &Path) -> Result<()> {
    match finit_module(File::open(module)?, c"", 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The files in which presses of power buttons are read.
fn buttons(class: &Path, devices: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(class).context("this kernel has no input devices")? {
        let entry = entry?;
        let name = fs::read_to_string(entry.path().join("device/name")).unwrap_or_default();
        if entry.file_name().to_string_lossy().starts_with("event") && name.trim_end() == BUTTON {
            found.push(devices.join(entry.file_name()));
        }
    }
    Ok(found)
}

fn until_pressed(mut events: impl Read) -> Result<()> {
    let mut event = [0; EVENT];
    loop {
        match events.read_exact(&mut event) {
            Ok(()) if parse(&event) == Some(PRESSED) => return Ok(()),
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => bail!("the power button cannot be read: {error}"),
        }
    }
}

/// Type, code and value of an event.
fn parse(event: &[u8; EVENT]) -> Option<(u16, u16, i32)> {
    let type_ = event.get(16..18)?.try_into().ok()?;
    let code = event.get(18..20)?.try_into().ok()?;
    let value = event.get(20..24)?.try_into().ok()?;
    Some((
        u16::from_ne_bytes(type_),
        u16::from_ne_bytes(code),
        i32::from_ne_bytes(value),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(type_: u16, code: u16, value: i32) -> Vec<u8> {
        let mut event = vec![7; 16];
        event.extend(type_.to_ne_bytes());
        event.extend(code.to_ne_bytes());
        event.extend(value.to_ne_bytes());
        event
    }

    #[test]
    fn only_a_press_of_the_power_key_counts() {
        let others = [event(0, 0, 0), event(1, 116, 0), event(1, 30, 1)].concat();
        assert!(until_pressed(&*others).is_err(), "the end came first");
        let press = [others, event(1, 116, 1)].concat();
        assert!(until_pressed(&*press).is_ok());
    }

    #[test]
    fn buttons_are_found_by_their_name_and_read_where_devices_are() {
        let class = tempfile::tempdir().unwrap();
        for (file, name) in [
            ("event0", "Power Button\n"),
            ("event1", "AT Translated Set 2 keyboard\n"),
            ("input0", "Power Button\n"),
        ] {
            let device = class.path().join(file).join("device");
            fs::create_dir_all(&device).unwrap();
            fs::write(device.join("name"), name).unwrap();
        }
        let found = buttons(class.path(), Path::new("/dev/input")).unwrap();
        assert_eq!(found, [Path::new("/dev/input/event0")]);
    }
}
