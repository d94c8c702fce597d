//! The releases of KubeVirt that a lab can have, and what differs between them.
//!
//! Invariant: what a user has by default is on, and nothing else but what the lab cannot do without.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, bail};
use serde::{Deserialize, Serialize};

use super::{Bins, Program};

/// One of them.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Release {
    /// The newest that can be built.
    #[default]
    #[serde(rename = "1.9")]
    V1_9,
    /// An older minor, with published holes, in which disks are hot-plugged by requests of their own.
    #[serde(rename = "1.6")]
    V1_6,
}

impl Release {
    /// All, the newest first.
    pub const ALL: [Self; 2] = [Self::V1_9, Self::V1_6];

    /// The version, in full.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::V1_9 => "1.9.0",
            Self::V1_6 => "1.6.0",
        }
    }

    /// What builds it.
    pub(crate) fn program(self) -> Program {
        match self {
            Self::V1_9 => Program::KUBEVIRT,
            Self::V1_6 => Program::KUBEVIRT_1_6,
        }
    }

    /// The one among these binaries.
    pub(crate) fn of(bins: &Bins) -> Self {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|release| bins.dir(release.program()).is_ok());
        found.unwrap_or_default()
    }

    /// How disks are hot-plugged by default: `config.storage.hotplug` of the chart.
    #[must_use]
    pub fn hotplug(self) -> &'static str {
        match self {
            Self::V1_9 => "declarative",
            Self::V1_6 => "subresources",
        }
    }

    /// Feature gates that are on besides those that are by default, if disks are hot-plugged this way
    /// (`config.storage.hotplug`).
    #[must_use]
    pub fn feature_gates(self, hotplug: &str) -> Vec<&'static str> {
        match (self, hotplug) {
            (Self::V1_9, "declarative") => Vec::new(),
            // Deprecated, and asked for all the same while it is on.
            (Self::V1_9, _) => vec!["HotplugVolumes"],
            // A disk grows with its claim while the machine runs; that cannot be switched off from 1.9.
            // Templates are looked at only while the other way is off.
            (Self::V1_6, "declarative") => vec!["ExpandDisks", "DeclarativeHotplugVolumes"],
            (Self::V1_6, _) => vec!["ExpandDisks", "HotplugVolumes"],
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.version())
    }
}

impl FromStr for Release {
    type Err = Error;

    /// `1.9`, `1.9.0` or `v1.9.0`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wanted = text.strip_prefix('v').unwrap_or(text);
        let is = |release: &Self| {
            let version = release.version();
            let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
            [version, minor].contains(&wanted)
        };
        match Self::ALL.into_iter().find(is) {
            Some(release) => Ok(release),
            None => bail!(
                "the lab has no KubeVirt {text}: choose one of {}",
                Self::ALL.map(Self::version).join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_understood_short_and_long() {
        for text in ["1.6", "1.6.0", "v1.6.0"] {
            assert_eq!(text.parse::<Release>().unwrap(), Release::V1_6);
        }
        let error = "1.7".parse::<Release>().unwrap_err().to_string();
        assert!(error.contains("choose one of 1.9.0, 1.6.0"), "{error}");
        assert_eq!(Release::default(), Release::ALL[0]);
    }

    #[test]
    fn only_one_way_of_hot_plugging_is_on() {
        for release in Release::ALL {
            for way in ["declarative", "subresources"] {
                let gates = release.feature_gates(way);
                let plugs = gates.contains(&"HotplugVolumes");
                assert_eq!(plugs, way == "subresources", "{release} {way}");
            }
        }
    }
}
