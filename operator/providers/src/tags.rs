//! Labels as clouds take them whose names of tags have no slash: Azure (documentation, "Use tags to organize your Azure
//! resources"), and AWS where a machine may read its own. Pure.
//!
//! Invariant: of each of our labels there is one spelling; names of tags are compared without case, as Azure does.

use crate::identity::{INSTALLATION, Labels, MACHINE, MACHINE_UID, NAMESPACE, Owner, POOL, TENANT};
use jiff::Timestamp;

/// Our labels, and how they are spelled.
const SPELLED: [(&str, &str); 6] = [
    (INSTALLATION, "covey-installation"),
    (TENANT, "covey-tenant-cluster-uid"),
    (NAMESPACE, "covey-tenant-namespace"),
    (POOL, "covey-node-pool"),
    (MACHINE, "covey-machine"),
    (MACHINE_UID, "covey-machine-uid"),
];

/// How the label with a Machine's UID is spelled.
pub const SPELLED_MACHINE_UID: &str = SPELLED[5].1;
/// When it was made, in RFC 3339: interfaces and addresses do not say it by themselves.
pub const MADE: &str = "covey-made-at";

/// How one of our labels is spelled; none: it is none of them.
#[must_use]
pub fn spelling(label: &str) -> Option<&'static str> {
    let found = SPELLED.iter().find(|(key, _)| *key == label);
    found.map(|(_, name)| *name)
}

/// Tags of a Machine's, as they are sent.
#[must_use]
pub fn spelled(owner: &Owner, made: Timestamp) -> Labels {
    let labels = owner.labels();
    let spelled = SPELLED.iter().filter_map(|(key, name)| {
        let value = labels.get(*key)?;
        Some(((*name).to_owned(), value.clone()))
    });
    let seconds = Timestamp::from_second(made.as_second()).unwrap_or(made);
    spelled
        .chain([(MADE.to_owned(), seconds.to_string())])
        .collect()
}

/// Tags that came, with ours as we know them.
#[must_use]
pub fn read(came: &Labels) -> Labels {
    let known = |name: &String| {
        let ours = SPELLED
            .iter()
            .find(|(_, spelled)| name.eq_ignore_ascii_case(spelled));
        ours.map_or_else(|| name.clone(), |(key, _)| (*key).to_owned())
    };
    let each = came.iter();
    each.map(|(name, value)| (known(name), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_that_are_sent_are_known_again_in_whatever_case() {
        let owner = Owner {
            installation: "i-1".to_owned(),
            machine: "workers-x2k9p".to_owned(),
            uid: "5d2f1c1e-8a52-4b2e-9f0b-0d9f6c1b7a11".to_owned(),
            ..Owner::default()
        };
        let made = Timestamp::from_millisecond(1_790_000_000_123).unwrap();
        let sent = spelled(&owner, made);
        assert_eq!(sent[MADE], "2026-09-21T14:13:20Z");
        assert!(sent.keys().all(|name| !name.contains('/')), "{sent:?}");
        assert!(owner.has(&read(&sent)) && !owner.has(&sent));
        let shouted = sent.iter().map(|(k, v)| (k.to_uppercase(), v.clone()));
        assert!(owner.has(&read(&shouted.collect())));
    }
}
