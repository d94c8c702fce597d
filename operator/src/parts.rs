//! The kinds that a control plane consists of in its tenant namespace: one table for who lists and who watches
//! them. Rights ([`crate::rbac`]) are written out next to why; a test holds them against this table.
//!
//! Invariant: what is applied in a tenant namespace is of one of these kinds, or a binding.

use kit_objects::kinds::{self, Kind};

/// How changes of a kind are noticed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Watched {
    /// By one watch over the whole management cluster.
    Everywhere,
    /// By one watch in each tenant namespace: there is no right beyond those.
    ByNamespace,
}

/// One of these kinds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PartKind {
    /// Which.
    pub kind: Kind,
    /// How its changes are noticed.
    pub watched: Watched,
}

const fn everywhere(kind: Kind) -> PartKind {
    PartKind {
        kind,
        watched: Watched::Everywhere,
    }
}

/// What is in a tenant namespace, bindings aside, which are read by name.
pub const PARTS: [PartKind; 8] = [
    everywhere(kinds::PERSISTENT_VOLUME_CLAIM),
    PartKind {
        kind: kinds::SECRET,
        watched: Watched::ByNamespace,
    },
    everywhere(kinds::SERVICE_ACCOUNT),
    everywhere(kinds::SERVICE),
    everywhere(kinds::DEPLOYMENT),
    everywhere(kinds::STATEFUL_SET),
    everywhere(kinds::NETWORK_POLICY),
    everywhere(kinds::POD_DISRUPTION_BUDGET),
];

/// Those that are watched over the whole management cluster, bindings included.
pub fn watched_everywhere() -> impl Iterator<Item = Kind> {
    let parts = PARTS.into_iter();
    let parts = parts.filter(|part| part.watched == Watched::Everywhere);
    parts.map(|part| part.kind).chain([kinds::ROLE_BINDING])
}

#[cfg(test)]
mod tests {
    use kit_objects::object::Key;
    use kit_objects::rbac::Rule;
    use tenant_cp::addons::registry;

    use super::*;
    use crate::rbac;

    fn allows(rules: &[Rule], kind: Kind, verb: &str, name: Option<&str>) -> bool {
        rules.iter().any(|rule| {
            rule.groups.contains(&kind.group)
                && rule.resources.contains(&kind.plural)
                && rule.verbs.contains(&verb)
                && (rule.names.is_empty() || name.is_some_and(|name| rule.names.contains(&name)))
        })
    }

    #[test]
    fn there_is_a_right_to_list_apply_and_watch_each_kind_and_no_wider_one() {
        let (cluster, namespace) = (rbac::cluster(), rbac::tenant_namespace());
        for part in PARTS {
            let kind = part.kind;
            for verb in ["create", "list", "patch"] {
                assert!(allows(&namespace, kind, verb, None), "{verb} {kind:?}");
            }
            let is_everywhere = part.watched == Watched::Everywhere;
            for verb in ["list", "watch"] {
                let is_allowed = allows(&cluster, kind, verb, None);
                assert_eq!(is_allowed, is_everywhere, "{verb} {kind:?}");
            }
            assert!(is_everywhere || allows(&namespace, kind, "watch", None));
        }
        for verb in ["create", "get", "list", "patch", "watch"] {
            assert!(allows(&cluster, kinds::ROLE_BINDING, verb, None), "{verb}");
        }
    }

    #[test]
    fn what_an_addon_leaves_behind_is_of_a_kind_that_is_read_and_may_be_deleted() {
        let (namespace, user) = (rbac::tenant_namespace(), rbac::user_namespace());
        let left = registry::ALL
            .iter()
            .map(|addon| addon.parts("ns", "team", "demo"));
        // By name (`observe`).
        let by_name = [kinds::ROLE_BINDING, kinds::LEASE];
        for Key {
            kind,
            namespace: place,
            name,
        } in left.flatten()
        {
            let mut read = PARTS.iter().map(|part| part.kind).chain(by_name);
            let found = read.find(|read| read.kind == kind);
            let found = found.unwrap_or_else(|| panic!("nobody reads {kind} {name}"));
            let rules = if place == "ns" { &namespace } else { &user };
            assert!(
                allows(rules, found, "delete", Some(&name)),
                "nobody may delete {kind} {name}"
            );
        }
    }
}
