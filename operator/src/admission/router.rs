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
use tokio::time::Instant;

use super::body::Bodies;
use super::reviews::{Answer, Reviews};
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
    reviews: Reviews,
}

/// The routes of the webhook, whose bodies share a budget. `reviews` counts what is answered.
pub fn router(validator: Validator, bodies: Bodies, reviews: Reviews) -> Router {
    let shared = Shared {
        validator,
        bodies,
        reviews,
    };
    Router::new()
        .route(
            TENANT_CLUSTERS,
            validate("TenantCluster", tenant_cluster::review),
        )
        .route(NODE_POOLS, validate("NodePool", node_pool::review))
        .with_state(shared)
}

fn validate(kind: &'static str, review: Review) -> MethodRouter<Shared> {
    post(async move |State(shared): State<Shared>, body: Body| {
        let begun = Instant::now();
        let (answer, response) = match shared.bodies.read(body).await {
            Ok(body) => respond(review, &shared.validator, &body.bytes),
            Err(refusal) => {
                // Whoever floods the webhook should not flood the log.
                tracing::debug!(%refusal, "the webhook did not read a body");
                (Answer::Unreadable, refusal.into_response())
            }
        };
        shared.reviews.count(kind, answer, begun.elapsed());
        response
    })
}

fn respond(review: Review, validator: &Validator, body: &[u8]) -> (Answer, Response) {
    let request = match read(body) {
        Ok(request) => request,
        Err(refusal) => return (Answer::Unreadable, *refusal),
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
    let reviewed = Answer::Reviewed {
        operation: request.operation,
        is_allowed: answer.allowed,
    };
    (reviewed, Json(answer.into_review()).into_response())
}

/// What is to be reviewed, or what is answered where it is nothing of the kind.
fn read(body: &[u8]) -> Result<AdmissionRequest<DynamicObject>, Box<Response>> {
    if !values::are_few(body) {
        // Not a warning: see above.
        tracing::debug!("the webhook was sent too many values");
        let why = format!("the review holds more than {} values", values::MOST);
        return Err(Box::new(
            (StatusCode::PAYLOAD_TOO_LARGE, why).into_response(),
        ));
    }
    let body: AdmissionReview<DynamicObject> = match serde_json::from_slice(body) {
        Ok(body) => body,
        // Without a UID there is nobody to answer; the API server applies its failure policy.
        Err(error) => return Err(refuse_body(&format!("not an AdmissionReview: {error}"))),
    };
    let request: Result<AdmissionRequest<DynamicObject>, _> = body.try_into();
    request.map_err(|_| refuse_body("an AdmissionReview without a request"))
}

/// As much of a sentence as a line of the log should have: it may quote what is refused, which may have
/// megabytes.
pub(super) fn shortened(sentence: &str) -> &str {
    const MOST: usize = 1000;
    let end = sentence.char_indices().nth(MOST);
    end.and_then(|(end, _)| sentence.get(..end))
        .unwrap_or(sentence)
}

fn refuse_body(why: &str) -> Box<Response> {
    // No API server sends such a thing; whoever does may do so without end.
    let said = shortened(why);
    tracing::debug!(said, "the webhook was sent something else");
    Box::new((StatusCode::BAD_REQUEST, why.to_owned()).into_response())
}
