//! What the cloud controller manager is told of a machine that it does not see itself.
//!
//! Invariant: a machine is said to be gone only where its absence is proven; while nobody knows, what was said holds.
//! Nothing is said of one whose name at its provider is not known yet, nor that one is gone of which nothing was said.

use api::machine_addresses::{RemoteMachine, RemoteState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit_objects::known::Known;
use providers::{Description, State};

use crate::controllers::machine::observed::Observed;

/// Most addresses of a machine: two of each family.
const ADDRESSES: usize = 4;

/// What is to be told now; none where that was told. Of a machine that its provider calls `provider_id`.
pub(super) fn told(
    observed: &Observed,
    provider_id: Option<&str>,
    now: Time,
) -> Option<RemoteMachine> {
    if observed.capabilities.read_by_cloud_controller {
        return None;
    }
    let before = observed.remote.as_ref();
    let mut wanted = match &observed.vm {
        Known::Unknown { .. } => return None,
        Known::Known(vm) if vm.foreign => return None,
        Known::Known(vm) => of(vm, provider_id?, now),
        Known::Absent => RemoteMachine {
            state: RemoteState::Gone,
            since: now,
            ..before?.clone()
        },
    };
    if let Some(before) = before.filter(|before| before.state == wanted.state) {
        wanted.since = before.since.clone();
    }
    (before != Some(&wanted)).then_some(wanted)
}

fn of(vm: &Description, provider_id: &str, now: Time) -> RemoteMachine {
    let topology = vm.topology.clone().unwrap_or_default();
    let addresses = vm.addresses.iter().map(|known| known.address.clone());
    RemoteMachine {
        provider_id: provider_id.to_owned(),
        addresses: addresses.take(ADDRESSES).collect(),
        zone: topology.zone,
        region: topology.region,
        instance_type: vm.instance_type.clone(),
        state: match vm.state {
            State::Stopped => RemoteState::Stopped,
            _ => RemoteState::Present,
        },
        since: now,
    }
}
