//! What a project, a pool and a Machine ask for.
//!
//! Invariant: what a machine is made of is all in [`Wanted`], which is computed from what is stored and does not
//! change; nothing is looked up while a machine is asked for.

use providers::identity::Owner;

/// Most bytes of user data, as the API's documentation says of `user_data` of `POST /servers`.
pub const USER_DATA_LIMIT: usize = 32 * 1024;

/// Where all machines of one token are made.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Project {
    /// UID of this installation of Covey: two of them on one project never touch each other's.
    pub installation: String,
    /// Location, by name: `fsn1`.
    pub location: String,
    /// SSH keys that servers get, by name, at least one. The first is how the project is known again: a token does not
    /// say whose it is. Without any, Hetzner would make a password and send it by mail.
    pub ssh_keys: Vec<String>,
    /// Private network that servers are in, by name.
    pub network: Option<String>,
    /// Firewalls that servers are behind, by name.
    pub firewalls: Vec<String>,
    /// Servers have a public IPv4 address.
    pub ipv4: bool,
    /// Servers have a public IPv6 network.
    pub ipv6: bool,
    /// The project that machines were made in before, as [`crate::cloud::Cloud::account`] said it; none: never asked.
    pub account: Option<String>,
}

/// What the names of a project stand for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Resolved {
    /// The project, by the ID of its first SSH key.
    pub account: String,
    /// ID of the network.
    pub network: Option<u64>,
    /// IDs of the firewalls.
    pub firewalls: Vec<u64>,
}

/// One machine, as it is asked for: always the same for one Machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wanted {
    /// Whose it is.
    pub owner: Owner,
    /// Size, by name: `cx22`.
    pub server_type: String,
    /// Image: an ID, or the name of a system image.
    pub image: String,
    /// What cloud-init does at the first boot; nothing in it may be a secret that lasts.
    pub user_data: String,
}
