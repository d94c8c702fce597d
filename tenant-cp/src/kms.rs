//! KMS plugins that encrypt what etcd has of a tenant cluster: which provider kube-apiservers write with, and which they read.
//!
//! A provider is one name in the file of kube-apiservers, and etcd has that name before every value that was written with it
//! (`k8s:enc:kms:v2:<name>:`). A KMS that is turned keeps its plugin and gets another name, so that etcd itself says what was
//! written since. Names have to be unique in the whole file (`validateKMSConfigName` of kubernetes `apiserver/pkg/apis/
//! apiserver/validation`, 1.34), so each kind of objects has its own.
//! Invariant: what is not said of a provider in the file stands in the record beside it, in the same Secret.

use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write as _;

use crate::generations::number;

/// Secrets, as the file calls them.
const SECRETS: &str = "secrets";

/// Longest name of a KMS.
const MOST_CHARACTERS: usize = 32;
/// What a line of the record begins with that is of this module.
const MARK: &str = "kms ";
/// Where the sockets of plugins are, each in a folder of the name of its KMS.
pub const SOCKETS: &str = "/run/kms";
/// The socket of a plugin, in its folder.
pub const SOCKET: &str = "kms.sock";

/// Whether this can be the name of a KMS: up to 32 lower-case letters, digits and `-`, beginning with a letter and ending
/// with none of `-`.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_in_names = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= MOST_CHARACTERS
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(is_in_names)
}

/// A KMS, and how often it was turned. Written `vault-g1`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Provider {
    /// As the operator's configuration calls the KMS. Example: `vault`.
    pub name: String,
    /// From 1 on.
    pub generation: u32,
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-g{}", self.name, self.generation)
    }
}

impl Provider {
    /// The inverse of writing it; none for anything else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (name, generation) = text.rsplit_once("-g")?;
        Some(Self {
            name: Some(name).filter(|name| is_name(name))?.to_owned(),
            generation: number(generation, "")?,
        })
    }

    /// What it is called in the file for one kind of objects. Example: `vault-g1`, `vault-g1/configmaps`.
    #[must_use]
    pub fn of_kind(&self, kind: &str) -> String {
        match kind == SECRETS {
            true => self.to_string(),
            false => format!("{self}/{kind}"),
        }
    }

    /// What every value in etcd begins with that it wrote of a kind.
    #[must_use]
    pub fn prefix(&self, kind: &str) -> String {
        format!("k8s:enc:kms:v2:{}:", self.of_kind(kind))
    }

    /// Its entry among the providers of a kind (apiserver.config.k8s.io/v1).
    pub(crate) fn entry(&self, kind: &str) -> String {
        let (name, folder) = (self.of_kind(kind), &self.name);
        format!(
            "  - kms:\n      apiVersion: v2\n      name: {name}\n      endpoint: unix://{SOCKETS}/{folder}/{SOCKET}\n      \
             timeout: 3s\n"
        )
    }
}

/// What kube-apiservers do with KMS plugins.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Kms {
    /// The one that whatever is encrypted is written with; without one it is the key of Covey's.
    pub writes: Option<Provider>,
    /// Those beside it that objects in etcd may be written with.
    pub reads: BTreeSet<Provider>,
    /// The one that is brought to every kube-apiserver, and since when, RFC 3339, UTC: nothing was written with it.
    pub coming: Option<(Provider, String)>,
    /// Whether some object may be written otherwise than [`Self::writes`] says: it was not seen that none is.
    pub partly: bool,
    /// Those that ever wrote: what a Restore brings back may need them.
    pub ever: BTreeSet<Provider>,
    /// The one that was taken back, because kube-apiservers did not become ready with it.
    pub returned: Option<Provider>,
}

impl Kms {
    /// All that kube-apiservers are told of, the one that writes first.
    pub fn all(&self) -> impl Iterator<Item = &Provider> {
        let coming = self.coming.iter().map(|(provider, _)| provider);
        self.writes.iter().chain(&self.reads).chain(coming)
    }

    /// Names of the KMSs whose plugins have to run beside every kube-apiserver.
    #[must_use]
    pub fn names(&self) -> BTreeSet<String> {
        self.all().map(|provider| provider.name.clone()).collect()
    }

    /// Those that a Restore of a backup of it may need.
    #[must_use]
    pub fn needed(&self) -> BTreeSet<Provider> {
        let needed = self.ever.iter().chain(&self.reads).chain(&self.writes);
        needed.cloned().collect()
    }

    /// The providers of a rule of the file, as its lines say; what is not in it is in the record.
    pub(crate) fn of_file(providers: Vec<Provider>, is_first: bool) -> Self {
        let mut providers = providers.into_iter();
        Self {
            writes: if is_first { providers.next() } else { None },
            reads: providers.collect(),
            ..Self::default()
        }
    }

    /// Adds what a line of the record says.
    pub(crate) fn read_line(&mut self, line: &str) {
        let Some(line) = line.strip_prefix(MARK) else {
            return;
        };
        let mut words = line.split(' ');
        let word = words.next().unwrap_or_default();
        let provider = words.next().and_then(Provider::read);
        match (word, provider) {
            ("partly", None) => self.partly = true,
            ("ever", Some(provider)) => {
                self.ever.insert(provider);
            }
            ("returned", provider) => self.returned = provider,
            ("coming", Some(provider)) if self.reads.remove(&provider) => {
                let since = words.next().unwrap_or_default().to_owned();
                self.coming = Some((provider, since));
            }
            _ => {}
        }
    }

    /// What stands beside the file.
    pub(crate) fn record(&self) -> String {
        let mut record = String::new();
        for provider in &self.ever {
            let _ = writeln!(record, "{MARK}ever {provider}");
        }
        if let Some((provider, since)) = &self.coming {
            let _ = writeln!(record, "{MARK}coming {provider} {since}");
        }
        if let Some(provider) = &self.returned {
            let _ = writeln!(record, "{MARK}returned {provider}");
        }
        if self.partly {
            let _ = writeln!(record, "{MARK}partly");
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_is_read_as_it_is_written_and_nothing_else_is_one() {
        for (name, generation) in [("vault", 1), ("a", 50), ("a-g2", 3), ("x9-y", u32::MAX)] {
            let provider = Provider {
                name: name.to_owned(),
                generation,
            };
            assert_eq!(Provider::read(&provider.to_string()), Some(provider));
        }
        let long = format!("{}-g1", "a".repeat(33));
        for other in [
            "",
            "vault",
            "vault-g",
            "vault-g0",
            "vault-g01",
            "-g1",
            "Vault-g1",
            "a:b-g1",
            "9a-g1",
            "a--g1",
            &long,
            "vault-g1/pods",
        ] {
            assert_eq!(Provider::read(other), None, "{other}");
        }
    }

    #[test]
    fn each_kind_has_a_name_of_its_own_in_the_file_and_in_etcd() {
        let provider = Provider::read("vault-g2").unwrap();
        assert_eq!(provider.of_kind("secrets"), "vault-g2");
        assert_eq!(provider.prefix("pods"), "k8s:enc:kms:v2:vault-g2/pods:");
        let entry = provider.entry("pods");
        assert!(entry.contains("\n      name: vault-g2/pods\n"), "{entry}");
        let socket = "\n      endpoint: unix:///run/kms/vault/kms.sock\n";
        assert!(entry.contains(socket), "{entry}");
    }
}
