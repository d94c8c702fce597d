//! What etcd of the simulated tenant cluster has under which key, and what writes it again.
//!
//! Invariant: one object is written at a time.

use std::collections::{BTreeMap, BTreeSet};

use tenant_cp::certificates::encryption_generation;
use tenant_cp::encrypted_kinds::{EncryptedKinds, OTHERS};
use tenant_cp::generations::is_encryption;
use tenant_cp::kms::Provider;

use super::World;
use crate::controllers::tenant_cluster::observed::{Observed, Rewritten};

/// Objects that are encrypted with nothing.
pub(super) fn plain() -> BTreeMap<(&'static str, &'static str), Option<u32>> {
    let all = [
        ("configmaps", "default/a"),
        ("configmaps", "default/b"),
        ("pods", "shop/c"),
    ];
    all.map(|object| (object, None)).into()
}

/// The number by which an object that a KMS wrote stands in the place of one of a key.
pub(in super::super) fn by_kms(provider: &Provider) -> u32 {
    let of_name = match provider.name.as_str() {
        "vault" => 1000,
        _ => 2000,
    };
    of_name + provider.generation
}

/// What kube-apiservers write by: a key, or a KMS.
pub(in super::super) fn written_by(generation: u32, kinds: &EncryptedKinds) -> u32 {
    kinds.kms.writes.as_ref().map_or(generation, by_kms)
}

impl World {
    /// Generations of encryption keys that the backup has.
    pub(super) fn saved_keys(&self) -> Option<BTreeSet<u32>> {
        let all = || {
            let secrets = self.objects.iter();
            let own = secrets.filter(|(key, _)| key.kind == "Secret" && is_encryption(&key.name));
            let fields = own.filter_map(|(_, secret)| secret["data"].as_object());
            let names = fields.flat_map(|fields| fields.keys());
            names
                .filter_map(|name| encryption_generation(name))
                .collect()
        };
        let backup = self.cluster.spec.backup.as_ref();
        backup.map(|_| self.saves.clone().unwrap_or_else(all))
    }

    /// Writes one again that is not as it is to be; false when it was cut off.
    pub(super) fn rewrite(
        &mut self,
        (generation, kinds): (u32, &EncryptedKinds),
        observed: &mut Observed,
        budget: &mut usize,
    ) -> bool {
        let generation = written_by(generation, kinds);
        let secrets = self.at_rest.iter();
        let secrets = secrets.filter(|(_, key)| **key != generation);
        let secret = secrets.map(|(place, _)| ("Secret", *place)).next();
        let is_other = |kind: &str, key: Option<u32>| match kinds.written.contains(kind) {
            true => key != Some(generation),
            false => kinds.read.contains(kind) && key.is_some(),
        };
        let mut others = self.others_at_rest.iter();
        let other = others.find(|((kind, _), key)| is_other(kind, **key));
        let other = other.map(|(object, _)| *object);
        let called = other.and_then(|(kind, place)| {
            let known = OTHERS.iter().find(|known| known.name == kind);
            Some((known?.kind, place))
        });
        let (answer, is_cut) = match secret.or(called) {
            None => (Rewritten::All, false),
            Some((kind, place)) if self.refuses => {
                let first = format!("{kind} {place}");
                (Rewritten::Refused { first }, false)
            }
            Some(_) if *budget == 0 => (Rewritten::Some, true),
            Some((_, place)) => {
                match (secret, other) {
                    (None, Some(object)) => {
                        let key = kinds.written.contains(object.0).then_some(generation);
                        self.others_at_rest.insert(object, key);
                    }
                    _ => drop(self.at_rest.insert(place, generation)),
                }
                *budget -= 1;
                self.writes += 1;
                (Rewritten::Some, false)
            }
        };
        if !is_cut {
            observed.rewritten = Some((kinds.clone(), Ok(answer)));
        }
        !is_cut
    }
}
