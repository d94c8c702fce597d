//! Which locations of node pools get nothing new, because their provider refuses the credentials: as the ProviderConfig
//! says it, which is checked as soon as its Secret changes. Pure: no I/O, no clock, no chance.
//!
//! Invariant: only a refusal excludes. A ProviderConfig that is not there, was not checked yet or gave no answer says
//! nothing, and what was true before stays true.

use std::collections::BTreeMap;

use api::node_pool::locations::LocationRef;
use api::{ConditionType, NodePool, ProviderConfig, Reason};
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;

use crate::stores::Stores;

/// Whether each location's provider lets us in, by the name that the status calls it; who is missing is not known. Nothing of
/// a pool with one location, which has no choice: its Machines wait.
#[must_use]
pub fn let_in(stores: &Stores, pool: &NodePool) -> BTreeMap<String, bool> {
    let namespace = pool.namespace().unwrap_or_default();
    known(pool, |name| {
        let key = ObjectRef::<ProviderConfig>::new(name).within(&namespace);
        stores.configs.get(&key).and_then(|config| lets_in(&config))
    })
}

fn known(pool: &NodePool, of: impl Fn(&str) -> Option<bool>) -> BTreeMap<String, bool> {
    let places = pool.spec.places();
    if places.len() < 2 {
        return BTreeMap::new();
    }
    let known = places.into_iter().filter_map(|place: LocationRef<'_>| {
        let let_in = match place.provider.config_name() {
            Some(name) => of(name)?,
            // Nobody has to be let in.
            None => true,
        };
        Some((place.shown().to_owned(), let_in))
    });
    known.collect()
}

/// Whether a ProviderConfig lets us in; none: nobody knows.
#[must_use]
pub fn lets_in(config: &ProviderConfig) -> Option<bool> {
    let mut conditions = config.status.iter().flat_map(|status| &status.conditions);
    let ready = conditions.find(|c| c.type_ == ConditionType::Ready.as_str())?;
    match ready.status.as_str() {
        "True" => Some(true),
        // Something else that a person has to mend is told of each Machine.
        "False" => Some(ready.reason != Reason::CredentialsRefused),
        _ => None,
    }
}

/// Whether a ProviderConfig says otherwise than what a pool's status says of its locations.
#[must_use]
pub fn is_news(pool: &NodePool, config: &ProviderConfig) -> bool {
    let name = config.name_any();
    let of = |named: &str| (named == name).then(|| lets_in(config)).flatten();
    let said = |location: &str| {
        let mut all = pool.status.iter().flat_map(|status| &status.locations);
        let found = all.find(|at| at.name == location);
        found.is_some_and(|at| at.reason.as_deref() == Some(Reason::CredentialsRefused.as_str()))
    };
    let places = pool.spec.places().into_iter();
    let named: Vec<_> = places
        .filter(|place| place.provider.config_name() == Some(&name))
        .map(|place| place.shown().to_owned())
        .collect();
    let known = known(pool, of);
    let mut known = known
        .iter()
        .filter(|(location, _)| named.contains(*location));
    pool.namespace() == config.namespace()
        && known.any(|(location, let_in)| *let_in == said(location))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn config(ready: &Value) -> ProviderConfig {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "ProviderConfig",
            "metadata": { "name": "h", "namespace": "team-a" },
            "spec": { "hetzner": { "tokenSecretName": "t", "location": "fsn1", "sshKeys": ["covey"] } },
            "status": { "conditions": ready },
        }))
        .unwrap()
    }

    fn ready(status: &str, reason: &str) -> ProviderConfig {
        config(&json!([{
            "type": "Ready", "status": status, "reason": reason, "message": "",
            "lastTransitionTime": "2026-11-21T12:00:00Z",
        }]))
    }

    fn pool(said: &Value) -> NodePool {
        let cloud = json!({ "hetzner": { "configName": "h", "types": ["cx22"] } });
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
            "metadata": { "name": "w", "namespace": "team-a" },
            "spec": { "clusterName": "demo", "replicas": 2, "locations": [
                { "name": "a", "provider": cloud }, { "name": "k", "provider": { "kubevirt": {} } },
            ] },
            "status": { "locations": said },
        }))
        .unwrap()
    }

    #[test]
    fn only_a_refusal_of_the_credentials_excludes() {
        assert_eq!(lets_in(&ready("False", "CredentialsRefused")), Some(false));
        assert_eq!(lets_in(&ready("False", "RequestRefused")), Some(true));
        assert_eq!(lets_in(&ready("True", "ProviderChecked")), Some(true));
        assert_eq!(lets_in(&ready("Unknown", "ProviderFailed")), None);
        assert_eq!(lets_in(&config(&json!([]))), None);
    }

    #[test]
    fn location_that_needs_no_credentials_is_let_in_and_the_only_one_is_not_asked_about() {
        let known_of = |pool: &NodePool| known(pool, |_| Some(false));
        let all = known_of(&pool(&json!([])));
        assert_eq!(
            all,
            BTreeMap::from([("a".to_owned(), false), ("k".to_owned(), true)])
        );
        let mut only = pool(&json!([]));
        only.spec.locations.truncate(1);
        assert!(known_of(&only).is_empty());
    }

    #[test]
    fn pool_is_woken_when_it_turns_and_not_again() {
        let excluded =
            json!([{ "name": "a", "state": "Excluded", "reason": "CredentialsRefused" }]);
        let (refused, fine) = (
            ready("False", "CredentialsRefused"),
            ready("True", "ProviderChecked"),
        );
        assert!(is_news(&pool(&json!([])), &refused));
        assert!(!is_news(&pool(&excluded), &refused));
        assert!(is_news(&pool(&excluded), &fine));
        assert!(!is_news(&pool(&json!([])), &fine));
        assert!(!is_news(&pool(&excluded), &config(&json!([]))));
    }
}
