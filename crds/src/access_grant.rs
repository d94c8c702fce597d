//! `AccessGrant`: one person's access to a tenant cluster for a while, or one program's until it is deleted, with a
//! certificate of its own.
//!
//! Invariant: nothing in it is secret: the key stays with whoever asks, or is in the Secret that was asked for, and a
//! certificate without it opens nothing, nor does a token that is sealed. What was granted is never another thing later, so a grant is read once and then
//! known.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Seconds that a grant lasts at least: Kubernetes itself signs nothing shorter.
pub const LEAST_SECONDS: u32 = 600;
/// Seconds that a grant lasts at most: a client certificate cannot be taken back.
pub const MOST_SECONDS: u32 = 86_400;
/// Seconds of a grant that says nothing.
pub const SECONDS: u32 = 3_600;

/// What the administrator's rights are called.
pub const ADMIN: &str = "admin";
/// What the rights to read are called.
pub const VIEW: &str = "view";

/// Prefix of a user's name inside the tenant cluster; the user's own follows.
pub const USER_PREFIX: &str = "covey:";
/// Prefix of the group, and of the binding, that one grant has inside the tenant cluster; its UID follows.
pub const GROUP_PREFIX: &str = "covey:grant:";
/// Prefix of the ServiceAccount that a grant with a token has inside the tenant cluster; its UID follows.
pub const ACCOUNT_PREFIX: &str = "covey-access-";
/// Its namespace. Not `kube-system`: who gives a right to all ServiceAccounts of that, as is usual, would give it to everybody
/// who ever asks for a token.
pub const ACCOUNT_NAMESPACE: &str = "covey-access";

/// What a token is sealed for: one grant, by its UID, so that it passes for no other's.
#[must_use]
pub fn token_purpose(uid: &str) -> String {
    format!("covey.dev/access-grant token {uid}")
}

const FIXED: &str = "self.spec == oldSelf.spec";
const FIXED_FORM: &str =
    "an AccessGrant cannot be changed: delete it, which ends its rights at once, and make another";
const GROUPS: &str = "!has(self.spec.groups) || self.spec.groups.all(group, \
    !group.startsWith('system:') && !group.startsWith('covey:') && !group.startsWith('kubeadm:'))";
const GROUPS_FORM: &str = "groups that begin with system:, covey: or kubeadm: have rights of the cluster itself: name groups \
    of your own, and the rights by `profile`";
const EITHER: &str = "has(self.spec.request) != has(self.spec.secretName)";
const EITHER_FORM: &str = "set either `request`, for somebody who keeps a key, or `secretName`, where the operator makes \
    the key and renews the certificate";
const TOKEN: &str = "!has(self.spec.tokenKey) || has(self.spec.request)";
const TOKEN_FORM: &str =
    "`tokenKey` goes with `request`: a program has its certificate in a Secret, by `secretName`";
const OTHER_SECRET: &str =
    "!has(self.spec.secretName) || self.spec.secretName != self.spec.clusterName + '-kubeconfig'";
const OTHER_SECRET_FORM: &str = "the Secret `<clusterName>-kubeconfig` is the administrator's: give `secretName` another \
    name that ends in -kubeconfig";

/// One person's or program's access to a tenant cluster.
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "covey.dev",
    version = "v1alpha1",
    kind = "AccessGrant",
    plural = "accessgrants",
    shortname = "ag",
    category = "covey",
    namespaced,
    status = "AccessGrantStatus",
    derive = "PartialEq",
    doc = "One person's or program's access to a tenant cluster.",
    validation = Rule::new(FIXED).field_path(".spec").message(FIXED_FORM),
    validation = Rule::new(GROUPS).field_path(".spec").message(GROUPS_FORM),
    validation = Rule::new(EITHER).field_path(".spec").message(EITHER_FORM),
    validation = Rule::new(TOKEN).field_path(".spec").message(TOKEN_FORM),
    validation = Rule::new(OTHER_SECRET).field_path(".spec").message(OTHER_SECRET_FORM),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterName"),
    printcolumn(name = "User", type_ = "string", json_path = ".spec.user"),
    printcolumn(name = "Profile", type_ = "string", json_path = ".spec.profile"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(name = "Until", type_ = "string", json_path = ".status.notAfter"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Secret",
        type_ = "string",
        json_path = ".spec.secretName",
        priority = 1
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct AccessGrantSpec {
    /// The TenantCluster, in the same namespace. Required, no default. Example: `demo`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub cluster_name: String,

    /// Which rights: `admin` is the ClusterRole cluster-admin inside the tenant cluster, `view` its ClusterRole view;
    /// others are those of the platform (`config.access.profiles`). Who makes the grant has to have the right to `create`
    /// the subresource `tenantclusters/<profile>`. Required, no default. Example: `view`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub profile: String,

    /// Whom it is for, as the management cluster calls them: the caller's own name, unless the caller may impersonate that
    /// user. Inside the tenant cluster it is `covey:` and this. Required, no default. Example: `jane`.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[ -~]+$"))]
    pub user: String,

    /// A group that the user is in inside the tenant cluster besides the grant's own: one of the caller's, or one that the
    /// caller may impersonate. What it may there it may until the certificate ends, though the grant is deleted. Default:
    /// none. Example: `["team-a"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1),
        inner(length(min = 1, max = 253), regex(pattern = "^[ -~]+$"))
    )]
    pub groups: Vec<String>,

    /// How long it lasts from when it was made, in seconds; the platform may allow less (`config.access.mostSeconds`).
    /// With `secretName` it is how long each certificate lasts. Default: 3600. Example: 3600.
    #[serde(default = "seconds")]
    #[schemars(range(min = 600, max = 86_400))]
    pub ttl_seconds: u32,

    /// A request for a certificate (PKCS #10, PEM), signed with its own key; nothing is taken of it but that key.
    /// Required, unless `secretName` is set; no default. Example: `-----BEGIN CERTIFICATE REQUEST-----…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 64, max = 8192))]
    pub request: Option<String>,

    /// For whoever reaches the tenant cluster through a proxy that ends TLS, where no client certificate arrives: a public
    /// key (X25519, 32 bytes in base64). The operator makes a token of a ServiceAccount with the same rights, and seals it for
    /// that key, so that nobody else who reads the grant can use it. Inside the tenant cluster the token is that
    /// ServiceAccount and not the user; `groups` do not hold for it. Needs `request`. Default: none.
    /// Example: `7Yk3mC0m2rQ3m0yq2uO8Qh0s2x2r0c1c4a9m5rQ1c2E=`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 44, max = 44), regex(pattern = "^[A-Za-z0-9+/]{43}=$"))]
    pub token_key: Option<String>,

    /// For programs that read a kubeconfig and ask nobody for one: the operator makes the key, writes a kubeconfig to this
    /// Secret of the same namespace (key `value`), and another one with another key when two thirds of the certificate's
    /// life are over, until the grant is deleted. A Secret that is not the grant's is left as it is. Who makes the grant has
    /// to have the right to create Secrets. Default: none. Example: `flux-demo-kubeconfig`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 12, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?-kubeconfig$")
    )]
    pub secret_name: Option<String>,
}

const fn seconds() -> u32 {
    SECONDS
}

/// What the operator observed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessGrantStatus {
    /// Generation of the spec that this status speaks of. Absent until the first look. Example: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// UID of the TenantCluster that it is for. Example: `0a1b2c3d-0011-4000-8000-000000000001`.
    #[serde(
        rename = "clusterUID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 64))]
    pub cluster_uid: Option<String>,

    /// The certificate, PEM. It is public. Example: `-----BEGIN CERTIFICATE-----…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16_384))]
    pub certificate: Option<String>,

    /// Whom to believe that the API is the tenant cluster's: certificates of its authority `ca`, PEM.
    /// Example: `-----BEGIN CERTIFICATE-----…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536))]
    pub certificate_authority: Option<String>,

    /// Generation of the tenant cluster's authority `users-ca` that signed it. Example: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<u32>,

    /// When the certificate ends, RFC 3339, UTC. Example: `2027-01-31T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub not_after: Option<String>,

    /// The token, sealed for `spec.tokenKey` (HPKE, RFC 9180, in base64): to everybody else it means nothing.
    /// Example: `mJ0n…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16_384))]
    pub sealed_token: Option<String>,

    /// When the token ends, RFC 3339, UTC. Example: `2027-01-31T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub token_not_after: Option<String>,

    /// Who it is inside the tenant cluster. Example: `covey:jane`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub subject: Option<String>,

    /// `Ready`: the certificate is there, and so are its rights inside the tenant cluster.
    /// Example: `[{"type": "Ready", "status": "True", "reason": "GrantIssued", "message": ""}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
