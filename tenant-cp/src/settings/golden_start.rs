//! Golden files of the image of etcd-agent, as plain data.
//!
//! Invariant: a file is named with what it is made of and its digest, and nothing is believed of it but by that.

use serde::{Deserialize, Serialize};

/// What a new tenant cluster of one version of Kubernetes may begin with (docs/adr/0023-golden-start.md). `cargo xtask` and
/// whoever builds the image of etcd-agent write it beside the file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GoldenStart {
    /// Minor of the etcd that made it, and of the `etcdutl` beside it. Required. Example: `3.6`.
    pub etcd: String,
    /// Hash of Covey's objects in it, as `operator print golden` says it. With any other it is not used. Required. Example:
    /// `0a1b2c3d4e5f6071`.
    pub objects: String,
    /// Name of the file in the image. Required. Example: `kubernetes-1.36.3-etcd-3.6-0a1b2c3d4e5f6071.db`.
    pub file: String,
    /// SHA-256 of the file, hexadecimal: one with any other is not used. Required.
    pub sha256: String,
}
