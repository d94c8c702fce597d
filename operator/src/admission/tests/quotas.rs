//! Quotas in the answers of the webhook.

use api::{NodePool, TenantQuota};

use super::*;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn quota(most: &Value) -> TenantQuota {
    let mut spec = json!({"namespaces": ["team-a", "team-b"]});
    for (field, most) in most.as_object().unwrap() {
        spec[field] = most.clone();
    }
    read(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantQuota",
        "metadata": {"name": "both"}, "spec": spec,
    }))
}

/// A tenant cluster of the other namespace.
fn other() -> TenantCluster {
    let mut other = object(&json!({"version": "1.35.4"}));
    other["metadata"] = json!({"name": "other", "namespace": "team-b", "uid": "u2"});
    read(other)
}

fn pool(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "NodePool",
        "metadata": {"name": name, "namespace": "team-a", "uid": name},
        "spec": {"clusterName": "demo", "replicas": replicas, "provider": {"kubevirt": {}}},
    })
}

fn bounded(most: &Value, others: Vec<TenantCluster>, pools: Vec<NodePool>) -> Validator {
    let quota = Arc::new(quota(most));
    let pools: Vec<_> = pools.into_iter().map(Arc::new).collect();
    Validator {
        quotas: Arc::new(move || vec![Arc::clone(&quota)]),
        pools: Arc::new(move || pools.clone()),
        ..validator(others)
    }
}

async fn ask(path: &str, validator: &Validator, review: &Value) -> Value {
    let (status, text) = post_to(path, validator.clone(), review.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    serde_json::from_str::<Value>(&text).unwrap()["response"].clone()
}

#[tokio::test]
async fn one_tenant_cluster_too_many_is_refused_with_the_numbers_and_what_to_do() {
    let minimal = json!({"version": "1.35.4"});
    let full = bounded(&json!({"clusters": 1}), vec![other()], Vec::new());
    let refused = ask(TENANT_CLUSTERS, &full, &create(&minimal)).await;
    assert_eq!(refused["allowed"], false);
    assert_eq!(
        refused["status"]["message"],
        "spec: TenantQuota both allows 1 tenant clusters in its namespaces: 1 are used by others and \
         1 are asked for; ask for less, delete what is not needed any more, or ask an administrator \
         to raise spec.clusters of the quota"
    );
    assert_eq!(
        refused["status"]["details"]["causes"][0]["reason"],
        "QuotaExceeded"
    );
    let room = bounded(&json!({"clusters": 2}), vec![other()], Vec::new());
    let let_in = ask(TENANT_CLUSTERS, &room, &create(&minimal)).await;
    assert_eq!(let_in["allowed"], true);
}

#[tokio::test]
async fn a_pool_may_shrink_or_stay_beyond_the_quota_but_not_grow() {
    let most = json!({"machines": 2});
    let stored = read(pool("workers", 5));
    let validator = bounded(&most, Vec::new(), vec![stored]);
    let change = async |to: Value| {
        let mut review = review("UPDATE", &pool("workers", 5), &to);
        review["request"]["kind"]["kind"] = json!("NodePool");
        ask(NODE_POOLS, &validator, &review).await["allowed"].clone()
    };
    assert_eq!(change(pool("workers", 6)).await, false);
    assert_eq!(change(pool("workers", 4)).await, true);
    let mut drains = pool("workers", 5);
    drains["spec"]["drainTimeout"] = json!("1m");
    assert_eq!(change(drains).await, true);
    let mut another = pool("workers", 1);
    another["spec"]["autoscaling"] = json!({"min": 0, "max": 6});
    assert_eq!(change(another).await, false, "the autoscaler asks nobody");
}
