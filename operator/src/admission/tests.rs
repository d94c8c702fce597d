//! The router, without a socket: what an API server sends and what it is answered.

use std::sync::Arc;

use api::TenantCluster;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::body::{Bodies, LARGEST};
use super::reviews::Reviews;
use super::router::{NODE_POOLS, TENANT_CLUSTERS, router, shortened};
use super::validator::Validator;

mod pools;
mod pressure;
mod quotas;

fn object(spec: &Value) -> Value {
    json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "TenantCluster",
        "metadata": {"name": "demo", "namespace": "team-a", "uid": "u1"},
        "spec": spec,
    })
}

fn review(operation: &str, old: &Value, new: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "r-1",
            "kind": {"group": "covey.dev", "version": "v1alpha1", "kind": "TenantCluster"},
            "resource": {"group": "covey.dev", "version": "v1alpha1", "resource": "tenantclusters"},
            "name": "demo",
            "namespace": "team-a",
            "operation": operation,
            "userInfo": {"username": "jane"},
            "object": new,
            "oldObject": old,
            "dryRun": false,
        },
    })
}

fn create(spec: &Value) -> Value {
    review("CREATE", &Value::Null, &object(spec))
}

fn validator(others: Vec<TenantCluster>) -> Validator {
    let others: Vec<Arc<TenantCluster>> = others.into_iter().map(Arc::new).collect();
    Validator {
        settings: Arc::new(Arc::default),
        clusters: Arc::new(move || others.clone()),
        pools: Arc::new(Vec::new),
        quotas: Arc::new(Vec::new),
    }
}

async fn post_text(validator: Validator, body: String) -> (StatusCode, String) {
    post_to(TENANT_CLUSTERS, validator, body).await
}

async fn post_to(path: &str, validator: Validator, body: String) -> (StatusCode, String) {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(Body::from(body))
        .unwrap();
    let response = router(validator, Bodies::default(), Reviews::default())
        .oneshot(request)
        .await
        .unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

/// The response of a review that was understood.
async fn answer_among(others: Vec<TenantCluster>, review: &Value) -> Value {
    let (status, text) = post_text(validator(others), review.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["response"]["uid"], "r-1");
    answer["response"].clone()
}

async fn answer(review: &Value) -> Value {
    answer_among(Vec::new(), review).await
}

#[tokio::test]
async fn a_good_one_is_let_in() {
    let response = answer(&create(&json!({"version": "1.35.4"}))).await;
    assert_eq!(response["allowed"], true);
    assert_eq!(response["warnings"], Value::Null);
}

#[tokio::test]
async fn a_bad_one_is_refused_with_every_cause() {
    let spec = json!({"version": "1.30.1", "network": {"podCIDR": "10.0.0.0"}});
    let response = answer(&create(&spec)).await;
    assert_eq!(response["allowed"], false);
    let status = &response["status"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(422), &json!("Invalid"))
    );
    assert_eq!(
        status["message"],
        "spec.version: Kubernetes 1.30.1 is not supported: choose a patch release of 1.34, 1.35 \
         or 1.36; spec.network.podCIDR: \"10.0.0.0\" is not an address range: write \
         address/prefix, such as 10.128.0.0/18"
    );
    assert_eq!(status["details"]["kind"], "TenantCluster");
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 2);
    assert_eq!(causes[1]["field"], "spec.network.podCIDR");
    assert_eq!(causes[1]["reason"], "CIDRMalformed");
}

#[tokio::test]
async fn a_body_of_many_small_values_is_not_made_a_tree_of() {
    // Text of less than a megabyte, and more than 200 in memory.
    let many = vec![json!({"a": 1}); 100_000];
    let review = create(&json!({"version": "1.35.4", "many": many}));
    let (status, text) = post_text(validator(vec![]), review.to_string()).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(text, "the review holds more than 32768 values");
    let few = vec![json!({"a": 1}); 10_000];
    let few = create(&json!({"version": "1.35.4", "many": few}));
    assert_eq!(answer(&few).await["allowed"], true);
}

#[test]
fn a_line_of_the_log_is_no_longer_than_a_sentence_needs() {
    assert_eq!(shortened("spec.version: no"), "spec.version: no");
    assert_eq!(shortened(&"x".repeat(1000)).len(), 1000);
    // By characters, so that none is cut.
    assert_eq!(shortened(&"ä".repeat(3_000_000)), "ä".repeat(1000));
}

#[tokio::test]
async fn ranges_of_others_are_seen_and_others_are_not() {
    let mut other = TenantCluster::new("other", Default::default());
    other.metadata.namespace = Some("team-b".to_owned());
    other.metadata.uid = Some("u2".to_owned());
    other.spec.network.pod_cidr = Some("10.0.0.0/9".to_owned());
    let spec = json!({"version": "1.35.4", "network": {"podCIDR": "10.1.0.0/16"}});
    let response = answer_among(vec![other], &create(&spec)).await;
    assert_eq!(response["allowed"], false);
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.contains("of another tenant cluster"), "{message}");
    for hidden in ["team-b", "other\"", "/other", "10.0.0.0/9"] {
        assert!(
            !response.to_string().contains(hidden),
            "{hidden}: {response}"
        );
    }
}

#[tokio::test]
async fn changes_are_judged_and_warned_about() {
    let old = object(&json!({"version": "1.35.4"}));
    let down = object(&json!({"version": "1.34.4"}));
    assert_eq!(
        answer(&review("UPDATE", &old, &down)).await["allowed"],
        false
    );
    let patch_down = object(&json!({"version": "1.35.1"}));
    let response = answer(&review("UPDATE", &old, &patch_down)).await;
    assert_eq!(response["allowed"], true);
    let warning = "spec.version: 1.35.1 lacks the fixes that came with 1.35.4";
    assert_eq!(response["warnings"], json!([warning]));
}

#[tokio::test]
async fn a_warning_is_given_once_and_not_at_every_change() {
    let spec = |paused: bool| {
        json!({
            "version": "1.35.4",
            "paused": paused,
            "network": {"podCIDR": "20.0.0.0/16", "serviceCIDR": "10.96.0.0/12"},
        })
    };
    let response = answer(&create(&spec(false))).await;
    assert_eq!(response["warnings"].as_array().map(Vec::len), Some(1));
    let change = review("UPDATE", &object(&spec(false)), &object(&spec(true)));
    assert_eq!(answer(&change).await["warnings"], Value::Null);
}

#[tokio::test]
async fn deletion_is_never_held_up() {
    let bad = object(&json!({"version": ["not", "even", "text"]}));
    let mut deleted = object(&json!({"version": {"also": "bad"}}));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(
        answer(&review("UPDATE", &bad, &deleted)).await["allowed"],
        true
    );
    assert_eq!(
        answer(&review("DELETE", &bad, &Value::Null)).await["allowed"],
        true
    );
}

#[tokio::test]
async fn a_spec_that_stays_is_not_judged_again() {
    let old = object(&json!({"version": "0.1.2", "unheard": true}));
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!([]);
    new["metadata"]["labels"] = json!({"a": "b"});
    new["status"] = json!({"version": 7});
    assert_eq!(answer(&review("UPDATE", &old, &new)).await["allowed"], true);
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_refused_with_a_reason() {
    let response = answer(&create(&json!({"version": 1.35}))).await;
    assert_eq!(response["allowed"], false);
    assert_eq!(
        response["status"]["details"]["causes"][0]["reason"],
        "Undecodable"
    );
    let message = response["status"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("spec: the TenantCluster cannot be read: "),
        "{message}"
    );
    assert!(message.contains("expected a string"), "{message}");
    let response = answer(&review("CREATE", &Value::Null, &Value::Null)).await;
    assert_eq!(response["allowed"], false);
}

#[tokio::test]
async fn an_old_object_that_cannot_be_read_does_not_keep_a_good_one_out() {
    let old = object(&json!({"version": 1}));
    let new = object(&json!({"version": "1.35.4"}));
    assert_eq!(answer(&review("UPDATE", &old, &new)).await["allowed"], true);
}

#[tokio::test]
async fn what_is_no_review_is_a_bad_request() {
    for body in [
        "",
        "{",
        "{}",
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
    ] {
        let (status, text) = post_text(validator(vec![]), body.to_owned()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        assert!(text.contains("AdmissionReview"), "{text}");
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_not_read() {
    let (status, _) = post_text(validator(vec![]), " ".repeat(LARGEST + 1)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}
