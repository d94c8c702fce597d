//! What a node of a pool offers, as far as the providers of its places know by now. Nothing is asked of them.
//!
//! Invariant: what a provider does not know is left out; who is told so keeps what was said before, for as long as the pool
//! is the same.

use std::collections::BTreeMap;

use api::NodePool;
use api::node_pool::NodeTemplate;
use kube::ResourceExt as _;
use providers::Providers;

/// By the name that the status calls a place.
pub type NodeTemplates = BTreeMap<String, NodeTemplate>;

/// Of the places of a pool whose provider knows it.
#[must_use]
pub fn known(providers: &Providers, pool: &NodePool) -> NodeTemplates {
    let namespace = pool.namespace().unwrap_or_default();
    let places = pool.spec.places().into_iter();
    let known = places.filter_map(|place| {
        let provider = providers.get(place.provider).ok()?;
        let template = provider.template(&namespace, &pool.spec, place.provider)?;
        Some((place.shown().to_owned(), template))
    });
    known.collect()
}

/// Whether a pool's status says something else than what is known by now.
#[must_use]
pub fn is_news(pool: &NodePool, known: &NodeTemplates) -> bool {
    let said = |name: &str| {
        let mut places = pool.status.iter().flat_map(|status| &status.locations);
        let place = places.find(|place| place.name == name)?;
        place.template.as_ref()
    };
    let mut known = known.iter();
    known.any(|(name, template)| said(name) != Some(template))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(cpu: i32) -> NodeTemplate {
        NodeTemplate {
            cpu,
            ..NodeTemplate::default()
        }
    }

    #[test]
    fn what_is_said_already_and_what_nobody_knows_is_no_news() {
        let pool: NodePool = serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
            "metadata": { "name": "workers", "namespace": "team-a" },
            "spec": { "clusterName": "demo", "replicas": 0 },
            "status": { "locations": [{ "name": "a", "template": node(2) }, { "name": "b" }] },
        }))
        .unwrap();
        let of = |name: &str, cpu: i32| NodeTemplates::from([(name.to_owned(), node(cpu))]);
        assert!(!is_news(&pool, &NodeTemplates::new()));
        assert!(!is_news(&pool, &of("a", 2)));
        assert!(is_news(&pool, &of("a", 4)));
        assert!(is_news(&pool, &of("b", 2)));
        assert!(is_news(&pool, &of("new", 2)));
    }
}
