//! What a subnet and a Machine ask for.
//!
//! Invariant: what an instance is made of is all in [`Wanted`] and [`Place`], which are computed from what is stored;
//! nothing is looked up while one is asked for, so that the same bytes are sent each time.

use jiff::Timestamp;
use providers::identity::Owner;

/// Most bytes of user data, before they are encoded (documentation, "Run commands at launch using EC2 user data").
pub const USER_DATA_LIMIT: usize = 16 * 1024;

/// Where all machines of one ProviderConfig are made.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Place {
    /// UID of this installation of Covey: two of them in one account never touch each other's.
    pub installation: String,
    /// Where: `eu-central-1`.
    pub region: String,
    /// Zone of the subnet: `eu-central-1a`, which is another one in another account.
    pub zone: String,
    /// ID of the subnet: `subnet-…`.
    pub subnet: String,
    /// IDs of the security groups of each interface; none: the network's own default group.
    pub security_groups: Vec<String>,
    /// Machines have a public IPv4 address of their own, which goes with them.
    pub public_ipv4: bool,
    /// What the images call the disk that they are started from: `/dev/xvda`.
    pub root_device: String,
    /// A role that is taken on; none: the own rights of the key's user.
    pub role: Option<Role>,
    /// The ProviderConfig's namespace where it names no key: the role is taken on by a token of the operator's own account.
    pub without_key: Option<String>,
    /// What [`crate::cloud::Cloud::account`] said when machines were made; none: never asked.
    pub account: Option<String>,
}

/// A role that is taken on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Role {
    /// Its ARN: `arn:aws:iam::111111111111:role/covey`.
    pub arn: String,
    /// What it asks whoever takes it on for: Covey says it, and no user.
    pub external_id: String,
}

/// One machine, as it is asked for: always the same for one Machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wanted {
    /// Whose it is.
    pub owner: Owner,
    /// Since when there is the Machine: interfaces do not say by themselves how old they are, and the time of the call would
    /// be another one in the next.
    pub since: Timestamp,
    /// Type, by name: `m7i.large`.
    pub size: String,
    /// Image, by its ID (`ami-…`), which never changes.
    pub image: String,
    /// Size of its disk in GiB.
    pub disk: u32,
    /// It may be taken back at any time, and costs less.
    pub is_spot: bool,
    /// What cloud-init does at the first boot; nothing in it may be a secret that lasts.
    pub user_data: String,
}
