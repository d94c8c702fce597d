//! Who may be let into tenant clusters by AccessGrants, as what, and for how long.
//!
//! Invariant: what is granted can be had by nobody whom the management cluster does not let: this only bounds it.

use std::collections::BTreeMap;

use api::access_grant::{ADMIN, LEAST_SECONDS, MOST_SECONDS, VIEW};
use serde::{Deserialize, Serialize};

/// Access by AccessGrants.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AccessSettings {
    /// Whether anybody is let in. The chart says `false` where its admission policies are off: nobody checks then who asks.
    /// Default: true.
    pub enabled: bool,
    /// Rights besides `admin` and `view`: name to a ClusterRole inside the tenant clusters, which has to be there.
    /// Default: none.
    pub profiles: BTreeMap<String, String>,
    /// Seconds that a grant may last, 600 to 86400. Default: 86400.
    pub most_seconds: u32,
    /// Grants of one tenant cluster at a time. Default: 100.
    pub most_grants: usize,
}

impl Default for AccessSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            profiles: BTreeMap::new(),
            most_seconds: MOST_SECONDS,
            most_grants: 100,
        }
    }
}

impl AccessSettings {
    /// The ClusterRole of a profile inside the tenant cluster; none where there is no such profile.
    #[must_use]
    pub fn role(&self, profile: &str) -> Option<&str> {
        match profile {
            ADMIN => Some("cluster-admin"),
            VIEW => Some("view"),
            other => self.profiles.get(other).map(String::as_str),
        }
    }

    /// Names of all profiles.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        [ADMIN, VIEW]
            .into_iter()
            .chain(self.profiles.keys().map(String::as_str))
    }

    /// Whether the ceiling is one.
    #[must_use]
    pub fn has_possible_ceiling(&self) -> bool {
        (LEAST_SECONDS..=MOST_SECONDS).contains(&self.most_seconds)
    }
}
