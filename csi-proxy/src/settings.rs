//! What can be configured: above all the storage that this tenant cluster is offered, which the
//! operator hands on.

use std::time::Duration;

pub use api::storage::{Class, Hotplug, MAX_EACH, Offer};

/// Why the list of offered storage cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not YAML of this form.
    #[error("the list of offered storage cannot be read")]
    Read(#[source] Box<serde_saphyr::Error>),
    /// It contradicts itself.
    #[error("the list of offered storage {0}")]
    Contradiction(String),
}

/// Reads the list's text.
///
/// # Errors
/// When it is not of this form, names a class twice, or has two defaults.
pub fn read_offer(text: &str) -> Result<Offer, Error> {
    let offer: Offer =
        serde_saphyr::from_str(text).map_err(|source| Error::Read(Box::new(source)))?;
    offer.check().map_err(Error::Contradiction)?;
    Ok(offer)
}

/// Everything that answers depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The tenant namespace.
    pub namespace: String,
    /// UID of the TenantCluster.
    pub cluster_uid: String,
    /// Storage that is offered.
    pub offer: Offer,
    /// How long a call waits for the management cluster before it answers that it is not done yet.
    /// Default: 25 s.
    pub patience: Duration,
    /// Most volumes on one machine. Default: 64.
    pub most_volumes: usize,
}

impl Settings {
    /// Most volumes of the tenant cluster. Default: 1000.
    #[must_use]
    pub fn max_volumes(&self) -> u32 {
        self.offer.max_volumes.unwrap_or(MAX_EACH)
    }

    /// Most snapshots of the tenant cluster. Default: 1000.
    #[must_use]
    pub fn max_snapshots(&self) -> u32 {
        self.offer.max_snapshots.unwrap_or(MAX_EACH)
    }
}

/// Default of [`Settings::patience`]: below the 30 s that the sidecars are told to wait.
pub const PATIENCE: Duration = Duration::from_secs(25);
/// Default of [`Settings::most_volumes`].
pub const MOST_VOLUMES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_is_refused_with_the_reason() {
        let good = read_offer("classes: [{name: fast, storageClass: ceph}]").unwrap();
        assert_eq!(good.class(Some("fast")).unwrap().storage_class, "ceph");
        for (text, why) in [
            (
                "classes: [{name: a, storageClass: x, size: 1}]",
                "cannot be read",
            ),
            ("classes: [{name: '', storageClass: x}]", "without name"),
        ] {
            let error = read_offer(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
