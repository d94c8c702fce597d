//! Programs of a node that the platform team lays ready for machines that are reached by SSH.
//!
//! Invariant: what is read names one file of one folder and the digest that it has to have.

use api::node_pool::Architecture;
use serde::{Deserialize, Serialize};

use crate::version::{self, VersionError};

/// An archive with the programs of a node: a tar that is packed by gzip.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodePrograms {
    /// Version of its kubelet. Example: `1.35.4`.
    pub version: KubernetesVersion,
    /// Which processors it is for. Default: `amd64`.
    #[serde(default)]
    pub architecture: Architecture,
    /// Its name in the volume `hostPrograms` of the chart, without folders.
    pub file: FileName,
    /// SHA-256 of the archive: what has another one is not sent.
    pub sha256: Sha256Digest,
}

/// The name of a file, without folders.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileName(String);

impl FileName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for FileName {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        match is_name {
            true => Ok(Self(name)),
            false => Err("not the name of a file: leave folders out, such as node-1.35.4.tar.gz"),
        }
    }
}

impl From<FileName> for String {
    fn from(name: FileName) -> Self {
        name.0
    }
}

/// A SHA-256 in hexadecimal.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256Digest(String);

impl Sha256Digest {
    /// Its 64 digits, in lower case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Sha256Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let text = text.to_ascii_lowercase();
        match text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            true => Ok(Self(text)),
            false => {
                Err("not a SHA-256: write its 64 hexadecimal digits, as sha256sum prints them")
            }
        }
    }
}

impl From<Sha256Digest> for String {
    fn from(digest: Sha256Digest) -> Self {
        digest.0
    }
}

/// A version of Kubernetes that Covey builds, in full.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct KubernetesVersion(String);

impl KubernetesVersion {
    /// Such as `1.35.4`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for KubernetesVersion {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        version::parse(&text).map(|version| Self(version.to_string()))
    }
}

impl From<KubernetesVersion> for String {
    fn from(version: KubernetesVersion) -> Self {
        version.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_would_not_be_found_or_compared_is_refused_with_its_mend() {
        let right = json!({"version": "1.35.4", "file": "node.tar.gz", "sha256": "AB".repeat(32)});
        let read: NodePrograms = serde_json::from_value(right.clone()).unwrap();
        assert_eq!(read.architecture, Architecture::Amd64);
        assert_eq!(read.sha256.as_str(), "ab".repeat(32));
        for (field, value, words) in [
            ("version", "1.35", "major.minor.patch"),
            ("file", "../node.tar.gz", "leave folders out"),
            ("file", "", "leave folders out"),
            ("sha256", "ab", "sha256sum"),
            ("architecture", "riscv64", "amd64"),
        ] {
            let mut wrong = right.clone();
            wrong[field] = json!(value);
            let error = serde_json::from_value::<NodePrograms>(wrong).unwrap_err();
            assert!(error.to_string().contains(words), "{field}: {error}");
        }
    }
}
