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
mod settings;

use anyhow::{Result, bail};

use crate::{host::Host, layout::MANAGEMENT_HOST, state::State};

pub use guest::{adopt, end, said, start};
pub(crate) use leave::leave;
pub use pod::network as network_of_pod;
pub use settings::{Settings, prepare_init, trees};
pub(crate) use settings::{configure, prepare};

/// Whether such machines can be made; returns at once. Their kinds are there as soon as `lab-agent` is, which is
/// asked for here because nobody starts it again.
///
/// # Errors
/// When `lab-agent` ended.
pub(crate) fn are_played(state: &State) -> Result<()> {
    let host = state.hosts.get(MANAGEMENT_HOST);
    let programs = host.map(Host::programs).unwrap_or_default();
    let agent = programs.iter().find(|program| program.name == "lab-agent");
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
