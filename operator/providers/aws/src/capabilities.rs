//! What EC2 can do.
//!
//! Invariant: nothing is said that its documentation does not, and nothing that nobody asks it for.

use providers::Capabilities;

use crate::settings::USER_DATA_LIMIT;

/// What EC2 can do. An instance keeps its disk when it is stopped; its user data can be changed while it is stopped alone,
/// so the token's death is what protects it. That a spot instance is taken back its request says two minutes before.
pub const CAPABILITIES: Capabilities = Capabilities {
    keeps_disk: true,
    blanks_user_data: false,
    user_data_limit: Some(USER_DATA_LIMIT),
    goes_with_namespace: false,
    id_before_create: false,
    evacuation_notice: true,
    proves_fenced: false,
    attests: false,
    restarts: true,
    watched: false,
    read_by_cloud_controller: false,
    max_name: Some(63),
};
