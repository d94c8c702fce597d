//! Router of the webhook: a path for each kind, and the way from a body to an answer.
//!
//! Invariant: what is no AdmissionReview is refused with a sentence; nothing is decided here.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{MethodRouter, post};
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};

use super::validator::Validator;
use super::{node_pool, tenant_cluster};

/// Path of the webhook for TenantClusters, as in the chart's ValidatingWebhookConfiguration.
pub const TENANT_CLUSTERS: &str = "/validate/tenantclusters";
/// Path of the webhook for NodePools.
pub const NODE_POOLS: &str = "/validate/nodepools";
/// Largest body: what the API server itself takes (`MaxRequestBodyBytes`).
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// What answers about one kind.
type Review = fn(&AdmissionRequest<DynamicObject>, &Validator) -> AdmissionResponse;

/// The routes of the webhook.
pub fn router(validator: Validator) -> Router {
    Router::new()
        .route(TENANT_CLUSTERS, validate(tenant_cluster::review))
        .route(NODE_POOLS, validate(node_pool::review))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(validator)
}

fn validate(review: Review) -> MethodRouter<Validator> {
    post(
        async move |State(validator): State<Validator>, body: Bytes| {
            respond(review, &validator, &body)
        },
    )
}

fn respond(review: Review, validator: &Validator, body: &[u8]) -> Response {
    let body: AdmissionReview<DynamicObject> = match serde_json::from_slice(body) {
        Ok(body) => body,
        // Without a UID there is nobody to answer; the API server applies its failure policy.
        Err(error) => return refuse_body(&format!("not an AdmissionReview: {error}")),
    };
    let request: AdmissionRequest<DynamicObject> = match body.try_into() {
        Ok(request) => request,
        Err(_) => return refuse_body("an AdmissionReview without a request"),
    };
    let answer = review(&request, validator);
    if !answer.allowed {
        tracing::info!(
            namespace = request.namespace.as_deref().unwrap_or_default(),
            name = request.name,
            kind = request.kind.kind,
            why = answer.result.message,
            "an object is refused"
        );
    }
    Json(answer.into_review()).into_response()
}

fn refuse_body(why: &str) -> Response {
    tracing::warn!(why, "the webhook was sent something else");
    (StatusCode::BAD_REQUEST, why.to_owned()).into_response()
}
