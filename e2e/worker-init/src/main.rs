//! Makes a worker of the lab what its user data says: the part of cloud-init that the lab needs.
//!
//! cloud-init starts Python four times, which under emulation takes longer than everything else of
//! a boot. This program reads the same NoCloud disk and the same `#cloud-config`, of which it knows
//! what [`user_data`] lists; what it does not know it names in the log.
//! Invariant: one instance (`instance-id` of the disk's meta-data) is set up once, and nothing that
//! fails keeps the rest from being done.

mod instance;
mod seed;
mod shell;
mod user_data;

use std::{path::Path, process::ExitCode};

use anyhow::{Context as _, Result};

use instance::Instance;
use user_data::UserData;

fn main() -> ExitCode {
    match run() {
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
fn run() -> Result<Vec<anyhow::Error>> {
    let Some(seed) = seed::read(Path::new("/dev"), Path::new("/sys/class/block"))? else {
        say("there is no disk named cidata: nothing to set up");
        return Ok(Vec::new());
    };
    let meta = user_data::meta_data(&seed.meta_data).context("meta-data cannot be read")?;
    let data = UserData::parse(&seed.user_data).context("user-data cannot be read")?;
    for key in &data.unknown {
        say(&format!("{key} is not known here, and left out"));
    }
    if seed.has_network_config {
        say("network-config is not known here: the first network card asks by DHCP");
    }
    Ok(Instance::at(Path::new("/")).set_up(&meta, &data))
}

/// To the journal and, where the kernel's log goes there, to the console.
#[expect(clippy::print_stderr, reason = "systemd takes it")]
fn say(text: &str) {
    eprintln!("{text}");
}
