//! What tells clouds apart: names, sizes, and where machines are made.
//!
//! Invariant: each has what its fake has.

use providers::identity::MACHINE_UID;
use providers::tags::SPELLED_MACHINE_UID;
use serde_json::{Value, json};

/// Of the project at Hetzner in which machines are made.
pub(crate) const TOKEN: &str = "token-of-the-project";
/// Of another one.
pub(crate) const OTHER: &str = "token-of-another-project";
/// The project at Google in which machines are made, and another one.
pub(crate) const PROJECTS: [&str; 2] = ["demo", "other"];
/// The subscription at Azure in which machines are made, and another one of the same tenant: by the same IDs principals are
/// known that may do everything in one of them.
pub(crate) const SUBSCRIPTIONS: [&str; 2] = [
    "11111111-0000-4000-8000-000000000001",
    "11111111-0000-4000-8000-000000000002",
];
/// That tenant.
pub(crate) const TENANT: &str = "22222222-0000-4000-8000-000000000001";

/// The account at AWS in which machines are made, and another one.
pub(crate) const ACCOUNTS: [&str; 2] = ["111111111111", "222222222222"];

/// A cloud.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Which {
    Hetzner,
    Gcp,
    Azure,
    Aws,
}

impl Which {
    /// What the ProviderConfig, its Secret and the field below `spec.provider` are called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hetzner => "hetzner",
            Self::Gcp => "gcp",
            Self::Azure => "azure",
            Self::Aws => "aws",
        }
    }

    /// What the journal calls a machine, and the label that says whose it is.
    pub(crate) fn thing(self) -> (&'static str, &'static str) {
        match self {
            Self::Hetzner => ("server", MACHINE_UID),
            Self::Gcp => ("instance", "covey_machine_uid"),
            Self::Azure => ("vm", SPELLED_MACHINE_UID),
            Self::Aws => ("instance", SPELLED_MACHINE_UID),
        }
    }

    /// Whose image the ProviderConfig names.
    pub(crate) fn image(self) -> &'static str {
        match self {
            Self::Hetzner => "worker-1.35.4",
            Self::Gcp => "projects/demo/global/images/worker-1-36",
            Self::Azure => {
                "/subscriptions/11111111-0000-4000-8000-000000000001/resourceGroups/workers/providers/Microsoft.Compute/\
                 galleries/covey/images/worker/versions/1.36.0"
            }
            Self::Aws => "ami-0123456789abcdef0",
        }
    }

    /// What a pool says of it.
    pub(crate) fn provider(self) -> Value {
        let types = match self {
            Self::Hetzner => ["cx22", "cx32"],
            Self::Gcp => ["e2-medium", "e2-standard-4"],
            Self::Azure => ["Standard_D2s_v5", "Standard_D4s_v5"],
            Self::Aws => ["m7i.large", "m7i.xlarge"],
        };
        json!({ self.name(): { "configName": self.name(), "types": types } })
    }

    /// The field of the Secret that has the credentials.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Hetzner => "token",
            Self::Gcp => "key.json",
            Self::Azure | Self::Aws => "credentials.json",
        }
    }

    /// What the ProviderConfig says.
    pub(super) fn config(self) -> Value {
        let name = self.name();
        let images = json!({ "1.35": self.image() });
        match self {
            Self::Hetzner => json!({ "hetzner": {
                "tokenSecretName": name, "location": "fsn1", "sshKeys": ["covey"], "network": "workers",
                "firewalls": ["closed"], "images": images,
            } }),
            Self::Gcp => json!({ "gcp": {
                "keySecretName": name, "project": PROJECTS[0], "zone": "europe-west1-b", "subnet": "workers",
                "networkTags": ["workers"], "images": images,
            } }),
            Self::Azure => {
                let group = format!("/subscriptions/{}/resourceGroups/workers", SUBSCRIPTIONS[0]);
                let net = format!("{group}/providers/Microsoft.Network");
                json!({ "azure": {
                    "credentialsSecretName": name, "subscriptionID": SUBSCRIPTIONS[0], "resourceGroup": "workers",
                    "location": "westeurope", "zone": "1", "sshKey": "ssh-ed25519 AAAA", "images": images,
                    "subnetID": format!("{net}/virtualNetworks/net/subnets/workers"),
                    "securityGroupID": format!("{net}/networkSecurityGroups/workers"),
                } })
            }
            Self::Aws => json!({ "aws": {
                "credentialsSecretName": name, "region": "eu-central-1", "zone": "eu-central-1a",
                "subnetID": "subnet-0123456789abcdef0", "securityGroupIDs": ["sg-0123456789abcdef0"], "images": images,
            } }),
        }
    }
}
