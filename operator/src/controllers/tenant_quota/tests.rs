//! The status of a TenantQuota.

use api::{NodePool, TenantQuota};
use jiff::Timestamp;
use serde_json::{Value, json};
use tenant_cp::quota::takes;

use super::plan::plan;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn quota(machines: i64) -> TenantQuota {
    read(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantQuota",
        "metadata": { "name": "team-a", "generation": 2 },
        "spec": { "namespaces": ["team-a"], "machines": machines },
    }))
}

fn pool(replicas: i32) -> NodePool {
    read(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
        "metadata": { "name": "workers", "namespace": "team-a" },
        "spec": {
            "clusterName": "demo", "replicas": replicas,
            "provider": { "kubevirt": { "cpu": 4, "memory": "8Gi" } },
        },
    }))
}

#[test]
fn what_is_used_is_said_with_units_and_nothing_is_said_twice() {
    let mut quota = quota(3);
    let used = takes::pool(&pool(3));
    let first = plan(&quota, &used, at(0));
    assert_eq!(
        serde_json::to_value(&first.used).unwrap(),
        json!({
            "clusters": 0, "cores": "12", "memory": "24Gi", "storage": "0", "loadBalancers": 0,
            "machines": 3,
        })
    );
    let condition = &first.conditions[0];
    let said = (condition.type_.as_str(), condition.status.as_str());
    assert_eq!(said, ("Exceeded", "False"));
    assert_eq!(first.observed_generation, Some(2));
    quota.status = Some(first.clone());
    assert_eq!(
        plan(&quota, &used, at(60)),
        first,
        "no write when nothing changes"
    );
}

#[test]
fn a_quota_that_was_lowered_says_what_is_too_much() {
    let quota = quota(2);
    let status = plan(&quota, &takes::pool(&pool(3)), at(0));
    let condition = &status.conditions[0];
    let said = (condition.status.as_str(), condition.reason.as_str());
    assert_eq!(said, ("True", "AboveLimits"));
    assert_eq!(
        condition.message,
        "3 machines are used, 2 are allowed; nothing is stopped and nothing grows: delete or shrink \
         what is not needed, or raise the quota"
    );
}
