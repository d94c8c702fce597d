//! What a worker of the lab does by itself while it boots, in one small program that starts at once:
//! the initrd's part, the user data's part, the DHCP client's, and the power button's.
//!
//! cloud-init starts Python four times, which under emulation takes longer than everything else of
//! a boot. This program reads the same NoCloud disk (or folder) and the same `#cloud-config`, of which it knows
//! what [`user_data`] lists; what it does not know it names in the log.
//! Invariant: one instance (`instance-id` of the disk's meta-data) is set up once, and nothing that
//! fails keeps the rest from being done.

mod boot;
mod dhcp;
mod instance;
mod journal;
mod power;
mod seed;
mod shell;
mod sysctl;
mod user_data;

use std::{path::Path, process::ExitCode};

use anyhow::{Context as _, Result};

use instance::Instance;
use journal::say;
use user_data::UserData;

fn main() -> ExitCode {
    if std::process::id() == 1 {
        let Err(error) = boot::hand_over();
        say(&format!("{error:#}"));
        return ExitCode::FAILURE; // which makes the kernel panic, as it should
    }
    let mut arguments = std::env::args();
    let called = arguments.next().unwrap_or_default();
    let done = match arguments.next() {
        // The client names the event and nothing else.
        Some(event) if called.ends_with("worker-dhcp") => dhcp::on(&event).map(|()| Vec::new()),
        Some(task) if task == "power" => power::wait().map(|()| Vec::new()),
        _ => set_up(),
    };
    match done {
        Ok(failures) if failures.is_empty() => ExitCode::SUCCESS,
        Ok(failures) => {
            for failure in failures {
                say(&format!("{failure:#}"));
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Sets the machine up; what failed of it comes back.
fn set_up() -> Result<Vec<anyhow::Error>> {
    let mut failures = sysctl::apply(Path::new("/etc/sysctl.d"), Path::new("/proc/sys"));
    let seed = match seed::in_folder(Path::new(seed::FOLDER))? {
        Some(seed) => Some(seed),
        None => seed::read(Path::new("/dev"), Path::new("/sys/class/block"))?,
    };
    let Some(seed) = seed else {
        say("there is no disk named cidata: nothing to set up");
        return Ok(failures);
    };
    let meta = user_data::meta_data(&seed.meta_data).context("meta-data cannot be read")?;
    let data = UserData::parse(&seed.user_data).context("user-data cannot be read")?;
    for key in &data.unknown {
        say(&format!("{key} is not known here, and left out"));
    }
    if seed.has_network_config {
        say("network-config is not known here: the first network card asks by DHCP");
    }
    failures.extend(Instance::at(Path::new("/")).set_up(&meta, &data));
    Ok(failures)
}
