//! The same about NodePools, and what NodePools mean for their TenantCluster.

use api::NodePool;
use serde_json::{Value, json};

use super::*;

fn pool(spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "NodePool",
        "metadata": {"name": "workers", "namespace": "team-a", "uid": "p1"},
        "spec": {"clusterName": "demo", "provider": {"kubevirt": {}}},
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

fn about_pools(operation: &str, old: &Value, new: &Value) -> Value {
    let mut review = review(operation, old, new);
    review["request"]["kind"]["kind"] = json!("NodePool");
    review["request"]["resource"]["resource"] = json!("nodepools");
    review["request"]["name"] = json!("workers");
    review
}

fn demo(version: &str) -> TenantCluster {
    let tc = object(&json!({"version": version}));
    serde_json::from_value(tc).unwrap()
}

async fn answer(clusters: Vec<TenantCluster>, review: &Value) -> Value {
    let (status, text) = post_to(NODE_POOLS, validator(clusters), review.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    answer["response"].clone()
}

#[tokio::test]
async fn a_good_pool_is_let_in_and_one_without_a_cluster_with_a_warning() {
    let create = about_pools("CREATE", &Value::Null, &pool(&json!({})));
    let response = answer(vec![demo("1.35.4")], &create).await;
    assert_eq!(response["allowed"], true);
    assert_eq!(response["warnings"], Value::Null);
    let response = answer(Vec::new(), &create).await;
    assert_eq!(response["allowed"], true);
    let warning = response["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("spec.clusterName: there is no TenantCluster demo"),
        "{warning}"
    );
    // It was said at the creation.
    let bigger = pool(&json!({"replicas": 5}));
    let change = about_pools("UPDATE", &pool(&json!({})), &bigger);
    assert_eq!(answer(Vec::new(), &change).await["warnings"], Value::Null);
}

#[tokio::test]
async fn a_bad_pool_is_refused_with_every_cause() {
    let bad = pool(&json!({
        "version": "1.36.3",
        "provider": {"kubevirt": {"memory": "512m"}},
    }));
    let create = about_pools("CREATE", &Value::Null, &bad);
    let response = answer(vec![demo("1.35.4")], &create).await;
    assert_eq!(response["allowed"], false);
    let status = &response["status"];
    assert_eq!(
        (&status["code"], &status["details"]["kind"]),
        (&json!(422), &json!("NodePool"))
    );
    let causes = status["details"]["causes"].as_array().unwrap();
    let reasons: Vec<_> = causes.iter().map(|cause| &cause["reason"]).collect();
    assert_eq!(reasons, ["MemoryTooSmall", "VersionNewerThanControlPlane"]);
}

#[tokio::test]
async fn deletion_and_labels_of_a_bad_pool_are_never_refused() {
    let bad = pool(&json!({"version": ["not", "text"]}));
    let mut labelled = bad.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let change = about_pools("UPDATE", &bad, &labelled);
    assert_eq!(answer(Vec::new(), &change).await["allowed"], true);
    let mut going = pool(&json!({"version": {"also": "bad"}}));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let change = about_pools("UPDATE", &bad, &going);
    assert_eq!(answer(Vec::new(), &change).await["allowed"], true);
    let unreadable = about_pools("CREATE", &Value::Null, &bad);
    let response = answer(Vec::new(), &unreadable).await;
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.contains("`kubectl explain np.spec`"), "{message}");
}

#[tokio::test]
async fn a_control_plane_may_not_leave_its_pools_behind() {
    let old = pool(&json!({"version": "1.32.4"}));
    let old: Arc<NodePool> = Arc::new(serde_json::from_value(old).unwrap());
    let with_pool = Validator {
        pools: Arc::new(move || vec![old.clone()]),
        ..validator(Vec::new())
    };
    let at = |version: &str| object(&json!({"version": version}));
    let ask = async |from: &str, to: &str| {
        let review = review("UPDATE", &at(from), &at(to)).to_string();
        let (_, text) = post_text(with_pool.clone(), review).await;
        serde_json::from_str::<Value>(&text).unwrap()["response"].clone()
    };
    let refused = ask("1.35.4", "1.36.3").await;
    let message = refused["status"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("spec.version: node pool workers runs 1.32.4"),
        "{message}"
    );
    assert_eq!(ask("1.34.4", "1.35.4").await["allowed"], true);
    // What was so before is no reason to refuse something else.
    let (old, mut new) = (at("1.36.3"), at("1.36.3"));
    new["spec"]["paused"] = json!(true);
    let review = review("UPDATE", &old, &new).to_string();
    let (_, text) = post_text(with_pool, review).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["response"]["allowed"], true, "{text}");
}
