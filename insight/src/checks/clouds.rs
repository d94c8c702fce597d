//! Accounts at clouds: whether they let the operator in, and what was left behind in them.
//!
//! Invariant: an account by which nobody's machines are made hurts nobody; what is left behind costs, and breaks nothing.

use api::{NodePool, ProviderConfig};
use kit_objects::known::Known;
use kube::ResourceExt as _;

use super::conditions::{self, About, GRACE};
use crate::check::Check;
use crate::facts::{Facts, accounts};
use crate::finding::{Finding, Level, Scope, Subject};
use crate::text;

/// Most node pools that are named.
const NAMED: usize = 5;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let configs = facts.provider_configs.as_ref().there();
    let mut found: Vec<_> = configs
        .into_iter()
        .flatten()
        .flat_map(|config| one(config, facts))
        .collect();
    let pools = facts.pools.as_ref().there().into_iter().flatten();
    found.extend(pools.flat_map(|pool| missing(pool, facts)));
    found
}

fn one(config: &ProviderConfig, facts: &Facts) -> Vec<Finding> {
    let (namespace, name) = (config.namespace().unwrap_or_default(), config.name_any());
    let subject = Subject::new("ProviderConfig", &namespace, &name);
    let pools = facts.pools.as_ref().there().into_iter().flatten();
    let users = pools.filter(|pool| {
        pool.namespace().as_ref() == Some(&namespace) && accounts(pool).any(|of| of == name)
    });
    let users: Vec<_> = users.map(|pool| pool.name_any()).collect();
    // Of a pool other locations may have other accounts, so it explains nothing of one.
    let scope = Scope {
        cluster: Some((namespace, String::new())),
        pool: None,
    };
    let about = About {
        subject: &subject,
        scope: &scope,
        now: facts.now,
        grace: GRACE,
    };
    let status = config.status.as_ref();
    let conditions = status.map(|status| status.conditions.as_slice());
    let told = conditions::check(conditions.unwrap_or_default(), &about);
    let told = told.into_iter().map(|mut finding| {
        if users.is_empty() || finding.check == Check::Leaks {
            finding.level = finding.level.min(Level::Warning);
            return finding;
        }
        let users = text::names(users.iter().map(String::as_str), NAMED);
        finding.told_by(&format!("node pools whose machines it makes: {users}"))
    });
    told.collect()
}

/// Accounts that a pool names and that are not there.
fn missing(pool: &NodePool, facts: &Facts) -> Vec<Finding> {
    let Known::Known(configs) = &facts.provider_configs else {
        return Vec::new();
    };
    let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
    let is_there = |of: &str| {
        let mut configs = configs.iter();
        configs.any(|config| {
            config.name_any() == of && config.namespace().as_ref() == Some(&namespace)
        })
    };
    let has_one_place = pool.spec.places().len() == 1;
    let scope = Scope {
        cluster: Some((namespace.clone(), pool.spec.cluster_name.clone())),
        pool: Some(name.clone()),
    };
    // Machines of other places do not lack for it.
    let scope = match has_one_place {
        true => scope,
        false => Scope {
            cluster: Some((namespace.clone(), String::new())),
            pool: None,
        },
    };
    let gone = accounts(pool).filter(|of| !is_there(of));
    let gone = gone.map(|of| {
        let subject = Subject::new("NodePool", &namespace, &name);
        let cause = format!("there is no ProviderConfig {of}, which the node pool names");
        let mend = "create it in the namespace of the node pool, or correct `configName` below `spec.provider` or `spec.locations` of the pool";
        Finding::new(Check::CloudAccounts, Level::Error, subject, &cause, mend).within(&scope)
    });
    gone.collect()
}
