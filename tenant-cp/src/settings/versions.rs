//! Which patches of Kubernetes the platform offers and demands.
//!
//! Invariant: what cannot be read is none: [`check_settings`](crate::validate::check_settings) refuses it when it is loaded.

use api::instant;
use jiff::Timestamp;
use semver::Version;
use serde::{Deserialize, Serialize};

use super::Settings;
use crate::version;

/// The least patch of a minor.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MinimumVersion {
    /// The version. Required. Example: `1.35.6`.
    pub version: String,
    /// From when on, in UTC. Who runs an older one is told at least 14 days before it is patched, also where that is later.
    /// Required. Example: `2027-01-31T12:00:00Z`.
    pub from: String,
}

impl Settings {
    /// The newest patch of this minor that tenant clusters take by themselves.
    #[must_use]
    pub fn newest_patch(&self, of: &Version) -> Option<Version> {
        let all = self.patch_versions.iter();
        let all = all.filter_map(|text| version::parse(text).ok());
        all.filter(|patch| version::is_same_minor(patch, of)).max()
    }

    /// The least patch of this minor, and from when on.
    #[must_use]
    pub fn minimum_version(&self, of: &Version) -> Option<(Version, Timestamp)> {
        let all = self.minimum_versions.iter();
        let mut read = all.filter_map(|one| {
            let version = version::parse(&one.version).ok()?;
            Some((version, instant::read(&one.from)?))
        });
        read.find(|(least, _)| version::is_same_minor(least, of))
    }
}
