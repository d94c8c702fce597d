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
/// differ only in their verbs, or only in the names of objects, merged into one.
pub fn render<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Value {
    type Words = Vec<&'static str>;
    let mut by_objects: BTreeMap<(Words, Words, Words), Words> = BTreeMap::new();
    for rule in rules {
        let key = (
            sorted(rule.groups),
            sorted(rule.resources),
            sorted(rule.names),
        );
        by_objects.entry(key).or_default().extend(rule.verbs);
    }
    // A rule without names is about all objects, and is never one with a rule that has some.
    let mut by_verbs: BTreeMap<(Words, Words, bool, Words), Words> = BTreeMap::new();
    for ((groups, resources, names), verbs) in by_objects {
        let key = (groups, resources, !names.is_empty(), sorted(&verbs));
        by_verbs.entry(key).or_default().extend(names);
    }
    by_verbs
        .into_iter()
        .map(|((groups, resources, _, verbs), names)| {
            let mut rule = json!({ "apiGroups": groups, "resources": resources, "verbs": verbs });
            if !names.is_empty() {
                rule["resourceNames"] = json!(sorted(&names));
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
    fn rules_on_objects_by_name_are_merged_and_none_gets_the_verbs_of_another() {
        const SCALE: Rule = Rule::new(&[""], &["secrets"], &["delete"]).named(&["other"]);
        const READ_ONE: Rule = Rule::new(&[""], &["secrets"], &["get"]).named(&["third"]);
        let secrets = |names: &[&str], verb: &str| {
            json!({
                "apiGroups": [""], "resources": ["secrets"], "resourceNames": names,
                "verbs": [verb],
            })
        };
        assert_eq!(
            render([&READ_ONE, &SCALE, &ONE]),
            json!([
                secrets(&["other", "webhook"], "delete"),
                secrets(&["third"], "get"),
            ])
        );
    }

    #[test]
    fn order_of_declaration_does_not_matter() {
        assert_eq!(render([&READ, &ONE, &APPS]), render([&APPS, &ONE, &READ]));
    }
}
