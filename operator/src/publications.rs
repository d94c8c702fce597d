//! What of Machines this process published last in `MachineAddresses`, until its watch shows that.
//!
//! Invariant: what the watch shows counts as soon as it is no older than the write. resourceVersions of one kind
//! can be compared as numbers (KEP-5504); where they are none, the watch counts.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::MachineAddresses;
use kube::ResourceExt;

/// By the UIDs of Machines: what was published, and the resourceVersion that the answer had.
#[derive(Debug)]
pub struct Publications<T>(Mutex<HashMap<String, (u64, Option<T>)>>);

impl<T> Default for Publications<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Publications<T> {
    /// What is known of a Machine was published; `answer` is what the API made of it.
    pub fn record(&self, uid: &str, answer: &MachineAddresses, published: Option<&T>) {
        if let Some(version) = version(answer) {
            let published = (version, published.cloned());
            self.known().insert(uid.to_owned(), published);
        }
    }

    /// What is published of the Machine: as the watch shows it (`of` finds it there), or as it was published after
    /// that.
    #[must_use]
    pub fn latest(
        &self,
        uid: &str,
        seen: Option<&MachineAddresses>,
        of: impl FnOnce(&MachineAddresses) -> Option<T>,
    ) -> Option<T> {
        let mut known = self.known();
        let seen_version = seen.and_then(version);
        match known.get(uid) {
            Some((version, addresses)) if seen_version.is_some_and(|seen| seen < *version) => {
                return addresses.clone();
            }
            Some(_) => drop(known.remove(uid)),
            None => {}
        }
        of(seen?)
    }

    /// Forgets a Machine that is gone.
    pub fn forget(&self, uid: &str) {
        self.known().remove(uid);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, (u64, Option<T>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn version(all: &MachineAddresses) -> Option<u64> {
    all.resource_version()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use api::machine_addresses::{AddressOwner, NAME, PublishedAddresses};

    use super::*;

    fn all(version: &str, address: Option<&str>) -> MachineAddresses {
        let mut all = MachineAddresses::new(NAME, Default::default());
        all.metadata.resource_version = Some(version.to_owned());
        let owner = AddressOwner {
            machine: "a".to_owned(),
            primary: true,
            ..AddressOwner::default()
        };
        let entries = address.map(|address| (address.to_owned(), owner));
        all.spec.addresses = entries.into_iter().collect();
        all
    }

    fn addresses(address: &str) -> PublishedAddresses {
        PublishedAddresses {
            addresses: vec![address.parse().unwrap()],
            ..PublishedAddresses::default()
        }
    }

    #[test]
    fn what_was_published_counts_until_the_watch_is_as_far() {
        let publications = Publications::default();
        let latest =
            |seen: &MachineAddresses| publications.latest("uid", Some(seen), |all| all.of("a"));
        assert_eq!(latest(&all("9", None)), None);
        let now = addresses("10.0.0.1");
        publications.record("uid", &all("10", Some("10.0.0.1")), Some(&now));
        assert_eq!(latest(&all("9", None)), Some(now), "the watch lags");
        // Somebody took it out since.
        assert_eq!(latest(&all("11", None)), None);
        assert_eq!(latest(&all("9", None)), None, "and it stays forgotten");
    }

    #[test]
    fn the_watch_counts_where_nothing_can_be_compared() {
        let publications = Publications::default();
        let now = addresses("10.0.0.1");
        publications.record("uid", &all("10", Some("10.0.0.1")), Some(&now));
        let of = |all: &MachineAddresses| all.of("a");
        assert_eq!(publications.latest("uid", None, of), None, "all went");
        publications.record("uid", &all("opaque", None), Some(&now));
        let seen = all("9", Some("10.0.0.2"));
        let latest = publications.latest("uid", Some(&seen), of);
        assert_eq!(latest, Some(addresses("10.0.0.2")));
    }
}
