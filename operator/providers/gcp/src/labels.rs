//! Labels as Google spells them: letters in lower case, digits, `-` and `_` (documentation, "Organize resources using
//! labels"), so neither the dot nor the slash of our keys.
//!
//! Invariant: of each of our labels there is one spelling; what Google does not take as a value is left out, never cut.

use providers::identity::{
    INSTALLATION, Labels, MACHINE, MACHINE_UID, NAMESPACE, Owner, POOL, TENANT,
};

/// Our labels, and how they are spelled.
const SPELLED: [(&str, &str); 6] = [
    (INSTALLATION, "covey_installation"),
    (TENANT, "covey_tenant_cluster_uid"),
    (NAMESPACE, "covey_tenant_namespace"),
    (POOL, "covey_node_pool"),
    (MACHINE, "covey_machine"),
    (MACHINE_UID, "covey_machine_uid"),
];

/// How the label with a Machine's UID is spelled.
pub const SPELLED_MACHINE_UID: &str = SPELLED[5].1;

/// Labels of a Machine's, as they are sent.
#[must_use]
pub fn spelled(owner: &Owner) -> Labels {
    let labels = owner.labels();
    let spelled = SPELLED.iter().filter_map(|(key, name)| {
        let value = labels.get(*key).filter(|value| is_value(value))?;
        Some(((*name).to_owned(), value.clone()))
    });
    spelled.collect()
}

/// Labels that came, with ours as we know them.
#[must_use]
pub fn read(came: &Labels) -> Labels {
    let known = |name: &String| {
        let ours = SPELLED.iter().find(|(_, spelled)| spelled == name);
        ours.map_or_else(|| name.clone(), |(key, _)| (*key).to_owned())
    };
    let each = came
        .iter()
        .map(|(name, value)| (known(name), value.clone()));
    each.collect()
}

/// A filter that chooses what is a Machine's.
#[must_use]
pub fn of_machine(owner: &Owner) -> String {
    format!(
        "({}) ({})",
        is(INSTALLATION, &owner.installation),
        is(MACHINE_UID, &owner.uid)
    )
}

/// A filter that chooses everything of an installation.
#[must_use]
pub fn of_installation(installation: &str) -> String {
    format!("({})", is(INSTALLATION, installation))
}

/// A filter that chooses everything of an installation in a tenant namespace; none: in all of them.
#[must_use]
pub fn of_namespace(installation: &str, namespace: Option<&str>) -> String {
    let all = of_installation(installation);
    match namespace {
        Some(namespace) => format!("{all} ({})", is(NAMESPACE, namespace)),
        None => all,
    }
}

/// Why nothing can be made for it; none where it can: UIDs that are no labels would not be found again.
#[must_use]
pub fn unusable(owner: &Owner) -> Option<String> {
    let uids = [&owner.installation, &owner.uid];
    let odd = uids.into_iter().find(|uid| !is_value(uid));
    let odd = odd.map(|uid| format!("{uid:?} is no value of a label"));
    owner.unusable().or(odd)
}

fn is(key: &str, value: &str) -> String {
    let ours = SPELLED.iter().find(|(known, _)| *known == key);
    let name = ours.map_or(key, |(_, name)| *name);
    format!("labels.{name} = \"{value}\"")
}

fn is_value(text: &str) -> bool {
    let is = |c: char| "-_".contains(c) || c.is_ascii_digit() || c.is_ascii_lowercase();
    text.chars().all(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner {
            installation: "i-1".to_owned(),
            pool: "Workers.1".to_owned(),
            machine: "workers-x2k9p".to_owned(),
            uid: "5d2f1c1e-8a52-4b2e-9f0b-0d9f6c1b7a11".to_owned(),
            ..Owner::default()
        }
    }

    #[test]
    fn labels_that_are_sent_are_known_again() {
        let sent = spelled(&owner());
        assert!(!sent.contains_key("covey_node_pool"), "{sent:?}");
        for (key, value) in &sent {
            let is = |c: char| c == '_' || c.is_ascii_lowercase();
            assert!(key.chars().all(is) && is_value(value), "{key}: {value}");
        }
        assert!(owner().has(&read(&sent)));
        assert!(!owner().has(&sent));
    }

    #[test]
    fn filter_names_both_uids() {
        assert_eq!(
            of_machine(&owner()),
            "(labels.covey_installation = \"i-1\") (labels.covey_machine_uid = \
             \"5d2f1c1e-8a52-4b2e-9f0b-0d9f6c1b7a11\")"
        );
        let odd = Owner {
            uid: "A".to_owned(),
            ..owner()
        };
        assert!(unusable(&odd).is_some());
        assert_eq!(unusable(&owner()), None);
    }
}
