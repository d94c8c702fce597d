//! The versions of Kubernetes that the lab can run: as its own and as those of tenants.
//!
//! Invariant: what is here and what `programs.toml` and the `go.mod` files pin are the same (a
//! test compares them).

use std::fmt;
use std::str::FromStr;

use super::Program;

/// A version of Kubernetes, older ones first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KubernetesVersion {
    /// 1.34.4: the oldest.
    V1_34,
    /// 1.35.4: the lab's own and the tenants' default; what they upgrade from.
    #[default]
    V1_35,
    /// 1.36.3: what tenants upgrade to.
    V1_36,
    /// 1.37.2: the newest.
    V1_37,
}

impl KubernetesVersion {
    /// All of them, oldest first.
    pub const ALL: [Self; 4] = [Self::V1_34, Self::V1_35, Self::V1_36, Self::V1_37];
    /// Two neighbouring minors, which is what an upgrade needs: those of tenants in a lab that was asked
    /// for no others.
    pub const NEIGHBOURS: [Self; 2] = [Self::V1_35, Self::V1_36];

    /// `1.35.4`. Image tags put a `v` in front.
    #[must_use]
    pub fn full(self) -> &'static str {
        match self {
            Self::V1_34 => "1.34.4",
            Self::V1_35 => "1.35.4",
            Self::V1_36 => "1.36.3",
            Self::V1_37 => "1.37.2",
        }
    }

    pub(super) fn program(self) -> &'static str {
        match self {
            Self::V1_34 => "kubernetes-1.34",
            Self::V1_35 => "kubernetes-1.35",
            Self::V1_36 => "kubernetes-1.36",
            Self::V1_37 => "kubernetes-1.37",
        }
    }

    pub(super) fn of(program: Program) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|version| version.program() == program.name())
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.full())
    }
}

impl FromStr for KubernetesVersion {
    type Err = anyhow::Error;

    /// Takes `1.35`, `1.35.4` and `v1.35.4`.
    fn from_str(text: &str) -> anyhow::Result<Self> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        let known = |version: &Self| {
            let minor = version.full().rsplit_once('.').map(|(minor, _patch)| minor);
            bare == version.full() || Some(bare) == minor
        };
        Self::ALL.into_iter().find(known).ok_or_else(|| {
            let all = Self::ALL.map(Self::full).join(", ");
            anyhow::anyhow!("the lab has no Kubernetes {text:?}: choose one of {all}")
        })
    }
}
