//! Key material: everything secret that a tenant cluster has, in memory.
//!
//! Invariant: what is not there is absent, never empty.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine, engine::general_purpose::STANDARD};
use pki::{Key, Store};
use serde_json::Value;

use crate::encrypted_kinds::{EncryptedKinds, SECRETS};
use crate::generations::{Generations, number, of_authority, of_service_account};
use crate::kms::Kms;
use crate::names;

/// What the name of an encryption key is before the generation: in the file, and in etcd before every
/// value that was written with it (`k8s:enc:secretbox:v1:k1:`).
const ENCRYPTION_KEY: &str = "k";
/// What the files of service account keys are called before the generation.
const SERVICE_ACCOUNT_KEY: &str = "sa-k";
/// Longest encryption file that is read: a hundred keys and a hundred providers, each for every kind.
const MAX_BYTES: usize = 512 * 1024;

/// Everything secret that a tenant cluster has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Material {
    /// Certificates with keys.
    pub store: Store,
    /// Keys of service account tokens: the active one signs, all verify.
    pub service_account: Generations<ServiceAccountKeys>,
    /// Public keys of those that were dropped, PEM, which kube-apiservers of before still name: without the file one of
    /// them would not start again.
    pub service_account_dropped: Generations<String>,
    /// Keys of encryption at rest, in base64: the active one writes, all read.
    pub encryption: Generations<Key>,
    /// Those of them that a rotation made: each has a Secret of its own; the others have one together.
    pub encryption_apart: BTreeSet<u32>,
    /// What beside Secrets is encrypted with them.
    pub encrypted: EncryptedKinds,
    /// Cross-certificates of later generations of the cluster's authority, PEM, as both are called in the store: first the
    /// one that is certified, then who signed. Who believes the second alone believes by it what the first one signed.
    pub crossed: BTreeMap<String, BTreeMap<String, String>>,
    /// Which generation of an authority signs, where that is not the oldest: everybody believes that one, whatever is
    /// being brought to them.
    pub signing: BTreeMap<String, u32>,
}

impl Material {
    /// Takes away what the Secret of this name has: nobody is to believe it any more.
    pub fn forget(&mut self, secret: &str) {
        self.store.remove(secret);
        self.crossed.remove(secret);
        if let Some(generation) = of_service_account(secret) {
            self.service_account.remove(generation);
        }
    }

    /// Whether it has what the Secret of this name has.
    #[must_use]
    pub fn has(&self, secret: &str) -> bool {
        let keys = of_service_account(secret).and_then(|number| self.service_account.get(number));
        keys.is_some() || self.store.contains_key(secret)
    }

    /// The generation of an authority that signs, as it is called in the store; none where there is none.
    #[must_use]
    pub fn signer(&self, authority: &str) -> Option<&String> {
        let of = |name: &String| of_authority(name, authority);
        let told = self.signing.get(authority);
        let is_told = |name: &&String| told.is_some() && of(name).as_ref() == told;
        let named = self.store.keys().find(is_told);
        let all = || self.store.keys().filter(|name| of(name).is_some());
        named.or_else(|| all().min_by_key(|name| of(name)))
    }

    /// The oldest generation of an authority, as it is called in the store: everybody believes it who believes any.
    #[must_use]
    pub fn oldest(&self, authority: &str) -> Option<&String> {
        let numbered = self.store.keys();
        let numbered = numbered.filter_map(|name| Some((of_authority(name, authority)?, name)));
        numbered.min().map(|(_, name)| name)
    }

    /// What is shown beside a certificate of the generation of the cluster's authority that signs, so that those believe it
    /// who believe the oldest alone, PEM: nothing where that is the one that signs. None where there is no such certificate.
    #[must_use]
    pub fn shown_beside(&self) -> Option<&str> {
        let (signer, oldest) = (self.signer(names::CA)?, self.oldest(names::CA)?);
        match signer == oldest {
            true => Some(""),
            false => Some(self.crossed.get(signer)?.get(oldest)?),
        }
    }
}

/// Keys of service account tokens, one generation.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceAccountKeys {
    /// Public key, PEM.
    pub public: String,
    /// Private key, PEM.
    pub private: Key,
}

/// What the files of a generation of service account keys are called, without `.pub` and `.key`. Example: `sa-k1`.
#[must_use]
pub fn service_account_file(generation: u32) -> String {
    format!("{SERVICE_ACCOUNT_KEY}{generation}")
}

/// The generation of such a file.
#[must_use]
pub fn service_account_generation(file: &str) -> Option<u32> {
    number(file, SERVICE_ACCOUNT_KEY)
}

/// What a generation of encryption keys is called. Example: `k1`.
#[must_use]
pub fn encryption_name(generation: u32) -> String {
    format!("{ENCRYPTION_KEY}{generation}")
}

/// The generation of such a name.
#[must_use]
pub fn encryption_generation(name: &str) -> Option<u32> {
    number(name, ENCRYPTION_KEY)
}

/// A key of encryption at rest, as the file wants it.
#[must_use]
pub fn encryption_key(bytes: &[u8; 32]) -> Key {
    Key::new(STANDARD.encode(bytes))
}

/// The file `encryption.yaml` (apiserver.config.k8s.io/v1): Secrets, and the kinds that say so, are written with the KMS that
/// writes, or the active key where none does, and what was written with another one, or without encryption, can still be
/// read. None without a key.
#[must_use]
pub fn encryption_configuration(keys: &Generations<Key>, kinds: &EncryptedKinds) -> Option<Key> {
    keys.active()?;
    let keys: String = keys
        .active_first()
        .map(|(generation, key)| {
            let name = encryption_name(generation);
            format!("      - name: {name}\n        secret: {}\n", key.reveal())
        })
        .collect();
    let written = [SECRETS.name].into_iter();
    let written = written.chain(kinds.written.iter().map(String::as_str));
    if kinds.kms.all().next().is_some() {
        let mut file = HEAD.to_owned();
        for kind in written {
            file.push_str(&rule_by_kms(kind, true, &kinds.kms, &keys));
        }
        for kind in &kinds.read {
            file.push_str(&rule_by_kms(kind, false, &kinds.kms, &keys));
        }
        return Some(Key::new(file));
    }
    let written: Vec<_> = written.collect();
    let read: Vec<_> = kinds.read.iter().map(String::as_str).collect();
    let read = match read.is_empty() {
        true => String::new(),
        false => format!(
            "- resources: [{}]\n  providers:\n  - identity: {{}}\n  - secretbox:\n      keys:\n{keys}",
            read.join(", ")
        ),
    };
    Some(Key::new(format!(
        "{HEAD}- resources: [{resources}]
  providers:
  - secretbox:
      keys:
{keys}  - identity: {{}}
{read}",
        resources = written.join(", "),
    )))
}

const HEAD: &str = "\
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
";

/// The rule of one kind where there is a KMS. Whatever does not write comes after what does: it reads.
fn rule_by_kms(kind: &str, is_written: bool, kms: &Kms, keys: &str) -> String {
    let writes = kms.writes.as_ref().map(|writes| writes.entry(kind));
    let others = kms.all().skip(usize::from(kms.writes.is_some()));
    let others: String = others.map(|provider| provider.entry(kind)).collect();
    let writes = writes.unwrap_or_default();
    let identity = "  - identity: {}\n";
    let secretbox = format!("  - secretbox:\n      keys:\n{keys}");
    let head = format!("- resources: [{kind}]\n  providers:\n");
    match is_written {
        true => format!("{head}{writes}{secretbox}{others}{identity}"),
        false => format!("{head}{identity}{secretbox}{writes}{others}"),
    }
}

/// The keys of such a file; none of anything else.
#[must_use]
pub fn encryption_keys(file: &str) -> Generations<Key> {
    let Some(value) = Some(file)
        .filter(|file| file.len() <= MAX_BYTES)
        .and_then(|file| serde_saphyr::from_str::<Value>(file).ok())
    else {
        return Generations::default();
    };
    let providers = value.pointer("/resources/0/providers");
    let providers = providers.and_then(Value::as_array).into_iter().flatten();
    let mut all = providers.filter_map(|provider| provider.pointer("/secretbox/keys"));
    let keys = all.next().and_then(Value::as_array).into_iter().flatten();
    keys.filter_map(|key| {
        let generation = encryption_generation(key["name"].as_str()?)?;
        Some((generation, Key::new(key["secret"].as_str()?.to_owned())))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kms::Provider;

    #[test]
    fn active_key_stands_first_and_the_file_is_read_back() {
        let mut keys = Generations::first(encryption_key(&[1; 32]));
        let one = encryption_configuration(&keys, &EncryptedKinds::default()).unwrap();
        keys.insert(2, encryption_key(&[2; 32]));
        keys.insert(10, encryption_key(&[3; 32]));
        let file = encryption_configuration(&keys, &EncryptedKinds::default()).unwrap();
        let text = file.reveal();
        let at = |name: &str| text.find(&format!("name: {name}\n")).unwrap();
        assert!(at("k10") < at("k2") && at("k2") < at("k1"), "{text}");
        assert!(text.find("secretbox") < text.find("identity"), "{text}");
        assert_eq!(encryption_keys(text), keys);
        let first: Vec<_> = encryption_keys(one.reveal())
            .active_first()
            .map(|(generation, _)| generation)
            .collect();
        assert_eq!(first, [1]);
        // A key that not every server can read yet writes nothing.
        keys.hold(2);
        let file = encryption_configuration(&keys, &EncryptedKinds::default()).unwrap();
        let at = |name: &str| file.reveal().find(&format!("name: {name}\n")).unwrap();
        assert!(at("k2") < at("k10") && at("k10") < at("k1"));
        assert_eq!(
            encryption_configuration(&Generations::default(), &EncryptedKinds::default()),
            None
        );
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn kinds_are_read_back_from_the_file_and_the_record_beside_it() {
        let keys = Generations::first(encryption_key(&[1; 32]));
        let kinds = EncryptedKinds {
            written: set(&["configmaps", "leases.coordination.k8s.io"]),
            read: set(&["pods"]),
            partly: set(&["configmaps"]),
            ever: set(&["configmaps", "leases.coordination.k8s.io", "pods"]),
            kms: Kms::default(),
        };
        let with = |kms: Kms| EncryptedKinds {
            kms,
            ..kinds.clone()
        };
        let of = |text: &str| Provider::read(text).unwrap();
        let coming = with(Kms {
            coming: Some((of("vault-g1"), "2026-11-21T12:00:00Z".to_owned())),
            ..Kms::default()
        });
        let changed = with(Kms {
            writes: Some(of("vault-g2")),
            reads: [of("other-g1"), of("vault-g1")].into(),
            partly: true,
            ever: [of("other-g1"), of("vault-g1"), of("vault-g2")].into(),
            ..Kms::default()
        });
        let going = with(Kms {
            reads: [of("vault-g2")].into(),
            partly: true,
            ever: [of("vault-g2")].into(),
            returned: Some(of("other-g1")),
            ..Kms::default()
        });
        for kinds in [
            kinds.clone(),
            EncryptedKinds::default(),
            coming,
            changed,
            going,
        ] {
            let file = encryption_configuration(&keys, &kinds).unwrap();
            let record = kinds.record().unwrap_or_default();
            assert_eq!(EncryptedKinds::read_back(file.reveal(), &record), kinds);
            assert_eq!(encryption_keys(file.reveal()), keys);
        }
    }

    #[test]
    fn kms_that_writes_stands_first_for_what_is_encrypted_and_is_read_for_what_is_not() {
        let keys = Generations::first(encryption_key(&[1; 32]));
        let kinds = EncryptedKinds {
            written: set(&["configmaps"]),
            read: set(&["pods"]),
            kms: Kms {
                writes: Provider::read("vault-g2"),
                reads: Provider::read("vault-g1").into_iter().collect(),
                ..Kms::default()
            },
            ..EncryptedKinds::default()
        };
        let file = encryption_configuration(&keys, &kinds).unwrap();
        let file: Value = serde_saphyr::from_str(file.reveal()).unwrap();
        let rules = file["resources"].as_array().unwrap();
        let of = |rule: &Value| -> Vec<String> {
            let all = rule["providers"].as_array().unwrap().iter();
            let name = |provider: &Value| match provider["kms"]["name"].as_str() {
                Some(name) => name.to_owned(),
                None => provider.as_object().unwrap().keys().next().unwrap().clone(),
            };
            all.map(name).collect()
        };
        let names: Vec<_> = rules.iter().map(|rule| &rule["resources"][0]).collect();
        assert_eq!(names, ["secrets", "configmaps", "pods"]);
        assert_eq!(
            of(&rules[0]),
            ["vault-g2", "secretbox", "vault-g1", "identity"]
        );
        assert_eq!(
            of(&rules[1]),
            [
                "vault-g2/configmaps",
                "secretbox",
                "vault-g1/configmaps",
                "identity"
            ]
        );
        assert_eq!(
            of(&rules[2]),
            ["identity", "secretbox", "vault-g2/pods", "vault-g1/pods"]
        );
    }

    #[test]
    fn file_of_secrets_alone_is_as_it_always_was() {
        let keys = Generations::first(encryption_key(&[1; 32]));
        let file = encryption_configuration(&keys, &EncryptedKinds::default()).unwrap();
        let text = file.reveal();
        assert!(
            text.contains("\n- resources: [secrets]\n  providers:\n"),
            "{text}"
        );
        assert!(text.ends_with("  - identity: {}\n"), "{text}");
        assert_eq!(text.matches("- resources:").count(), 1);
        assert_eq!(EncryptedKinds::default().record(), None);
    }
}
