//! What Azure can do.
//!
//! Invariant: nothing is said that its documentation does not, and nothing that nobody asks it for.

use providers::Capabilities;

use crate::settings::USER_DATA_LIMIT;

/// What Azure can do. A machine keeps its disk when it is stopped or deallocated; its user data could be replaced, which
/// nobody asks for, so the token's death is what protects it. That a spot machine is taken back Azure says in advance inside
/// it alone (scheduled events); from without it is seen once it goes.
pub const CAPABILITIES: Capabilities = Capabilities {
    keeps_disk: true,
    blanks_user_data: false,
    user_data_limit: Some(USER_DATA_LIMIT),
    goes_with_namespace: false,
    id_before_create: false,
    evacuation_notice: false,
    proves_fenced: false,
    attests: false,
    restarts: true,
    watched: false,
    read_by_cloud_controller: false,
    max_name: Some(63),
};
