//! What a resource group and a Machine ask for.
//!
//! Invariant: what a machine is made of is all in [`Wanted`] and [`Place`], which are computed from what is stored;
//! nothing is looked up while a machine is asked for.

use providers::identity::{Family, Owner};

/// Most bytes of user data, before they are encoded (documentation, "User data for Azure Virtual Machine").
pub const USER_DATA_LIMIT: usize = 64 * 1024;

/// Where all machines of one ProviderConfig are made.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Place {
    /// UID of this installation of Covey: two of them in one resource group never touch each other's.
    pub installation: String,
    /// The subscription, by its ID.
    pub subscription: String,
    /// The resource group, by name.
    pub group: String,
    /// Where: `westeurope`.
    pub location: String,
    /// Zone: `1`, which is another one in another subscription; none: Azure chooses, and does not say.
    pub zone: Option<String>,
    /// ID of the subnet: `/subscriptions/…/virtualNetworks/NET/subnets/NAME`.
    pub subnet: String,
    /// ID of the network security group of each interface; none: the subnet's own rules alone.
    pub security_group: Option<String>,
    /// Machines have a public IPv4 address of their own.
    pub public_ipv4: bool,
    /// Public key of SSH, without which Azure makes no machine of Linux.
    pub ssh_key: String,
    /// What [`crate::cloud::Cloud::account`] said when machines were made; none: never asked.
    pub account: Option<String>,
}

/// One machine, as it is asked for: always the same for one Machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wanted {
    /// Whose it is.
    pub owner: Owner,
    /// Size, by name: `Standard_D4s_v5`.
    pub size: String,
    /// Image: ID of a version of an image of a gallery, or of a managed image; never `latest`, which changes.
    pub image: String,
    /// Size of its disk in GB.
    pub disk: u32,
    /// It may be taken back at any time, and costs less.
    pub is_spot: bool,
    /// What cloud-init does at the first boot; nothing in it may be a secret that lasts.
    pub user_data: String,
}

impl Place {
    /// ID of the resource group.
    #[must_use]
    pub fn group_id(&self) -> String {
        format!(
            "/subscriptions/{}/resourceGroups/{}",
            self.subscription, self.group
        )
    }

    /// A zone of the location, as Azure's cloud controller manager labels nodes with it.
    #[must_use]
    pub fn label_of(&self, zone: &str) -> String {
        format!("{}-{zone}", self.location)
    }

    /// ID of something in the group.
    #[must_use]
    pub fn id_of(&self, kind: Kind, name: &str) -> String {
        format!("{}/providers/{}/{name}", self.group_id(), kind.path())
    }
}

/// What is put in a resource group for a Machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The virtual machine.
    Vm,
    /// Its interface.
    Nic,
    /// Its public address.
    Address,
    /// Its disk, which is made with it.
    Disk,
}

impl Kind {
    /// Of which type it is.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Vm => "Microsoft.Compute/virtualMachines",
            Self::Disk => "Microsoft.Compute/disks",
            Self::Nic => "Microsoft.Network/networkInterfaces",
            Self::Address => "Microsoft.Network/publicIPAddresses",
        }
    }

    /// In sentences.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Vm => "virtual machine",
            Self::Disk => "disk",
            Self::Nic => "network interface",
            Self::Address => "public address",
        }
    }

    /// Its name: those of each type are a list of their own.
    #[must_use]
    pub fn name(self, owner: &Owner) -> String {
        match self {
            Self::Vm | Self::Nic | Self::Disk => owner.name(),
            Self::Address => owner.address_name(Family::V4),
        }
    }
}
