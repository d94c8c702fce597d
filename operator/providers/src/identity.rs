//! Names and labels of what is made for a Machine.
//!
//! Invariant: whose a thing is, its labels say: the installation's and the Machine's UID both. A name is only there so
//! that there cannot be two. Labels of clouds have at most 63 characters, and none but letters, digits, `-`, `_` and
//! `.` within (Hetzner's API documentation, "Labels"; a cloud that allows less spells them by itself); what is no such value is left out, never cut, so that nothing is taken for
//! something else.

use std::collections::BTreeMap;

/// Prefix of our labels.
const PREFIX: &str = "covey.dev/";
/// UID of the installation.
pub const INSTALLATION: &str = "covey.dev/installation";
/// UID of the tenant cluster.
pub const TENANT: &str = "covey.dev/tenant-cluster-uid";
/// The tenant namespace.
pub const NAMESPACE: &str = "covey.dev/tenant-namespace";
/// The node pool.
pub const POOL: &str = "covey.dev/node-pool";
/// Name of the Machine.
pub const MACHINE: &str = "covey.dev/machine";
/// UID of the Machine.
pub const MACHINE_UID: &str = "covey.dev/machine-uid";

/// Most characters of the value of a label.
const MOST: usize = 63;
/// Digits of the Machine's UID in a name.
const DIGITS: usize = 8;
/// Characters of the Machine's name in a name: with the digits and what says which address it is, 63 at most, which a
/// host name has room for.
const NAME: usize = 50;

/// Labels of one thing.
pub type Labels = BTreeMap<String, String>;

/// Whose a machine is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Owner {
    /// UID of the installation.
    pub installation: String,
    /// UID of the tenant cluster.
    pub tenant: String,
    /// The tenant namespace.
    pub namespace: String,
    /// The node pool.
    pub pool: String,
    /// Name of the Machine.
    pub machine: String,
    /// UID of the Machine.
    pub uid: String,
}

/// Which of a server's public addresses.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// What the API calls it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }
}

impl Owner {
    /// The server's name: the Machine's, and part of its UID, because machines of two tenant clusters may have one
    /// name.
    #[must_use]
    pub fn name(&self) -> String {
        let digits = self.uid.chars().filter(char::is_ascii_alphanumeric);
        let digits: String = digits.take(DIGITS).collect();
        let name: String = self.machine.chars().take(NAME).collect();
        format!("{}-{digits}", name.trim_end_matches('-'))
    }

    /// The name of one of its addresses.
    #[must_use]
    pub fn address_name(&self, family: Family) -> String {
        let suffix = match family {
            Family::V4 => "-v4",
            Family::V6 => "-v6",
        };
        self.name() + suffix
    }

    /// What everything of it is labelled with, in the call that makes it.
    #[must_use]
    pub fn labels(&self) -> Labels {
        let all = [
            (INSTALLATION, &self.installation),
            (TENANT, &self.tenant),
            (NAMESPACE, &self.namespace),
            (POOL, &self.pool),
            (MACHINE, &self.machine),
            (MACHINE_UID, &self.uid),
        ];
        let valid = all.into_iter().filter(|(_, value)| is_value(value));
        valid
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect()
    }

    /// Whether something with these labels is the Machine's.
    #[must_use]
    pub fn has(&self, labels: &Labels) -> bool {
        let is = |key: &str, value: &str| labels.get(key).is_some_and(|v| v == value);
        is(INSTALLATION, &self.installation) && is(MACHINE_UID, &self.uid)
    }

    /// Chooses what is the Machine's.
    #[must_use]
    pub fn selector(&self) -> String {
        format!(
            "{INSTALLATION}={},{MACHINE_UID}={}",
            self.installation, self.uid
        )
    }

    /// Why nothing can be made for it; none where it can: UIDs that are no labels would not be found again.
    #[must_use]
    pub fn unusable(&self) -> Option<String> {
        let bad = [&self.installation, &self.uid];
        let bad = bad.into_iter().find(|uid| !is_value(uid))?;
        Some(format!("{bad:?} is no value of a label"))
    }
}

/// Whether a cloud takes it as the value of a label. An empty one is, and says nothing of whose a thing is.
fn is_value(text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= MOST
        && is_end(text.chars().next())
        && is_end(text.chars().last())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Whether it is spelled as a UUID.
#[must_use]
pub fn is_uuid(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// Chooses everything of an installation.
#[must_use]
pub fn of_installation(installation: &str) -> String {
    format!("{INSTALLATION}={installation}")
}

/// Chooses everything of an installation in a tenant namespace.
#[must_use]
pub fn of_namespace(installation: &str, namespace: &str) -> String {
    format!("{INSTALLATION}={installation},{NAMESPACE}={namespace}")
}

/// Our own labels of those that a thing has.
#[must_use]
pub fn ours(labels: &Labels) -> Labels {
    let ours = labels.iter().filter(|(key, _)| key.starts_with(PREFIX));
    ours.map(|(k, v)| (k.clone(), v.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner {
            installation: "11111111-2222-4333-8444-555555555555".to_owned(),
            tenant: "t".to_owned(),
            namespace: "covey-demo-0a1b2c3d4e".to_owned(),
            pool: "workers".to_owned(),
            machine: "workers-x2k9p".to_owned(),
            uid: "5d2f1c1e-8a52-4b2e-9f0b-0d9f6c1b7a11".to_owned(),
        }
    }

    #[test]
    fn name_has_the_machines_and_part_of_its_uid_and_fits_a_host_name() {
        assert_eq!(owner().name(), "workers-x2k9p-5d2f1c1e");
        assert_eq!(
            owner().address_name(Family::V6),
            "workers-x2k9p-5d2f1c1e-v6"
        );
        let long = Owner {
            machine: "a".repeat(52),
            ..owner()
        };
        assert!(long.address_name(Family::V4).len() <= 63);
    }

    #[test]
    fn something_is_a_machines_by_both_uids_and_never_by_name() {
        let labels = owner().labels();
        assert!(owner().has(&labels));
        for key in [INSTALLATION, MACHINE_UID] {
            let mut other = labels.clone();
            other.insert(key.to_owned(), "other".to_owned());
            assert!(!owner().has(&other), "{key}");
            other.remove(key);
            assert!(!owner().has(&other), "{key}");
        }
        let named = Labels::from([(MACHINE.to_owned(), owner().machine)]);
        assert!(!owner().has(&named));
    }

    #[test]
    fn what_is_no_value_is_left_out_and_uids_that_are_none_are_told() {
        let odd = Owner {
            pool: "-odd-".to_owned(),
            ..owner()
        };
        assert!(!odd.labels().contains_key(POOL));
        assert_eq!(owner().unusable(), None);
        for uid in ["", "a,b", "a=b", &"a".repeat(64)] {
            let odd = Owner {
                uid: uid.to_owned(),
                ..owner()
            };
            assert!(odd.unusable().is_some(), "{uid}");
        }
    }
}
