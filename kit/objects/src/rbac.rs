//! RBAC rules that code declares beside what it does; the chart's Roles are generated from them.
//!
//! Invariant: rendering does not depend on the order of declaration, so the generated file only
//! changes when a right does.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// One right: these verbs on these resources of these API groups, optionally only for objects of
/// these names. `""` is the core group. Everything is static: rights are not computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// API groups, `""` for the core group.
    pub groups: &'static [&'static str],
    /// Plural resource names, subresources as `pods/status`.
    pub resources: &'static [&'static str],
    /// API verbs: get, list, watch, create, update, patch, delete, deletecollection, bind, …
    pub verbs: &'static [&'static str],
    /// Object names; empty means all. `create` and `list` cannot be limited by name.
    pub names: &'static [&'static str],
}

impl Rule {
    /// A right on all objects of these resources.
    pub const fn new(
        groups: &'static [&'static str],
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
    ) -> Self {
        Self {
            groups,
            resources,
            verbs,
            names: &[],
        }
    }

    /// The same right, limited to objects of these names.
    pub const fn named(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }
}

/// Renders the rules as a Role's `rules`: sorted, without duplicates, and with the rules that
/// differ only in their verbs merged into one.
pub fn render<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Value {
    type Key = (Vec<&'static str>, Vec<&'static str>, Vec<&'static str>);
    let mut merged: BTreeMap<Key, Vec<&'static str>> = BTreeMap::new();
    for rule in rules {
        let key = (
            sorted(rule.groups),
            sorted(rule.resources),
            sorted(rule.names),
        );
        merged.entry(key).or_default().extend(rule.verbs);
    }
    merged
        .into_iter()
        .map(|((groups, resources, names), verbs)| {
            let verbs = sorted(&verbs);
            let mut rule = json!({ "apiGroups": groups, "resources": resources, "verbs": verbs });
            if !names.is_empty() {
                rule["resourceNames"] = json!(names);
            }
            rule
        })
        .collect()
}

fn sorted(values: &[&'static str]) -> Vec<&'static str> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Rule = Rule::new(&[""], &["secrets"], &["get", "watch"]);
    const WRITE: Rule = Rule::new(&[""], &["secrets"], &["patch", "get"]);
    const ONE: Rule = Rule::new(&[""], &["secrets"], &["delete"]).named(&["webhook"]);
    const APPS: Rule = Rule::new(&["apps"], &["statefulsets", "deployments"], &["list"]);

    #[test]
    fn rules_on_the_same_objects_are_merged_and_sorted() {
        assert_eq!(
            render([&APPS, &WRITE, &READ, &WRITE]),
            json!([
                { "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "patch", "watch"] },
                {
                    "apiGroups": ["apps"],
                    "resources": ["deployments", "statefulsets"],
                    "verbs": ["list"],
                },
            ])
        );
    }

    #[test]
    fn a_rule_with_names_never_widens_to_all_names() {
        let rendered = render([&READ, &ONE]);
        let rules = rendered.as_array().expect("a list of rules");
        assert_eq!(rules.len(), 2);
        assert_eq!(rules[1]["resourceNames"], json!(["webhook"]));
        assert_eq!(rules[1]["verbs"], json!(["delete"]));
        assert_eq!(rules[0]["verbs"], json!(["get", "watch"]));
    }

    #[test]
    fn order_of_declaration_does_not_matter() {
        assert_eq!(render([&READ, &ONE, &APPS]), render([&APPS, &ONE, &READ]));
    }
}
