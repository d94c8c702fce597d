//! Which kinds of objects are encrypted in a tenant cluster's etcd.
//!
//! Invariant: Secrets always are; the list names kinds one by one, because every object of a kind that comes or goes is
//! written anew and etcd itself is asked whether that is so.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rotation::RotationPhase;

/// What can be encrypted, as the list names it.
const KNOWN: &str = "self.all(kind, kind.contains('*') || kind == 'events' || kind == 'events.events.k8s.io' \
    || kind in ['secrets', 'configmaps', 'controllerrevisions.apps', 'cronjobs.batch', 'daemonsets.apps', \
    'deployments.apps', 'jobs.batch', 'leases.coordination.k8s.io', 'persistentvolumeclaims', 'pods', \
    'replicasets.apps', 'serviceaccounts', 'statefulsets.apps'])";
const NOT_KNOWN: &str = "encryption.resources has a kind that cannot be encrypted: choose among secrets, configmaps, \
    controllerrevisions.apps, cronjobs.batch, daemonsets.apps, deployments.apps, jobs.batch, \
    leases.coordination.k8s.io, persistentvolumeclaims, pods, replicasets.apps, serviceaccounts and statefulsets.apps, \
    each with its API group";
const NO_WILDCARD: &str = "!self.exists(kind, kind.contains('*'))";
const WILDCARD: &str = "encryption.resources has a wildcard: name each kind, because every object of it is written anew \
    when it is added or taken out";
const NO_EVENTS: &str = "!self.exists(kind, kind == 'events' || kind == 'events.events.k8s.io')";
const EVENTS: &str = "encryption.resources has events: take them out, because they may be in an etcd of their own and end \
    within hours, so that nobody writes them anew";
const HAS_SECRETS: &str = "self.exists(kind, kind == 'secrets')";
const LACKS_SECRETS: &str =
    "encryption.resources lacks secrets: add it, because Secrets are always encrypted at rest";

/// How objects are encrypted in etcd.
#[derive(Clone, Debug, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Encryption {
    /// Kinds whose objects kube-apiservers encrypt before etcd has them, at most 16, each with its API group. `secrets` has
    /// to be among them. All objects of a kind that is added, or taken out, are written anew a few at a time; how far that
    /// is says `status.encryption`. Default: `["secrets"]`. Example: `["secrets", "configmaps"]`.
    #[serde(default = "default_resources")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 64)), extend("x-kubernetes-list-type" = "set"))]
    #[x_kube(
        validation = Rule::new(NO_WILDCARD).message(WILDCARD),
        validation = Rule::new(NO_EVENTS).message(EVENTS),
        validation = Rule::new(KNOWN).message(NOT_KNOWN),
        validation = Rule::new(HAS_SECRETS).message(LACKS_SECRETS)
    )]
    pub resources: Vec<String>,

    /// The KMS that encrypts what is encrypted, in place of keys that Covey has. Its plugin runs beside every kube-apiserver.
    /// To switch it on, to change it and to take it away all objects of these kinds are written anew, and until that is
    /// proven both are read; how far that is says `status.encryption.kms`. A backup of a tenant cluster that has, or had, a KMS
    /// cannot be restored without that KMS. Default: Covey's keys. Example: `{"name": "vault"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kms: Option<KmsChoice>,
}

impl Default for Encryption {
    fn default() -> Self {
        Self {
            resources: default_resources(),
            kms: None,
        }
    }
}

/// A KMS of the platform.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KmsChoice {
    /// What the platform calls it (`encryption.kms` of the operator's configuration), up to 32 lower-case letters, digits and
    /// `-`. Required, no default. Example: `vault`.
    #[schemars(
        length(min = 1, max = 32),
        regex(pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,

    /// Another number has all objects written anew by the same KMS, with the key that it has then, 1 to 50: after its key was
    /// rotated, before the one of before is destroyed. It also has one tried again that was taken back. Default: 1.
    /// Example: 2.
    #[serde(
        default = "first_generation",
        skip_serializing_if = "is_first_generation"
    )]
    #[schemars(range(min = 1, max = 50))]
    pub generation: u32,
}

fn first_generation() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_first_generation(generation: &u32) -> bool {
    *generation == 1
}

impl Encryption {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn default_resources() -> Vec<String> {
    vec!["secrets".to_owned()]
}

/// How far encryption at rest is with kinds beside Secrets, and with a KMS.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EncryptionStatus {
    /// Kinds of which every object is encrypted in etcd, sorted. Example: `["configmaps", "secrets"]`.
    #[schemars(length(max = 32), inner(length(max = 64)), extend("x-kubernetes-list-type" = "set"))]
    pub resources: Vec<String>,
    /// Kinds that are on their way into that list or out of it, sorted: some of their objects may be encrypted and some
    /// not. Absent where there are none. Example: `["configmaps"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 64)), extend("x-kubernetes-list-type" = "set"))]
    pub changing: Vec<String>,
    /// What it waits for, and what would let it go on. Absent where it waits for nothing.
    /// Example: `kube-apiservers that all read what is encrypted of configmaps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub waiting_for: Option<String>,
    /// How far a KMS is. Absent where there never was one, nor is to be. Example: `{"phase": "Idle", "writes": "vault-g1"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kms: Option<KmsStatus>,
}

impl EncryptionStatus {
    /// Whether something of it is on its way.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        let kms = self.kms.as_ref();
        !self.changing.is_empty() || kms.is_some_and(|kms| kms.phase != RotationPhase::Idle)
    }
}

/// How far a KMS is. One is written `<name>-g<generation>`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KmsStatus {
    /// How far the change from one to another is, or from and to Covey's keys; computed anew each time from what runs.
    /// Example: `Preparing`.
    #[serde(default)]
    pub phase: RotationPhase,
    /// The one that objects are written with. Absent: Covey's key. Example: `vault-g1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub writes: Option<String>,
    /// Others that are read, because some objects may be written with them, or are to be. Absent where there are none.
    /// Example: `["vault-g2"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(max = 64)), extend("x-kubernetes-list-type" = "set"))]
    pub reads: Vec<String>,
    /// The one that was taken back, because no kube-apiserver became ready with it in time; another `generation` has it tried
    /// again. Absent where there is none. Example: `vault-g1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub returned: Option<String>,
    /// All that a backup of it may need to be restored. Absent where it needs none. Example: `["vault-g1"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(max = 64)), extend("x-kubernetes-list-type" = "set"))]
    pub needed: Vec<String>,
}
