//! Instances of a node group: how each machine of a pool is told of.
//!
//! Invariant: an instance's id is what its node has as `spec.providerID`; one whose id is not known yet is being
//! created.

use proto::autoscaler::instance_status::InstanceState;
use proto::autoscaler::{Instance, InstanceErrorInfo, InstanceStatus};

use super::Group;
use crate::cache::objects::{Machine, PLACEHOLDER, Trouble};
use crate::cache::state::State;

/// The client tries another group at once.
const OUT_OF_RESOURCES: i32 = 1;
/// The client only notes it.
const OTHER: i32 = 99;

/// Every machine of the pool that there is.
#[must_use]
pub fn instances(group: Group<'_>, state: &State) -> Vec<Instance> {
    let members = state.members(&group.pool.name);
    members.map(|machine| instance(group, machine)).collect()
}

fn instance(group: Group<'_>, machine: &Machine) -> Instance {
    let state = if group.is_going(machine) {
        InstanceState::Deleting
    } else if machine.running && !machine.id.starts_with(PLACEHOLDER) {
        InstanceState::Running
    } else {
        InstanceState::Creating
    };
    let trouble = machine.trouble.as_ref();
    let trouble = trouble.filter(|_| state == InstanceState::Creating);
    Instance {
        id: machine.id.clone(),
        status: Some(InstanceStatus {
            instance_state: state.into(),
            error_info: trouble.map(error_info),
        }),
    }
}

fn error_info(trouble: &Trouble) -> InstanceErrorInfo {
    InstanceErrorInfo {
        error_code: trouble.reason.clone(),
        error_message: trouble.message.clone(),
        instance_error_class: match trouble.exhausted {
            true => OUT_OF_RESOURCES,
            false => OTHER,
        },
    }
}
