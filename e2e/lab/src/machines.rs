//! Virtual machines that are played by hosts: nodes of tenant clusters at native speed.
//!
//! In a lab that was asked for them there are KubeVirt's kinds without KubeVirt. `lab-agent` watches them, makes
//! the pod that is around a machine, and has this module start the machine itself: a host as
//! [`crate::hosts`] makes them, in the network of that pod, whose boot does what the user data says, by the program
//! that does it in a worker's image, too.
//!
//! | Module | What it does |
//! |---|---|
//! | `plan` | what a machine is given, pure |
//! | `settings` | what machines are made of, and who tells `lab-agent` |
//! | `guest` | one machine's life |
//! | `pod` | the network of the pod around it |
//! | `leave` | a lab that goes over to KubeVirt |
//!
//! What is not played: boot, consoles, the guest's agent, hot-plugged disks, migration and evacuation, a limit of
//! processors. Invariant: a machine sees nothing of this lab but its network, and runs inside of the management
//! host, so that it ends with the lab whatever happens.

mod guest;
mod leave;
pub mod plan;
mod pod;
pub(crate) mod settings;

use anyhow::{Result, bail};

use crate::{
    binaries,
    host::Host,
    kubevirt::install,
    layout::{Layout, MANAGEMENT_HOST},
    progress::Progress,
    state::State,
};

pub use guest::{adopt, end, said, start};
pub(crate) use leave::leave;
pub use pod::network as network_of_pod;
pub use settings::{Settings, prepare_init, trees};

/// Waits until machines can be made that become nodes, be they KubeVirt's or played; returns at once when they can.
///
/// # Errors
/// The lab is down, has neither, or KubeVirt does not come up in ten minutes.
pub fn wait(layout: &Layout, progress: &Progress) -> Result<()> {
    match State::read(layout).filter(State::is_up) {
        Some(state) if state.player => are_played(&state),
        _ => install::wait(layout, progress),
    }
}

/// Their kinds are there as soon as `lab-agent` is, which nobody starts again.
fn are_played(state: &State) -> Result<()> {
    let host = state.hosts.get(MANAGEMENT_HOST);
    let programs = host.map(Host::programs).unwrap_or_default();
    let agent = programs
        .iter()
        .find(|program| program.name == binaries::AGENT);
    match agent.map(|agent| agent.ended.as_deref()) {
        Some(None) => Ok(()),
        Some(Some(how)) => {
            bail!(
                "lab-agent, which plays virtual machines, ended: {how} (`cargo xtask lab logs lab-agent`)"
            )
        }
        None => bail!("lab-agent, which plays virtual machines, was not started"),
    }
}
