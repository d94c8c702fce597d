//! How far Secrets and other objects of tenants were looked at, and written again as encryption at rest wants them.
//!
//! Invariant: nothing here has to survive, because who knows nothing begins anew; and what is remembered counts for those
//! kube-apiservers alone with which it was seen.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenant_cp::encrypted_kinds::EncryptedKinds;

/// Under what a tenant's objects are written again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Terms {
    /// The generation of the key that all its kube-apiservers write by.
    pub generation: u32,
    /// What they write encrypted.
    pub kinds: EncryptedKinds,
    /// What its kube-apiservers are made from: after another one anything may have been written.
    pub servers: String,
}

/// How far each tenant is, by UID.
#[derive(Default)]
pub struct Rewrites(Mutex<BTreeMap<String, (Terms, Vec<u8>)>>);

impl Rewrites {
    /// The key in etcd before which nothing has to be written again; none where that is not known.
    #[must_use]
    pub fn reached(&self, uid: &str, terms: &Terms) -> Option<Vec<u8>> {
        let all = self.all();
        let (known, reached) = all.get(uid)?;
        (known == terms).then(|| reached.clone())
    }

    /// Nothing has to be written again before this key.
    pub fn record(&self, uid: &str, terms: &Terms, key: Vec<u8>) {
        self.all().insert(uid.to_owned(), (terms.clone(), key));
    }

    /// Forgets one.
    pub fn forget(&self, uid: &str) {
        self.all().remove(uid);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, (Terms, Vec<u8>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reached_counts_for_the_same_key_and_servers_alone() {
        let terms = |generation, servers: &str| Terms {
            generation,
            kinds: EncryptedKinds::default(),
            servers: servers.to_owned(),
        };
        let rewrites = Rewrites::default();
        assert_eq!(rewrites.reached("a", &terms(2, "x")), None);
        rewrites.record("a", &terms(2, "x"), b"k".to_vec());
        assert_eq!(rewrites.reached("a", &terms(2, "x")), Some(b"k".to_vec()));
        assert_eq!(rewrites.reached("a", &terms(3, "x")), None);
        assert_eq!(rewrites.reached("a", &terms(2, "y")), None);
        assert_eq!(rewrites.reached("b", &terms(2, "x")), None);
        rewrites.forget("a");
        assert_eq!(rewrites.reached("a", &terms(2, "x")), None);
    }
}
