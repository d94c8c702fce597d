//! `spec.addons.cloudController.loadBalancers`: what is wrong with it, what the platform does not allow, and
//! what is in force.
//!
//! Invariant: nothing is in force that the platform does not allow now, whatever it allowed before.

use std::collections::BTreeMap;

use api::tenant_cluster::LoadBalancers as Asked;
use api::{Reason, TenantCluster};
use ipnet::IpNet;

use crate::problem::Problem;
use crate::settings::policy::{LoadBalancerPolicy, allows};
use crate::text;
use crate::validate::refusal::not_allowed;
use crate::validate::scheduling::malformed_key;
use crate::validate::service;
use crate::validate::validated::LoadBalancers;

const FIELD: &str = "spec.addons.cloudController.loadBalancers";

/// What is wrong with it, whoever allows it.
pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    let asked = &tc.spec.addons.cloud_controller.load_balancers;
    let mut add = |field: String, message: String| {
        let field = format!("{FIELD}.{field}");
        problems.push(Problem::new(field, Reason::LoadBalancerMalformed, message));
    };
    for (at, name) in asked.classes.iter().enumerate() {
        if let Some(message) = service::class(name) {
            add(format!("classes[{at}]"), message);
        }
    }
    if let Some(message) = asked.management_class.as_deref().and_then(service::class) {
        add("managementClass".to_owned(), message);
    }
    for (at, key) in asked.annotations.iter().flatten().enumerate() {
        if !text::is_key_or_prefix(key) {
            add(format!("annotations[{at}]"), malformed_key(key));
        }
    }
    for (at, range) in asked.addresses.iter().flatten().enumerate() {
        if let Err(message) = service::range(range) {
            add(format!("addresses[{at}]"), message);
        }
    }
    for (key, value) in &asked.labels {
        if let Some(message) = service::label(key, value) {
            add(format!("labels[{key}]"), message);
        }
    }
}

/// What is asked for and this platform does not give.
pub(super) fn check_policy(
    tc: &TenantCluster,
    policy: &LoadBalancerPolicy,
    problems: &mut Vec<Problem>,
) {
    let asked = &tc.spec.addons.cloud_controller.load_balancers;
    let mut refuse = |field: String, value: &str, allowed: &[String], setting: &str| {
        problems.push(Problem::new(
            format!("{FIELD}.{field}"),
            Reason::LoadBalancerNotAllowed,
            not_allowed(value, allowed, &format!("loadBalancers.{setting}")),
        ));
    };
    if let Some(class) = asked.management_class.as_ref()
        && text::is_qualified_name(class)
        && !allows_class(policy, class)
    {
        refuse(
            "managementClass".to_owned(),
            class,
            &policy.classes,
            "classes",
        );
    }
    for (at, key) in asked.annotations.iter().flatten().enumerate() {
        if text::is_key_or_prefix(key) && !allows(&policy.annotations, key) {
            let field = format!("annotations[{at}]");
            refuse(field, key, &policy.annotations, "annotations");
        }
    }
    for (at, text) in asked.addresses.iter().flatten().enumerate() {
        if service::range(text).is_ok_and(|range| !policy.allows_range(&range)) {
            let allowed: Vec<String> = policy.addresses.iter().map(IpNet::to_string).collect();
            refuse(format!("addresses[{at}]"), text, &allowed, "addresses");
        }
    }
    for key in asked.labels.keys() {
        if text::is_qualified_name(key) && !text::is_ours(key) && !allows(&policy.labels, key) {
            refuse(format!("labels[{key}]"), key, &policy.labels, "labels");
        }
    }
}

/// What is asked for as far as it is allowed, and what is not asked for as the platform has it.
pub(super) fn in_force(asked: &Asked, policy: &LoadBalancerPolicy) -> LoadBalancers {
    let class = asked.management_class.as_ref();
    let class = class.filter(|class| allows_class(policy, class));
    let labels = asked.labels.iter();
    let labels: BTreeMap<_, _> = labels
        .filter(|(key, _)| allows(&policy.labels, key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    LoadBalancers {
        classes: asked.classes.clone(),
        management_class: class.or(policy.default_class.as_ref()).cloned(),
        annotations: match &asked.annotations {
            Some(keys) => {
                let allowed = keys.iter().filter(|key| allows(&policy.annotations, key));
                allowed.cloned().collect()
            }
            None => policy.annotations.clone(),
        },
        addresses: match &asked.addresses {
            Some(ranges) => {
                let ranges = ranges.iter().filter_map(|text| service::range(text).ok());
                ranges.filter(|range| policy.allows_range(range)).collect()
            }
            None => policy.addresses.clone(),
        },
        labels,
    }
}

/// What is wrong with the classes of the configuration; its keys are judged beside all others.
pub(super) fn check_settings(policy: &LoadBalancerPolicy, problems: &mut Vec<Problem>) {
    let classes = policy.classes.iter().chain(&policy.default_class);
    for message in classes.filter_map(|class| service::class(class)) {
        problems.push(Problem::new(
            "loadBalancers.classes",
            Reason::KeyMalformed,
            message,
        ));
    }
}

fn allows_class(policy: &LoadBalancerPolicy, class: &String) -> bool {
    policy.classes.contains(class) || policy.default_class.as_ref() == Some(class)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(asked: &Value) -> TenantCluster {
        let spec = json!({
            "version": "1.35.4",
            "addons": { "cloudController": { "enabled": true, "loadBalancers": asked } },
        });
        TenantCluster::new("demo", serde_json::from_value(spec).unwrap())
    }

    fn policy() -> LoadBalancerPolicy {
        serde_json::from_value(json!({
            "annotations": ["metallb.io/", "example.com/a"],
            "addresses": ["203.0.113.0/24"],
            "classes": ["example.com/internal"],
            "defaultClass": "example.com/public",
            "labels": ["example.com/"],
        }))
        .unwrap()
    }

    fn said(asked: &Value, policy: &LoadBalancerPolicy) -> Vec<String> {
        let (tc, mut problems) = (cluster(asked), Vec::new());
        check(&tc, &mut problems);
        check_policy(&tc, policy, &mut problems);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn who_asks_for_nothing_gets_what_the_platform_has() {
        let force = in_force(&Asked::default(), &policy());
        assert_eq!(force.annotations, ["metallb.io/", "example.com/a"]);
        assert_eq!(force.addresses, policy().addresses);
        assert_eq!(
            force.management_class.as_deref(),
            Some("example.com/public")
        );
        let force = in_force(&Asked::default(), &LoadBalancerPolicy::default());
        assert_eq!(force, LoadBalancers::default());
    }

    #[test]
    fn less_may_be_asked_for_and_more_is_refused_with_the_setting() {
        let asked = json!({
            "classes": ["internal"], "managementClass": "example.com/internal",
            "annotations": ["metallb.io/pool"], "addresses": ["203.0.113.16/28"],
            "labels": { "example.com/zone": "a" },
        });
        assert_eq!(said(&asked, &policy()), [""; 0]);
        let parsed = cluster(&asked).spec.addons.cloud_controller.load_balancers;
        let force = in_force(&parsed, &policy());
        assert_eq!(force.classes, ["internal"]);
        assert_eq!(force.management_class, parsed.management_class);
        assert_eq!(force.annotations, ["metallb.io/pool"]);
        assert_eq!(force.addresses, ["203.0.113.16/28".parse().unwrap()]);
        assert_eq!(force.labels, parsed.labels);

        let nothing = LoadBalancerPolicy::default();
        let refused = said(&asked, &nothing);
        for setting in ["classes", "annotations", "addresses", "labels"] {
            let setting = format!("config.loadBalancers.{setting}");
            let named = refused.iter().any(|sentence| sentence.contains(&setting));
            assert!(named, "{setting}: {refused:?}");
        }
        assert_eq!(refused.len(), 4);
        // Of one that runs it is taken back all the same.
        let force = in_force(&parsed, &nothing);
        let left = LoadBalancers {
            classes: vec!["internal".to_owned()],
            ..LoadBalancers::default()
        };
        assert_eq!(force, left);
    }

    #[test]
    fn a_range_may_not_reach_beyond_what_is_allowed() {
        let asked = |range: &str| said(&json!({ "addresses": [range] }), &policy());
        assert_eq!(asked("203.0.113.0/24"), [""; 0]);
        for range in ["203.0.112.0/23", "0.0.0.0/0", "2001:db8::/64"] {
            assert!(
                asked(range)[0].contains("choose of 203.0.113.0/24"),
                "{range}"
            );
        }
    }

    #[test]
    fn what_is_malformed_says_what_to_write() {
        let asked = json!({
            "classes": ["a b"], "managementClass": "/", "annotations": ["a//b"],
            "addresses": ["203.0.113.1/24", "10.0.0.1", "x"],
            "labels": { "covey.dev/x": "a", "example.com/y": "a b" },
        });
        let said = said(&asked, &policy());
        for words in [
            "classes[0]",
            "managementClass",
            "annotations[0]",
            "write 203.0.113.0/24",
            "addresses[1]",
            "addresses[2]",
            "written by Covey",
            "cannot be a value",
        ] {
            assert!(said.iter().any(|s| s.contains(words)), "{words}: {said:?}");
        }
        assert_eq!(said.len(), 8, "{said:?}");
    }
}
