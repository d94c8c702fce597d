//! Router of the webhook: a path for each kind, and the way from a body to an answer.
//!
//! Invariant: what is no AdmissionReview is refused with a sentence; nothing is decided here. Every
//! request ends within the deadline of [`Bodies::read`]: what comes after it does not wait.

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{MethodRouter, post};
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};

use super::body::Bodies;
use super::validator::Validator;
use super::{node_pool, tenant_cluster, values};

/// Path of the webhook for TenantClusters, as in the chart's ValidatingWebhookConfiguration.
pub const TENANT_CLUSTERS: &str = "/validate/tenantclusters";
/// Path of the webhook for NodePools.
pub const NODE_POOLS: &str = "/validate/nodepools";

/// What answers about one kind.
type Review = fn(&AdmissionRequest<DynamicObject>, &Validator) -> AdmissionResponse;

/// What every route works with.
#[derive(Clone)]
struct Shared {
    validator: Validator,
    bodies: Bodies,
}

/// The routes of the webhook, whose bodies share a budget.
pub fn router(validator: Validator, bodies: Bodies) -> Router {
    Router::new()
        .route(TENANT_CLUSTERS, validate(tenant_cluster::review))
        .route(NODE_POOLS, validate(node_pool::review))
        .with_state(Shared { validator, bodies })
}

fn validate(review: Review) -> MethodRouter<Shared> {
    post(async move |State(shared): State<Shared>, body: Body| {
        match shared.bodies.read(body).await {
            Ok(body) => respond(review, &shared.validator, &body.bytes),
            Err(refusal) => {
                // Whoever floods the webhook should not flood the log.
                tracing::debug!(%refusal, "the webhook did not read a body");
                refusal.into_response()
            }
        }
    })
}

fn respond(review: Review, validator: &Validator, body: &[u8]) -> Response {
    if !values::are_few(body) {
        // Not a warning: see above.
        tracing::debug!("the webhook was sent too many values");
        let why = format!("the review holds more than {} values", values::MOST);
        return (StatusCode::PAYLOAD_TOO_LARGE, why).into_response();
    }
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
            why = shortened(&answer.result.message),
            "an object is refused"
        );
    }
    Json(answer.into_review()).into_response()
}

/// As much of a sentence as a line of the log should have: it may quote what is refused, which may have
/// megabytes.
pub(super) fn shortened(sentence: &str) -> &str {
    const MOST: usize = 1000;
    let end = sentence.char_indices().nth(MOST);
    end.and_then(|(end, _)| sentence.get(..end))
        .unwrap_or(sentence)
}

fn refuse_body(why: &str) -> Response {
    // No API server sends such a thing; whoever does may do so without end.
    let said = shortened(why);
    tracing::debug!(said, "the webhook was sent something else");
    (StatusCode::BAD_REQUEST, why.to_owned()).into_response()
}
