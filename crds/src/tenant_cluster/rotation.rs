//! What of a tenant cluster's authorities and keys is turned, and how far that is.
//!
//! Invariant: a number alone begins a rotation; until what was before is dropped, setting it back goes back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What of a tenant cluster's authorities and keys is turned.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rotation {
    /// The authority `users-ca`, which signs people's certificates: the administrator's kubeconfig, and whoever had a
    /// CertificateSigningRequest of `kubernetes.io/kube-apiserver-client` approved. When it is over all their
    /// certificates of before are refused, and the kubeconfig is another one; no node is touched. Default: it stays as
    /// it is. Example: `{"generation": 2}`.
    #[serde(default, rename = "usersCA", skip_serializing_if = "Option::is_none")]
    pub users_ca: Option<AuthorityTurn>,

    /// The authority `ca`, by which everybody believes the kube-apiserver: kubeconfigs, components, pods and kubelets. When it is
    /// over nobody reaches the API who believes the one of before alone; until then kube-apiservers show a
    /// cross-certificate beside what the new one signed, and all do. It waits for nodes that joined before they were told
    /// of the new one. Default: it stays as it is. Example: `{"generation": 2, "nodes": "Replace"}`.
    #[serde(default, rename = "clusterCA", skip_serializing_if = "Option::is_none")]
    pub cluster_ca: Option<ClusterAuthorityTurn>,

    /// The authority `client-ca`, which signs client certificates of components, addons, the operator and kubelets. When it
    /// is over all of before are refused. Until then all are let in: it waits for nodes whose kubelets may have one of
    /// before. Default: it stays as it is. Example: `{"generation": 2, "nodes": "Replace"}`.
    #[serde(default, rename = "clientCA", skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<NodeAuthorityTurn>,

    /// The authority `front-proxy-ca`, which signs the certificate that kube-apiservers show to aggregated API servers. When
    /// it is over an older one is believed by nobody. Default: it stays as it is. Example: `{"generation": 2}`.
    #[serde(
        default,
        rename = "frontProxyCA",
        skip_serializing_if = "Option::is_none"
    )]
    pub front_proxy_ca: Option<AuthorityTurn>,

    /// The keys that sign and verify tokens of service accounts. When it is over tokens that were signed by another key
    /// are refused. Until then all are let in: it waits until the last of them has ended, 24 hours and ten minutes, and
    /// for those in Secrets of the type `kubernetes.io/service-account-token`, which never end. Default: they stay as
    /// they are. Example: `{"generation": 2}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_keys: Option<KeyTurn>,

    /// The keys that Secrets are encrypted with in etcd. When it is over every Secret is written with the new key, and no
    /// kube-apiserver has another one. Covey keeps the key of before for backups that were made with it. Default: they
    /// stay as they are. Example: `{"generation": 2}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption_keys: Option<Turn>,

    /// The administrator's certificate in the Secret `<name>-kubeconfig`. A higher number has another one made, at once. The
    /// one of before is let in until it ends (`previousUntil` of `status.rotation`), because a client certificate cannot be
    /// taken back: where it was stolen turn `usersCA`. Default: it is made anew when two thirds of its life are over.
    /// Example: `{"generation": 2}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<KubeconfigTurn>,
}

impl Rotation {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// An authority that is turned, of which nobody whom Covey does not look after has a certificate that lasts for long.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorityTurn {
    /// Which generation is to sign, 1 to 1000000; a new tenant cluster has the first. A number above all that there were
    /// (`status.rotation`) makes a new one. One that is still believed signs again; one that was dropped cannot come
    /// back. Required, no default. Example: 2.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub generation: u32,

    /// `true`: the rotation stays where it is. As long as nothing is dropped the generations of before and after are both
    /// believed. Default: `false`. Example: `true`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,

    /// The generation whose rotation waits for nobody but pods of the control plane, 1 to 1000000: neither for a kubeconfig
    /// that cannot be written, nor for aggregated API servers that cannot be asked. For a key that was stolen. Default: it
    /// waits. Example: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub complete: Option<u32>,
}

/// One thing that is turned.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Which generation is to sign, 1 to 1000000; a new tenant cluster has the first. A number above all that there were
    /// (`status.rotation`) makes a new one. One that is still believed signs again; one that was dropped cannot come
    /// back. Required, no default. Example: 2.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub generation: u32,

    /// `true`: the rotation stays where it is. As long as nothing is dropped the generations of before and after are both
    /// believed. Default: `false`. Example: `true`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
}

/// A certificate that is made anew.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeconfigTurn {
    /// For which number it is made, 1 to 1000000; a new tenant cluster has the first. It may only rise.
    /// Required, no default. Example: 2.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub generation: u32,
}

/// Keys that are turned, and of which what they signed lasts for a time.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyTurn {
    /// Which generation is to sign, 1 to 1000000; a new tenant cluster has the first. A number above all that there were
    /// (`status.rotation`) makes a new one. One that still verifies signs again; one that was dropped cannot come back.
    /// Required, no default. Example: 2.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub generation: u32,

    /// `true`: the rotation stays where it is. As long as nothing is dropped the generations of before and after both
    /// verify. Default: `false`. Example: `true`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,

    /// The generation whose rotation does not wait for tokens of before, 1 to 1000000: they are refused as soon as all is
    /// signed by the new key. For a key that was stolen, or when nobody uses such a token. Default: it waits.
    /// Example: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub complete: Option<u32>,
}

/// An authority that is turned, and of which kubelets have a certificate.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeAuthorityTurn {
    /// Which generation is to sign, 1 to 1000000; a new tenant cluster has the first. A number above all that there were
    /// (`status.rotation`) makes a new one. One that is still believed signs again; one that was dropped cannot come
    /// back. Required, no default. Example: 2.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub generation: u32,

    /// `true`: the rotation stays where it is, and no machine is replaced for it. As long as nothing is dropped the
    /// generations of before and after are both believed. Default: `false`. Example: `true`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,

    /// The generation whose rotation does not wait for nodes of before, 1 to 1000000: they are cut off as soon as all else is
    /// done, and stay so until their machines are replaced. For a key that was stolen. Default: it waits. Example: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub complete: Option<u32>,

    /// What becomes of nodes whose kubelets may have a certificate of before: `Wait`, `InPlace` or `Replace`. Default: `Wait`.
    /// Example: `Replace`.
    #[serde(default, skip_serializing_if = "NodesOfBefore::is_default")]
    pub nodes: NodesOfBefore,
}

/// The authority by which everybody believes the kube-apiserver is turned: nodes keep what they were told of it when they
/// joined.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAuthorityTurn {
    /// Which generation is to sign, 1 to 1000000; a new tenant cluster has the first. A number above all that there were
    /// (`status.rotation`) makes a new one. One that is still believed signs again; one that was dropped cannot come
    /// back. Required, no default. Example: 2.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub generation: u32,

    /// `true`: the rotation stays where it is, and no machine is replaced for it. As long as nothing is dropped the
    /// generations of before and after are both believed. Default: `false`. Example: `true`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,

    /// The generation whose rotation waits neither for nodes of before nor for a kubeconfig that cannot be written, 1 to
    /// 1000000: those nodes are cut off as soon as all else is done, and stay so until their machines are replaced. For when
    /// nothing may wait. Default: it waits. Example: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub complete: Option<u32>,

    /// What becomes of nodes that joined before they were told of the new one: `Wait`, `InPlace` or `Replace`. Default:
    /// `Wait`. Example: `Replace`.
    #[serde(default, skip_serializing_if = "NodesOfBefore::is_default")]
    pub nodes: NodesOfBefore,

    /// The generation that is made because a key of before was stolen, 1 to 1000000. kube-apiservers show no cross-certificate
    /// for it: who believes those of before alone is refused as soon as it signs. So nodes are told of it before that, by
    /// `nodes`, and again when the others are dropped, until none believes what whoever stole the key can sign. Pods that read
    /// `kube-root-ca.crt` at their start alone have to be started anew before it signs; `Replace` does that. Set it together
    /// with `generation`. Default: no key was stolen. Example: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub compromised: Option<u32>,
}

/// What becomes of nodes of before, of which a rotation waits.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum NodesOfBefore {
    /// Nothing: the rotation waits until each was replaced for another reason. That of `clientCA` ends when their
    /// certificates have ended, too, which is a year after the new one began to sign.
    #[default]
    Wait,
    /// Their kubelets are told where they run, one node at a time and then a tenth of each pool: a short privileged pod on the
    /// node writes whom to believe and a bootstrap token of this one machine, and starts the kubelet anew. Containers keep
    /// running. A machine with which that fails twice is replaced, as by `Replace`; a node that is not ready waits.
    InPlace,
    /// Node pools replace their machines, as they do for another version, and with the same surge.
    Replace,
}

impl NodesOfBefore {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How far the rotation of one thing is.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RotationStatus {
    /// What, as `spec.rotation` calls it. Example: `usersCA`.
    #[schemars(length(max = 32))]
    pub name: String,
    /// The generation that is to sign. Example: 2.
    pub generation: u32,
    /// The generation that signs. Example: 1.
    pub signs: u32,
    /// Generations that are to be believed, the oldest first. Example: `[1, 2]`.
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub believed: Vec<u32>,
    /// How far it is; computed anew each time from what runs. Example: `Preparing`.
    #[serde(default)]
    pub phase: RotationPhase,
    /// When it was first seen in this phase, RFC 3339, UTC. Example: `2027-01-31T12:00:00Z`.
    #[schemars(length(max = 64))]
    pub since: String,
    /// Until when another generation signed certificates of kubelets, RFC 3339, UTC: a machine that was made before may have
    /// one. Absent where none did, and of what kubelets have nothing of. Example: `2027-01-31T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub signed_until: Option<String>,
    /// Of `clusterCA` alone: since when machines are made that believe the generation that signs, RFC 3339, UTC: one that was
    /// made before may believe older ones alone. Absent where that is the first. Example: `2027-01-31T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub believed_since: Option<String>,
    /// Of `clusterCA` with `compromised` alone, while it waits for that: nodes of machines that were made before then, RFC 3339,
    /// UTC, are to be told of the wanted generation before it signs (`Preparing`), or of nothing but it after the others were
    /// dropped (`Dropping`). Example: `2027-01-31T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub told_since: Option<String>,
    /// What it waits for, and what would let it go on. Absent where it waits for nothing.
    /// Example: `kube-apiservers that believe generations 1 and 2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub waiting_for: Option<String>,
    /// Of `kubeconfig` alone: until when the certificate of before is let in, RFC 3339, UTC; sooner where `usersCA` is
    /// turned. Absent where there is none. Example: `2027-11-29T00:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub previous_until: Option<String>,
}

/// How far a rotation is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum RotationPhase {
    /// One generation is believed, and it signs.
    #[default]
    Idle,
    /// The wanted generation is made, and brought to everybody who is to believe it; the one of before signs.
    Preparing,
    /// The wanted one signs from now on; what the one of before signed is replaced.
    Switching,
    /// Nothing of Covey's is signed by another one any more, and all are still believed.
    Draining,
    /// The others are taken out of what is believed. There is no way back.
    Dropping,
}
