//! What a project and a Machine ask for.
//!
//! Invariant: what a machine is made of is all in [`Wanted`] and [`Project`], which are computed from what is stored;
//! nothing is looked up while a machine is asked for.

use providers::identity::Owner;

/// Most bytes of user data: of one value of metadata (documentation, "Custom metadata limitations").
pub const USER_DATA_LIMIT: usize = 256 * 1024;

/// Where all machines of one ProviderConfig are made.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Project {
    /// UID of this installation of Covey: two of them in one project never touch each other's.
    pub installation: String,
    /// The project, by its ID: `my-project-1`.
    pub project: String,
    /// Zone: `europe-west1-b`.
    pub zone: String,
    /// Subnet that instances are in, by name; it is in the zone's region.
    pub subnet: String,
    /// Network tags of instances, by which rules of the firewall choose them.
    pub tags: Vec<String>,
    /// Instances have a public IPv4 address of their own.
    pub public_ipv4: bool,
    /// What [`crate::cloud::Cloud::account`] said when machines were made; none: never asked.
    pub account: Option<String>,
}

impl Project {
    /// The region of the zone.
    #[must_use]
    pub fn region(&self) -> &str {
        let parts = self.zone.rsplit_once('-');
        parts.map_or(self.zone.as_str(), |(region, _)| region)
    }
}

/// One machine, as it is asked for: always the same for one Machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wanted {
    /// Whose it is.
    pub owner: Owner,
    /// Size, by name: `e2-standard-4`.
    pub machine_type: String,
    /// Image, as `projects/PROJECT/global/images/NAME`: never a family, of which the newest changes.
    pub image: String,
    /// Size of its disk in GB.
    pub disk: u32,
    /// It may be taken back at any time, and costs less.
    pub is_spot: bool,
    /// What cloud-init does at the first boot; nothing in it may be a secret that lasts.
    pub user_data: String,
}
