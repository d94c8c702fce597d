//! Kinds of objects that can be encrypted at rest, and what kube-apiservers do with each.
//!
//! A kind comes in three steps and goes in two: first every kube-apiserver reads what is encrypted of it, then it is
//! written encrypted, then what stood in etcd before is written anew; and back, before the last step nobody reads it any
//! more. Secrets are not among it: they are always written encrypted.
//! Invariant: what a kind was is in the file that kube-apiservers read, and beside it, in the same Secret, what no file of
//! theirs has a place for.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::kms::{Kms, Provider};

/// A kind whose objects can be encrypted. All of them are in namespaces.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Encryptable {
    /// As `EncryptionConfiguration` calls it. Example: `leases.coordination.k8s.io`.
    pub name: &'static str,
    /// Its API group; empty for the core. Example: `apps`.
    pub group: &'static str,
    /// A version that every kube-apiserver serves which is supported. Example: `v1`.
    pub version: &'static str,
    /// Example: `Lease`.
    pub kind: &'static str,
    /// As it stands in paths. Example: `leases`.
    pub plural: &'static str,
}

impl Encryptable {
    const fn of(
        (name, group): (&'static str, &'static str),
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            name,
            group,
            version: "v1",
            kind,
            plural,
        }
    }

    /// What every key in etcd of such an object begins with.
    #[must_use]
    pub fn first_key(&self) -> Vec<u8> {
        format!("/registry/{}/", self.plural).into_bytes()
    }

    /// The first key behind all of them.
    #[must_use]
    pub fn end_key(&self) -> Vec<u8> {
        format!("/registry/{}0", self.plural).into_bytes()
    }
}

/// Secrets.
pub const SECRETS: Encryptable = Encryptable::of(("secrets", ""), "Secret", "secrets");

/// All but Secrets, in the order of their keys in etcd.
pub const OTHERS: [Encryptable; 12] = [
    Encryptable::of(("configmaps", ""), "ConfigMap", "configmaps"),
    Encryptable::of(
        ("controllerrevisions.apps", "apps"),
        "ControllerRevision",
        "controllerrevisions",
    ),
    Encryptable::of(("cronjobs.batch", "batch"), "CronJob", "cronjobs"),
    Encryptable::of(("daemonsets.apps", "apps"), "DaemonSet", "daemonsets"),
    Encryptable::of(("deployments.apps", "apps"), "Deployment", "deployments"),
    Encryptable::of(("jobs.batch", "batch"), "Job", "jobs"),
    Encryptable::of(
        ("leases.coordination.k8s.io", "coordination.k8s.io"),
        "Lease",
        "leases",
    ),
    Encryptable::of(
        ("persistentvolumeclaims", ""),
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
    ),
    Encryptable::of(("pods", ""), "Pod", "pods"),
    Encryptable::of(("replicasets.apps", "apps"), "ReplicaSet", "replicasets"),
    Encryptable::of(("serviceaccounts", ""), "ServiceAccount", "serviceaccounts"),
    Encryptable::of(("statefulsets.apps", "apps"), "StatefulSet", "statefulsets"),
];

/// Names of [`OTHERS`].
#[must_use]
pub fn others() -> BTreeSet<String> {
    OTHERS.iter().map(|kind| kind.name.to_owned()).collect()
}

/// The kind whose object a key in etcd is of.
#[must_use]
pub fn of_key(key: &[u8]) -> Option<Encryptable> {
    let mut all = OTHERS.into_iter().chain([SECRETS]);
    all.find(|kind| key.starts_with(&kind.first_key()))
}

/// What kube-apiservers do with kinds beside Secrets, by their names in [`OTHERS`].
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EncryptedKinds {
    /// Those that are written encrypted, and read either way.
    pub written: BTreeSet<String>,
    /// Those that are written as they are, and read either way.
    pub read: BTreeSet<String>,
    /// Those of [`Self::written`] of which some object may stand in etcd as it is: it was not seen that none does.
    pub partly: BTreeSet<String>,
    /// Those that were ever written encrypted: what a Restore brings back may be.
    pub ever: BTreeSet<String>,
    /// What encrypts, of these kinds and of Secrets, beside the keys of Covey's.
    pub kms: Kms,
}

/// What stands behind the name of a kind of [`EncryptedKinds::partly`] in the record.
const PARTLY: &str = " partly";

impl EncryptedKinds {
    /// Whether nothing but Secrets is encrypted, or read that is.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.written.is_empty() && self.read.is_empty()
    }

    /// The inverse of `encryption_configuration` and [`Self::record`]. What nobody of ours wrote is left out.
    #[must_use]
    pub fn read_back(file: &str, record: &str) -> Self {
        let known = others();
        let mut kinds = Self::default();
        let mut of_rule: Option<Vec<&str>> = None;
        let (mut is_of_secrets, mut is_kms_first) = (false, false);
        let mut providers = Vec::new();
        for line in file.lines() {
            if let Some(names) = line.strip_prefix("- resources: [") {
                let names: Vec<_> = names.trim_end_matches(']').split(", ").collect();
                is_of_secrets = names.contains(&SECRETS.name);
                of_rule = Some(names);
            } else if let Some(provider) = line.strip_prefix("  - ") {
                // The first one writes.
                is_kms_first |= is_of_secrets && of_rule.is_some() && provider == "kms:";
                let names = of_rule.take().into_iter().flatten().map(str::to_owned);
                let names = names.filter(|name| known.contains(name));
                match ["secretbox:", "kms:"].contains(&provider) {
                    true => kinds.written.extend(names),
                    false => kinds.read.extend(names),
                }
            } else if is_of_secrets && let Some(name) = line.strip_prefix("      name: ") {
                providers.extend(Provider::read(name));
            }
        }
        kinds.kms = Kms::of_file(providers, is_kms_first);
        for line in record.lines() {
            kinds.kms.read_line(line);
            let name = line.strip_suffix(PARTLY).unwrap_or(line);
            if known.contains(name) {
                kinds.ever.insert(name.to_owned());
                if line != name && kinds.written.contains(name) {
                    kinds.partly.insert(name.to_owned());
                }
            }
        }
        kinds.ever.extend(kinds.written.iter().cloned());
        kinds
    }

    /// What stands beside the file; nothing where nothing but Secrets ever was encrypted, and by no KMS.
    #[must_use]
    pub fn record(&self) -> Option<String> {
        let mut record = String::new();
        for name in &self.ever {
            let partly = if self.partly.contains(name) {
                PARTLY
            } else {
                ""
            };
            let _ = writeln!(record, "{name}{partly}");
        }
        record.push_str(&self.kms.record());
        Some(record).filter(|record| !record.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn kinds_are_in_the_order_of_their_keys_and_known_by_them() {
        let keys: Vec<_> = OTHERS.iter().map(Encryptable::first_key).collect();
        assert!(keys.is_sorted());
        for kind in OTHERS.into_iter().chain([SECRETS]) {
            let key = [kind.first_key(), b"a/b".to_vec()].concat();
            assert!(key < kind.end_key());
            assert_eq!(of_key(&key), Some(kind));
        }
        assert_eq!(of_key(b"/registry/nodes/a"), None);
    }

    #[test]
    fn what_nobody_of_ours_wrote_is_no_kind() {
        let file = "- resources: [secrets, events, *.*]\n  providers:\n  - secretbox:\n- resources: [\n  - identity: {}\n";
        let kinds = EncryptedKinds::read_back(file, "events\npods partly\n\u{0}\n");
        assert!(kinds.is_none() && kinds.partly.is_empty());
        assert_eq!(kinds.ever, set(&["pods"]));
    }
}
