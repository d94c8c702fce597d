//! What is turned has generations, numbered from one; while it is turned there are several of it.
//!
//! An authority's first generation is called as the authority, every later one `<authority>-g<number>`:
//! in the [`Store`], as a Secret and as a file. What is trusted is a bundle of all of them, and what signs
//! is one, so that a rotation adds to bundles first and signs with the new one afterwards (docs/adr/0009).
//! Invariant: another generation only adds: no name, file or certificate of those before it changes.

use std::collections::BTreeMap;

use pki::{Signer, Store};

use crate::names;

/// The generations of one thing. One is active: it signs or writes; all are trusted or read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Generations<T> {
    all: BTreeMap<u32, T>,
    held: Option<u32>,
}

impl<T> Default for Generations<T> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            held: None,
        }
    }
}

impl<T> Generations<T> {
    /// The first one alone.
    #[must_use]
    pub fn first(value: T) -> Self {
        Self::from_iter([(1, value)])
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds one, counted from one.
    pub fn insert(&mut self, generation: u32, value: T) {
        self.all.insert(generation, value);
    }

    /// Takes one away.
    pub fn remove(&mut self, generation: u32) -> Option<T> {
        self.all.remove(&generation)
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, generation: u32) -> Option<&T> {
        self.all.get(&generation)
    }

    /// Their numbers, the oldest first.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.all.keys().copied()
    }

    /// Has a generation stay active while a newer one is brought to everybody who has to trust or read it.
    /// Without it the newest is active.
    pub fn hold(&mut self, generation: u32) {
        self.held = Some(generation);
    }

    /// The one that signs or writes.
    #[must_use]
    pub fn active(&self) -> Option<(u32, &T)> {
        self.active_first().next()
    }

    /// All of them: the active one, then the others, the newest first.
    pub fn active_first(&self) -> impl Iterator<Item = (u32, &T)> {
        let is_held = |number: &u32| Some(*number) == self.held;
        let held = self.all.iter().filter(move |(number, _)| is_held(number));
        let others = self.all.iter().rev();
        let others = others.filter(move |(number, _)| !is_held(number));
        held.chain(others).map(|(number, value)| (*number, value))
    }
}

impl<T: Clone + PartialEq> Generations<T> {
    /// Those of a tenant cluster whose etcd has the objects of another one from now on. Those of the other one keep their
    /// numbers, by which objects name them, and are only read; the active one goes on, with a number above all. Done
    /// again it is the same.
    #[must_use]
    pub fn after(&self, other: &Self) -> Self {
        let Some((own, active)) = self.active() else {
            return other.clone();
        };
        let newest = other.all.keys().max().copied().unwrap_or_default();
        let has = |(number, value): (&u32, &T)| self.all.get(number) == Some(value);
        if own > newest && other.all.iter().all(has) {
            return self.clone();
        }
        let mut all = other.all.clone();
        all.insert(newest.max(own).saturating_add(1), active.clone());
        Self { all, held: None }
    }
}

impl<T> FromIterator<(u32, T)> for Generations<T> {
    fn from_iter<I: IntoIterator<Item = (u32, T)>>(generations: I) -> Self {
        Self {
            all: generations.into_iter().collect(),
            held: None,
        }
    }
}

/// What a generation of an authority, or the Secret of a generation of keys, is called. Example: `client-ca`, `client-ca-g2`.
#[must_use]
pub fn authority_name(authority: &str, generation: u32) -> String {
    match generation {
        1 => authority.to_owned(),
        later => format!("{authority}-g{later}"),
    }
}

/// The inverse: which generation of an authority a name is. None for anything else.
#[must_use]
pub fn of_authority(name: &str, authority: &str) -> Option<u32> {
    match name.strip_prefix(authority)? {
        "" => Some(1),
        rest => number(rest, "-g").filter(|generation| *generation > 1),
    }
}

/// What the Secret of a generation of service account keys is called. Example: `service-account`, `service-account-g2`.
#[must_use]
pub fn service_account_secret(generation: u32) -> String {
    authority_name(names::SERVICE_ACCOUNT, generation)
}

/// The inverse: which generation of service account keys a Secret is of. None for anything else.
#[must_use]
pub fn of_service_account(secret: &str) -> Option<u32> {
    of_authority(secret, names::SERVICE_ACCOUNT)
}

/// What the Secret of a generation of encryption keys is called that was made by a rotation. Those of before have one
/// together, [`names::ENCRYPTION`]. Example: `encryption-g2`.
#[must_use]
pub fn encryption_secret(generation: u32) -> String {
    format!("{}-g{generation}", names::ENCRYPTION)
}

/// The inverse: which generation of encryption keys a Secret alone is of. None for anything else, and for the one that has
/// those of before.
#[must_use]
pub fn of_encryption(secret: &str) -> Option<u32> {
    of_authority(secret, names::ENCRYPTION).filter(|_| secret != names::ENCRYPTION)
}

/// Whether a Secret has keys of encryption at rest.
#[must_use]
pub fn is_encryption(secret: &str) -> bool {
    secret == names::ENCRYPTION || of_encryption(secret).is_some()
}

/// Whether a name is a generation of one of [`names::AUTHORITIES`].
#[must_use]
pub fn is_authority(name: &str) -> bool {
    let mut all = names::AUTHORITIES.iter();
    all.any(|authority| of_authority(name, authority).is_some())
}

/// Whether an authority has, or is, another generation than the first.
#[must_use]
pub fn is_turned(store: &Store, authority: &str) -> bool {
    let mut names = store.keys();
    names.any(|name| of_authority(name, authority).is_some_and(|generation| generation > 1))
}

/// The generation of an authority that signed a certificate of the store, as it is called; none where that is the first, or
/// somebody else.
#[must_use]
pub fn later_signer(store: &Store, certificate: &str, authority: &str) -> Option<String> {
    match pki::as_issued(certificate, store)?.signer {
        Signer::By(signer) => Some(signer).filter(|signer| {
            of_authority(signer, authority).is_some_and(|generation| generation > 1)
        }),
        Signer::Own => None,
    }
}

/// What is trusted of an authority, PEM: every generation, the oldest first. None while there is none.
#[must_use]
pub fn bundle(store: &Store, authority: &str) -> Option<String> {
    let generations = store
        .iter()
        .filter_map(|(name, pair)| Some((of_authority(name, authority)?, &pair.certificate)));
    let sorted: BTreeMap<u32, &String> = generations.collect();
    joined(sorted.into_values())
}

/// Who may sign clients of the kube-apiserver, PEM: machinery, and people. None while either lacks.
#[must_use]
pub fn clients(store: &Store) -> Option<String> {
    let both = [
        bundle(store, names::CLIENT_CA)?,
        bundle(store, names::USERS_CA)?,
    ];
    joined(both.iter())
}

fn joined<'a>(certificates: impl Iterator<Item = &'a String>) -> Option<String> {
    certificates.cloned().reduce(|mut all, next| {
        if !all.ends_with('\n') {
            all.push('\n');
        }
        all + &next
    })
}

/// The number behind a prefix, written in the one way that we write it.
pub(crate) fn number(text: &str, prefix: &str) -> Option<u32> {
    let digits = text.strip_prefix(prefix)?;
    let number: u32 = digits.parse().ok()?;
    (number > 0 && number.to_string() == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use pki::{Key, KeyPair};

    use super::*;

    fn store(names: &[&str]) -> Store {
        let pair = |name: &str| KeyPair {
            certificate: format!("<{name}>"),
            key: Key::new("K".to_owned()),
        };
        let pairs = names.iter().map(|name| ((*name).to_owned(), pair(name)));
        pairs.collect()
    }

    #[test]
    fn objects_of_another_tenant_cluster_are_read_by_its_numbers_and_written_anew_by_the_own_key() {
        let own = Generations::first("own");
        let other = Generations::from_iter([(1, "first"), (2, "second")]);
        let both = own.after(&other);
        let all: Vec<_> = both.active_first().collect();
        assert_eq!(all, [(3, &"own"), (2, &"second"), (1, &"first")]);
        assert_eq!(both.after(&other), both);
        // The one of before is held while a newer one of it is brought to everybody: all of it is read.
        let mut held = other.clone();
        held.hold(1);
        assert_eq!(own.after(&held), both);
        assert_eq!(own.after(&Generations::default()), own);
        assert_eq!(Generations::default().after(&other), other);
    }

    #[test]
    fn newest_is_active_unless_one_is_held_that_is_there() {
        let mut generations = Generations::first("a");
        generations.insert(2, "b");
        generations.insert(10, "c");
        let order = |generations: &Generations<&str>| -> Vec<u32> {
            let all = generations.active_first();
            all.map(|(number, _)| number).collect()
        };
        assert_eq!(order(&generations), [10, 2, 1]);
        generations.hold(2);
        assert_eq!(order(&generations), [2, 10, 1]);
        assert_eq!(generations.active(), Some((2, &"b")));
        generations.hold(3);
        assert_eq!(order(&generations), [10, 2, 1]);
        assert_eq!(Generations::<u8>::default().active(), None);
    }

    #[test]
    fn names_of_generations_are_read_as_they_are_written_and_no_others() {
        for authority in names::AUTHORITIES {
            for generation in [1, 2, 10, u32::MAX] {
                let name = authority_name(authority, generation);
                for other in names::AUTHORITIES {
                    let wanted = (other == authority).then_some(generation);
                    assert_eq!(of_authority(&name, other), wanted, "{name} {other}");
                }
            }
        }
        for name in [
            "",
            "ca-g1",
            "ca-g0",
            "ca-g02",
            "ca-g+2",
            "ca-g",
            "ca-2",
            "ca-g2x",
            "xca",
            "ca-g4294967296",
        ] {
            assert_eq!(of_authority(name, "ca"), None, "{name}");
        }
    }

    #[test]
    fn secrets_of_encryption_keys_are_known_by_their_names() {
        assert_eq!(encryption_secret(2), "encryption-g2");
        assert_eq!(of_encryption("encryption-g2"), Some(2));
        for other in [
            "encryption",
            "encryption-g1",
            "encryption-g",
            "service-account-g2",
        ] {
            assert_eq!(of_encryption(other), None, "{other}");
        }
        assert!(is_encryption("encryption") && is_encryption("encryption-g7"));
        assert!(!is_encryption("encryption-keys") && !is_encryption("ca"));
    }

    #[test]
    fn bundle_is_every_generation_and_another_one_is_added_at_the_end() {
        let names = ["ca-g10", "ca", "client-ca-g2", "ca-g2", "users-ca"];
        let store = store(&names);
        let of = |authority: &str| bundle(&store, authority);
        assert_eq!(of("ca").unwrap(), "<ca>\n<ca-g2>\n<ca-g10>");
        assert_eq!(of("client-ca").unwrap(), "<client-ca-g2>");
        assert_eq!(of("etcd-ca"), None);
        assert_eq!(clients(&store).unwrap(), "<client-ca-g2>\n<users-ca>");
    }

    #[test]
    fn clients_of_one_authority_alone_are_not_a_bundle() {
        assert_eq!(clients(&store(&["client-ca", "ca"])), None);
        assert_eq!(clients(&store(&["users-ca"])), None);
    }
}
