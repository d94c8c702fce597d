//! What a user may do in a namespace, so that a button which is off says why.
//!
//! Invariant: pure. What is not known is not taken for forbidden: the API decides again, whatever a page showed.

use k8s_openapi::api::authorization::v1::{ResourceRule, SubjectRulesReviewStatus};

/// What somebody wants to do with objects of Covey.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Act<'a> {
    /// The verb: `patch`.
    pub verb: &'a str,
    /// The kind, as the API calls it: `nodepools`.
    pub resource: &'a str,
    /// The object; none of one that is to be made.
    pub name: Option<&'a str>,
}

impl<'a> Act<'a> {
    /// To do `verb` with objects of a kind.
    #[must_use]
    pub fn new(verb: &'a str, resource: &'a str, name: Option<&'a str>) -> Self {
        Self {
            verb,
            resource,
            name,
        }
    }
}

/// What a user may do in one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    /// The API's answer; none where it gave none.
    rules: Option<SubjectRulesReviewStatus>,
}

impl Access {
    /// Nothing is known of it.
    #[must_use]
    pub fn unknown() -> Self {
        Self::default()
    }

    /// As the API says (SelfSubjectRulesReview).
    #[must_use]
    pub fn of(status: Option<SubjectRulesReviewStatus>) -> Self {
        Self { rules: status }
    }

    /// Why it may not be done; none where it may, or where that is not known.
    #[must_use]
    pub fn refuses(&self, act: Act<'_>, namespace: &str) -> Option<String> {
        let rules = self.rules.as_ref()?;
        let is_allowed = rules.resource_rules.iter().any(|rule| allows(rule, act));
        // The list may lack what another authorizer would allow (k8s.io/api/authorization/v1).
        if is_allowed || rules.incomplete {
            return None;
        }
        let Act { verb, resource, .. } = act;
        Some(format!(
            "You may not {verb} {resource} in {namespace}. The ClusterRole edit, bound there, allows it."
        ))
    }
}

fn allows(rule: &ResourceRule, act: Act<'_>) -> bool {
    let has = |all: Option<&Vec<String>>, one: &str| {
        all.is_some_and(|all| all.iter().any(|known| known == one || known == "*"))
    };
    let names = rule.resource_names.as_ref().filter(|all| !all.is_empty());
    let is_named = match (names, act.name) {
        (None, _) => true,
        (Some(names), Some(name)) => has(Some(names), name),
        (Some(_), None) => false,
    };
    is_named
        && has(Some(&rule.verbs), act.verb)
        && has(rule.api_groups.as_ref(), api::GROUP)
        && has(rule.resources.as_ref(), act.resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(rules: &[(&str, &str, &str, &[&str])], incomplete: bool) -> Access {
        let one = |text: &str| Some(vec![text.to_owned()]);
        let rules = rules
            .iter()
            .map(|(verb, group, resource, names)| ResourceRule {
                verbs: vec![(*verb).to_owned()],
                api_groups: one(group),
                resources: one(resource),
                resource_names: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            });
        Access::of(Some(SubjectRulesReviewStatus {
            incomplete,
            resource_rules: rules.collect(),
            ..SubjectRulesReviewStatus::default()
        }))
    }

    #[test]
    fn a_button_is_off_where_no_rule_allows_it() {
        let patch = Act::new("patch", "nodepools", Some("web"));
        let may = |rules: &[(&str, &str, &str, &[&str])]| {
            access(rules, false).refuses(patch, "team-a").is_none()
        };
        assert!(may(&[("patch", "covey.dev", "nodepools", &[])]));
        assert!(may(&[("*", "*", "*", &[])]));
        assert!(may(&[("patch", "covey.dev", "nodepools", &["web"])]));
        assert!(!may(&[("patch", "covey.dev", "nodepools", &["db"])]));
        assert!(!may(&[("get", "covey.dev", "nodepools", &[])]));
        assert!(!may(&[("patch", "apps", "nodepools", &[])]));
        assert!(!may(&[("patch", "covey.dev", "machines", &[])]));
        let create = Act::new("create", "nodepools", None);
        let named = access(&[("create", "covey.dev", "nodepools", &["web"])], false);
        let said = named.refuses(create, "team-a").unwrap();
        assert_eq!(
            said,
            "You may not create nodepools in team-a. The ClusterRole edit, bound there, allows it."
        );
    }

    #[test]
    fn what_is_not_known_is_not_forbidden() {
        let patch = Act::new("patch", "nodepools", None);
        assert_eq!(access(&[], true).refuses(patch, "team-a"), None);
        assert_eq!(Access::unknown().refuses(patch, "team-a"), None);
    }
}
