//! Observation of one node: what the watches told, and, where the plan asks for it, what the APIs
//! say when they are asked by name.
//!
//! Invariant: nothing is decided here; only the answer "not found" makes anything absent.

use tokio::time::Instant;

use super::plan::{Heartbeat, Known, Observed};
use api::machine_addresses::RemoteState;

use crate::cache::objects::{Instance, Phase, Remote, Vm};
use crate::cache::triggers::Key;
use crate::context::Context;
use crate::error::Error;

/// Everything about one node; none when it is gone.
#[must_use]
pub fn observe(ctx: &Context, name: &str) -> Option<Observed> {
    let zones = ctx.settings.zones;
    let mut observed = ctx.cache.read(|state| {
        let node = state.node(name)?.clone();
        let machine = node.machine().unwrap_or_default();
        let remote = state.remote(&node);
        let (vm, instance) = match remote {
            Some(remote) => remote.observed(&node.name),
            None => (
                Known::watched(state.vm(machine)),
                Known::watched(state.located(machine).as_ref()),
            ),
        };
        Some(Observed {
            remote: remote.map(|remote| remote.provider_id.clone()),
            vm,
            instance,
            node,
            heartbeat: Heartbeat::Unknown,
            waited: false,
            zones,
        })
    })?;
    observed.waited = ctx.heartbeats.waited(&observed.node.uid, Instant::now());
    Some(observed)
}

impl Remote {
    /// In the place of virtual machine and instance of a node.
    pub(super) fn observed(&self, node: &str) -> (Known<Vm>, Known<Instance>) {
        let phase = match self.state {
            RemoteState::Gone => return (Known::Absent, Known::Absent),
            RemoteState::Stopped => Phase::Ended,
            RemoteState::Present => Phase::Running,
        };
        let vm = Vm {
            name: node.to_owned(),
            created: true,
            topology: self.topology.clone(),
            ..Vm::default()
        };
        let instance = Instance {
            name: node.to_owned(),
            phase,
            addresses: self.addresses.clone(),
            ..Instance::default()
        };
        (Known::Present(vm), Known::Present(instance))
    }
}

/// Asks the management API for what the watch does not know.
///
/// # Errors
/// [`Error`].
pub async fn make_sure(ctx: &Context, observed: &mut Observed) -> Result<(), Error> {
    let Some(machine) = observed.node.machine().map(ToOwned::to_owned) else {
        return Ok(());
    };
    // Of the machine's own Node it is asked at once whether it is dead. Other Nodes are what somebody wrote:
    // thousands of them may claim one machine.
    let is_own = observed.vm.get().is_some() && observed.node.name == machine;
    if observed.vm.get().is_none() {
        let found = ctx.client.virtual_machine(&machine).await?;
        observed.vm = Known::asked(found.map(|vm| Vm::from(&vm)));
    }
    if observed.instance.get().is_none() {
        let found = ctx.client.instance(&machine, is_own).await?;
        let by = ctx.settings.machine_addresses;
        let published = ctx.cache.read(|state| state.published(&machine).cloned());
        let located = |found| Instance::from(&found).located(published.as_ref(), by);
        observed.instance = Known::asked(found.map(located));
    }
    Ok(())
}

/// Reads the kubelet's Lease. One that is not there tells nothing: then it is waited for the node not
/// to be Ready.
///
/// # Errors
/// [`Error`].
pub async fn check_heartbeat(ctx: &Context, observed: &mut Observed) -> Result<(), Error> {
    let (name, uid) = (&observed.node.name, &observed.node.uid);
    let found = ctx.client.kubelet_lease(name).await?;
    observed.heartbeat = Heartbeat::Recent;
    if let Some(version) = found.and_then(|lease| lease.metadata.resource_version) {
        match ctx.heartbeats.observe(uid, &version, Instant::now()) {
            Some(wait) => ctx.queue.add_after(Key::Node(name.clone()), wait),
            None => observed.heartbeat = Heartbeat::Silent,
        }
    }
    Ok(())
}
