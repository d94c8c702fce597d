//! Host keys that are pinned: which key a host may show.
//!
//! Invariant: a key that is not in the list is refused, whoever shows it; nothing is learnt on first use.

use std::fmt;

use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PublicKey};

/// Keys of one host at most: an old and a new one of each kind.
pub const MOST_KEYS: usize = 8;

/// The kinds of keys, best first. RSA is left out: its keys come with three signature algorithms, one of them broken.
const KINDS: [Algorithm; 4] = [
    Algorithm::Ed25519,
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP256,
    },
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP384,
    },
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP521,
    },
];

/// The keys that one host may show; several, so that a host can change its key without being lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostKeys(Vec<PublicKey>);

/// Why a list of host keys cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// Nothing to compare with.
    #[error(
        "no host key is given: write the line of /etc/ssh/ssh_host_ed25519_key.pub of the machine into hostKeys"
    )]
    None,
    /// More than a host has.
    #[error(
        "{0} host keys are given: at most {MOST_KEYS} are looked at, so remove those that are not used any more"
    )]
    TooMany(usize),
    /// Not a line of a public key file.
    #[error(
        "host key number {0} cannot be read: it has to be a line such as \"ssh-ed25519 AAAA…\", as \
         /etc/ssh/ssh_host_ed25519_key.pub of the machine has it, without the name of the host in front"
    )]
    Unreadable(usize),
    /// RSA, DSA or a key that lives on a security token.
    #[error("host key number {0} is of the kind {1}: use the machine's ed25519 or ecdsa key")]
    Kind(usize, String),
}

impl HostKeys {
    /// Reads lines as in `ssh_host_ed25519_key.pub`: kind, key, and a comment or none.
    ///
    /// # Errors
    /// [`PinError`]; it counts keys from one.
    pub fn parse<T: AsRef<str>>(lines: &[T]) -> Result<Self, PinError> {
        if lines.is_empty() {
            return Err(PinError::None);
        }
        if lines.len() > MOST_KEYS {
            return Err(PinError::TooMany(lines.len()));
        }
        let keys = lines.iter().enumerate().map(|(index, line)| {
            let number = index + 1;
            let key = PublicKey::from_openssh(line.as_ref().trim());
            let key = key.map_err(|_| PinError::Unreadable(number))?;
            if !KINDS.contains(&key.algorithm()) {
                return Err(PinError::Kind(number, key.algorithm().to_string()));
            }
            Ok(key)
        });
        Ok(Self(keys.collect::<Result<_, _>>()?))
    }

    /// Whether a host that shows this key is the one that is meant. Comments do not count.
    #[must_use]
    pub fn accepts(&self, shown: &PublicKey) -> bool {
        self.0.iter().any(|key| key.key_data() == shown.key_data())
    }

    /// In which order kinds of keys are asked for: those that are pinned first, or a host with several keys would
    /// show one that nobody has pinned. The others follow, so that its fingerprint can be said.
    #[must_use]
    pub fn preference(&self) -> Vec<Algorithm> {
        let is_pinned = |kind: &Algorithm| self.0.iter().any(|key| key.algorithm() == *kind);
        let (mut first, others): (Vec<_>, Vec<_>) = KINDS.into_iter().partition(is_pinned);
        first.extend(others);
        first
    }
}

/// How people compare keys: "ssh-ed25519 SHA256:…", as `ssh-keygen -lf` prints it.
#[must_use]
pub fn fingerprint(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}

impl fmt::Display for HostKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.0.iter().map(fingerprint).collect();
        f.write_str(&all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use russh::keys::PrivateKey;

    fn key(kind: Algorithm) -> PublicKey {
        let key = PrivateKey::random(&mut russh::keys::key::safe_rng(), kind);
        key.unwrap().public_key().clone()
    }

    fn line(key: &PublicKey) -> String {
        key.to_openssh().unwrap()
    }

    #[test]
    fn any_of_several_keys_is_accepted_and_no_other() {
        let (old, new, other) = (
            key(KINDS[0].clone()),
            key(KINDS[1].clone()),
            key(KINDS[0].clone()),
        );
        let pins = HostKeys::parse(&[line(&old), format!("{} root@host", line(&new))]).unwrap();
        assert!(pins.accepts(&old) && pins.accepts(&new));
        assert!(!pins.accepts(&other));
    }

    #[test]
    fn the_kind_of_a_pinned_key_is_asked_for_first() {
        let pins = HostKeys::parse(&[line(&key(KINDS[2].clone()))]).unwrap();
        let asked = pins.preference();
        assert_eq!(asked[0], KINDS[2]);
        assert_eq!(asked.len(), KINDS.len());
    }

    #[test]
    fn what_is_not_a_key_is_refused_by_its_number() {
        let good = line(&key(KINDS[0].clone()));
        assert_eq!(HostKeys::parse::<&str>(&[]), Err(PinError::None));
        let bad = HostKeys::parse(&[good.clone(), format!("host {good}")]);
        assert_eq!(bad, Err(PinError::Unreadable(2)));
        let many = vec![good; MOST_KEYS + 1];
        assert_eq!(
            HostKeys::parse(&many),
            Err(PinError::TooMany(MOST_KEYS + 1))
        );
        let rsa = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC7";
        assert!(HostKeys::parse(&[rsa]).is_err());
    }
}
