//! Names of objects. They sort as what they name happened.
//!
//! Invariant: an object's name follows from its header, so a renamed one is found; and the name of a
//! delta follows from its place in the chain alone, so two writers meet at it.

use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;

/// Whose objects these are: one tenant cluster's, and of it one cluster of etcd.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Scope {
    /// UID of the TenantCluster.
    pub tenant: String,
    /// Identifier of its etcd cluster.
    pub cluster: u64,
}

/// Most bytes of a tenant's identifier; a UID of Kubernetes has 36.
pub const MOST_TENANT: usize = 64;

impl Scope {
    /// None for a tenant that is no part of a path: letters, digits and hyphens, 64 at most.
    #[must_use]
    pub fn new(tenant: &str, cluster: u64) -> Option<Self> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        let good = (1..=MOST_TENANT).contains(&tenant.len()) && tenant.bytes().all(plain);
        (good && cluster != 0).then(|| Self {
            tenant: tenant.to_owned(),
            cluster,
        })
    }

    /// The folder of its objects, with a slash at its end.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("{}/{:016x}/", self.tenant, self.cluster)
    }
}

/// A full snapshot. They sort by revision.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FullName {
    /// A revision that it has for certain: the store's before the snapshot was asked for.
    pub revision: u64,
    /// Number of the first delta that may have revisions which it has not.
    pub next: u64,
    /// When it was asked for, in milliseconds since 1970 by the writer's clock.
    pub taken_ms: u64,
}

/// An identity of the tenant cluster, sealed. They sort as they were sealed.
///
/// The name is a function of what is sealed, so whoever writes it writes the same.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct IdentityName {
    /// When it was sealed, in milliseconds since 1970 by the clock of who sealed it, and later than the one before.
    pub sealed_ms: u64,
    /// Sum of what was sealed ([`SealedIdentity`](crate::SealedIdentity)).
    pub digest: Digest,
}

/// An object within its [`Scope`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Name {
    /// A link of the chain, by its number from 0.
    Delta(u64),
    /// What a full snapshot is made of, and the last of it to be written.
    Head(FullName),
    /// A piece of a full snapshot's database, by its number from 0.
    Part(FullName, u32),
    /// Says that a full snapshot is to be deleted, and since when.
    Tombstone(FullName, u64),
    /// Says that a full snapshot and the deltas after it were read and found whole, and when.
    Verified(FullName, u64),
    /// Says that somebody wants a full snapshot kept, and until when.
    Kept(FullName, u64),
    /// What the tenant cluster is: authorities, keys, addresses.
    Identity(IdentityName),
}

/// A name that no object of ours has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is no name of an object of a backup")]
pub struct NotAName(String);

/// Digits of revisions and numbers.
const WIDE: usize = 20;
/// Digits of a time in milliseconds.
const TIME: usize = 15;
/// Digits of a part's number.
const PART: usize = 6;

impl fmt::Display for FullName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            revision,
            next,
            taken_ms,
        } = self;
        write!(f, "{revision:020}-{next:020}-{taken_ms:015}")
    }
}

impl FromStr for FullName {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let read = || {
            let mut parts = text.split('-');
            let name = Self {
                revision: number(parts.next()?, WIDE)?,
                next: number(parts.next()?, WIDE)?,
                taken_ms: number(parts.next()?, TIME)?,
            };
            parts.next().is_none().then_some(name)
        };
        read().ok_or_else(|| NotAName::of(text))
    }
}

impl fmt::Display for IdentityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:015}-{}", self.sealed_ms, self.digest)
    }
}

impl FromStr for IdentityName {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let read = || {
            let (when, digest) = text.split_once('-')?;
            let digest = Digest::read(&hex::decode(digest).ok()?)?;
            let name = Self {
                sealed_ms: number(when, TIME)?,
                digest,
            };
            // Digits of one case alone.
            (name.to_string() == text).then_some(name)
        };
        read().ok_or_else(|| NotAName::of(text))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delta(number) => write!(f, "delta/{number:020}"),
            Self::Head(full) => write!(f, "full/{full}/head"),
            Self::Part(full, part) => write!(f, "full/{full}/{part:06}"),
            Self::Tombstone(full, since) => write!(f, "gone/{full}-{since:015}"),
            Self::Verified(full, when) => write!(f, "verified/{full}-{when:015}"),
            Self::Kept(full, until) => write!(f, "kept/{full}-{until:015}"),
            Self::Identity(identity) => write!(f, "identity/{identity}"),
        }
    }
}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let read = || {
            let (folder, rest) = text.split_once('/')?;
            match folder {
                "delta" => number(rest, WIDE).map(Self::Delta),
                "identity" => rest.parse().ok().map(Self::Identity),
                "full" => {
                    let (full, part) = rest.split_once('/')?;
                    let full = full.parse().ok()?;
                    match part {
                        "head" => Some(Self::Head(full)),
                        part => Some(Self::Part(full, u32::try_from(number(part, PART)?).ok()?)),
                    }
                }
                "gone" | "verified" | "kept" => {
                    let (full, when) = rest.rsplit_once('-')?;
                    let (full, when) = (full.parse().ok()?, number(when, TIME)?);
                    Some(match folder {
                        "gone" => Self::Tombstone(full, when),
                        "kept" => Self::Kept(full, when),
                        _ => Self::Verified(full, when),
                    })
                }
                _ => None,
            }
        };
        read().ok_or_else(|| NotAName::of(text))
    }
}

impl NotAName {
    fn of(text: &str) -> Self {
        Self(text.chars().take(128).collect())
    }
}

fn number(text: &str, digits: usize) -> Option<u64> {
    let plain = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> impl Strategy<Value = Name> {
        let time = 0..1_000_000_000_000_000_u64;
        let full = (any::<u64>(), any::<u64>(), time.clone());
        let full = full.prop_map(|(revision, next, taken_ms)| FullName {
            revision,
            next,
            taken_ms,
        });
        (full, any::<u64>(), 0..1_000_000_u32, time, 0..7).prop_map(
            |(full, number, part, since, kind)| match kind {
                0 => Name::Delta(number),
                1 => Name::Head(full),
                2 => Name::Part(full, part),
                3 => Name::Tombstone(full, since),
                4 => Name::Kept(full, since),
                5 => Name::Identity(IdentityName {
                    sealed_ms: since,
                    digest: Digest::of(&number.to_le_bytes()),
                }),
                _ => Name::Verified(full, since),
            },
        )
    }

    proptest! {
        #[test]
        fn a_name_is_read_as_it_was_written(name in names()) {
            prop_assert_eq!(name.to_string().parse(), Ok(name));
        }

        #[test]
        fn names_sort_as_numbers_do(one in any::<u64>(), other in any::<u64>()) {
            let text = |number| Name::Delta(number).to_string();
            prop_assert_eq!(text(one).cmp(&text(other)), one.cmp(&other));
        }

        #[test]
        fn nothing_else_is_a_name(text in ".{0,80}") {
            if let Ok(name) = text.parse::<Name>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }

    #[test]
    fn identities_sort_as_they_were_sealed_and_have_one_spelling() {
        let name = |sealed_ms, of: &[u8]| IdentityName {
            sealed_ms,
            digest: Digest::of(of),
        };
        let (before, after) = (name(9, b"b").to_string(), name(10, b"a").to_string());
        assert!(before < after && name(9, b"b") < name(10, b"a"));
        assert!(before.to_uppercase().parse::<IdentityName>().is_err());
        assert!(before[1..].parse::<IdentityName>().is_err());
        assert!(before[..79].parse::<IdentityName>().is_err());
    }

    #[test]
    fn a_tenant_that_leads_out_of_its_folder_is_none() {
        for tenant in ["", "..", "a/b", "a b", &"x".repeat(65)] {
            assert_eq!(Scope::new(tenant, 1), None, "{tenant:?}");
        }
        assert_eq!(Scope::new("a", 0), None);
        let scope = Scope::new("5a1c-7", 0xcdf8).unwrap();
        assert_eq!(scope.folder(), "5a1c-7/000000000000cdf8/");
    }
}
