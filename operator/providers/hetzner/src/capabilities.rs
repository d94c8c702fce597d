//! What Hetzner can do.
//!
//! Invariant: nothing is said that its documentation does not.

use providers::Capabilities;

use crate::settings::USER_DATA_LIMIT;

/// What Hetzner can do. A server keeps its disk; its user data stay in Hetzner's store and at the metadata service for
/// its life (documentation, `POST /servers`), so the token in them is all that is protected; its ID is chosen by
/// Hetzner. That a server is off is what Hetzner says, and its disk is its own: nothing of it writes.
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
