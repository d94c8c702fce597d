//! The release of the management cluster's KubeVirt, watched, and whom another one wakes.
//!
//! What is made of a version is `provider_kubevirt::release`.
//! Invariant: kept in every replica; nothing of an object is kept but its version, and nothing but that
//! is concluded: a KubeVirt that is not there, or cannot be read, is not an old one.

use std::collections::BTreeMap;
use std::convert::identity;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{Stream, stream};
use kube::{Client, CustomResource, ResourceExt};
use provider_kubevirt::release::Release;
use serde::{Deserialize, Serialize};
use tokio::sync::watch::Sender;

use crate::watches::kept::{self, Keeper};

/// A KubeVirt object, as far as it is read.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "KubeVirt",
    root = "Installation",
    plural = "kubevirts",
    namespaced,
    schema = "disabled",
    status = "InstallationStatus"
)]
pub struct InstallationSpec {}

/// What KubeVirt's operator observed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallationStatus {
    /// The release whose parts run: `v1.9.0`. Of an upgrade that is under way the one before.
    #[serde(default)]
    pub observed_kube_virt_version: String,
}

/// What is watched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Watched;

/// Versions of all KubeVirt objects by namespace and name.
type Versions = BTreeMap<(String, String), String>;

#[derive(Debug, Default)]
struct Cache {
    known: Versions,
    /// What a list that is not over told so far.
    listing: Option<Versions>,
}

/// What the watch told, and what follows.
#[derive(Debug, Default)]
pub struct KubeVirtRelease {
    cache: Mutex<Cache>,
    release: Sender<Release>,
}

impl KubeVirtRelease {
    /// What is known.
    #[must_use]
    pub fn release(&self) -> Release {
        self.release.borrow().clone()
    }

    fn publish(&self) {
        let release = {
            let cache = self.lock();
            Release::of(cache.known.values().map(String::as_str))
        };
        self.release.send_if_modified(|known| {
            let news = *known != release;
            if news {
                match release.problem() {
                    Some(problem) => tracing::warn!("{problem}"),
                    None => tracing::info!(?release, "another release of KubeVirt runs"),
                }
                *known = release;
            }
            news
        });
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper for KubeVirtRelease {
    type Kind = Watched;
    type Object = Installation;

    fn begin(&self, _: Watched) {
        self.lock().listing = Some(Versions::new());
    }

    fn end(&self, _: Watched) {
        {
            let mut cache = self.lock();
            if let Some(listed) = cache.listing.take() {
                cache.known = listed;
            }
        }
        self.publish();
    }

    fn apply(&self, seen: &Installation) {
        let (name, version) = read(seen);
        {
            let mut cache = self.lock();
            if let Some(listing) = &mut cache.listing {
                listing.insert(name, version);
                return;
            }
            cache.known.insert(name, version);
        }
        self.publish();
    }

    fn delete(&self, seen: &Installation) {
        self.lock().known.remove(&read(seen).0);
        self.publish();
    }
}

fn read(seen: &Installation) -> ((String, String), String) {
    let name = (seen.namespace().unwrap_or_default(), seen.name_any());
    let status = seen.status.as_ref();
    let version = status.map(|status| status.observed_kube_virt_version.clone());
    (name, version.unwrap_or_default())
}

/// Keeps the release up to date. Ends never.
pub async fn run(release: Arc<KubeVirtRelease>, client: Client) {
    // A management cluster without KubeVirt says nothing.
    kept::until_served::<Installation>(&client, "KubeVirts", || {}).await;
    kept::run::<_, Installation>(&release, &client, Watched, identity).await;
}

/// Told each time that another release runs than before.
pub fn changes(release: &KubeVirtRelease) -> impl Stream<Item = ()> + Send + use<> {
    let changes = release.release.subscribe();
    stream::unfold(changes, |mut changes| async move {
        // Fails once nobody keeps what is known any more, and then nobody needs waking.
        changes.changed().await.ok()?;
        Some(((), changes))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn installation(name: &str, version: &str) -> Installation {
        let object = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
            "metadata": { "name": name, "namespace": "kubevirt" },
            "spec": { "configuration": {} },
            "status": { "phase": "Deployed", "observedKubeVirtVersion": version },
        });
        serde_json::from_value(object).unwrap()
    }

    fn outdated(version: &str) -> Release {
        Release::Outdated {
            version: version.to_owned(),
        }
    }

    #[test]
    fn release_follows_what_the_watch_tells() {
        let kept = KubeVirtRelease::default();
        kept.begin(Watched);
        kept.apply(&installation("kubevirt", "v1.6.0"));
        // A list that is not over is no knowledge yet.
        assert_eq!(kept.release(), Release::Unknown);
        kept.end(Watched);
        assert_eq!(kept.release(), outdated("v1.6.0"));
        let mut told = kept.release.subscribe();
        kept.apply(&installation("kubevirt", "v1.6.0"));
        assert!(!told.has_changed().unwrap());
        kept.apply(&installation("kubevirt", "v1.9.0"));
        assert!(told.has_changed().unwrap());
        assert_eq!(*told.borrow_and_update(), Release::Fixed);
        kept.apply(&installation("other", "v1.8.0"));
        assert_eq!(kept.release(), outdated("v1.8.0"));
        kept.delete(&installation("other", "v1.8.0"));
        assert_eq!(kept.release(), Release::Fixed);
        kept.begin(Watched);
        kept.end(Watched);
        assert_eq!(kept.release(), Release::Unknown);
    }

    #[test]
    fn one_that_says_nothing_yet_is_not_an_old_one() {
        let kept = KubeVirtRelease::default();
        let object = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
            "metadata": { "name": "kubevirt", "namespace": "kubevirt" }, "spec": {},
        });
        kept.begin(Watched);
        kept.apply(&serde_json::from_value(object).unwrap());
        kept.end(Watched);
        assert_eq!(kept.release(), Release::Unknown);
    }
}
