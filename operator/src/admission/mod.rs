//! The validating webhook: an HTTPS endpoint in every replica, and its certificate.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`tenant_cluster`], [`node_pool`] | the answer to one AdmissionReview (pure) |
//! | [`certificate`] | what the serving certificate and `caBundle` should be, step by step (pure) |
//! | [`serve`] | the server, and the loop that takes those steps (thin) |
//!
//! Invariant: the webhook decides from memory alone; it never calls the API while it answers.

mod answer;
pub mod certificate;
pub mod node_pool;
pub mod serve;
pub mod tenant_cluster;

use std::sync::Arc;

use api::{NodePool, TenantCluster};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{MethodRouter, post};
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};
use tenant_cp::Settings;

/// Path of the webhook for TenantClusters, as in the chart's ValidatingWebhookConfiguration.
pub const TENANT_CLUSTERS: &str = "/validate/tenantclusters";
/// Path of the webhook for NodePools.
pub const NODE_POOLS: &str = "/validate/nodepools";
/// Largest body: what the API server itself takes (`MaxRequestBodyBytes`).
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// What the webhook judges with.
#[derive(Clone)]
pub struct Judge {
    /// Configuration of the operator.
    pub settings: Arc<Settings>,
    /// All TenantClusters as last seen, from memory.
    pub clusters: Arc<dyn Fn() -> Vec<Arc<TenantCluster>> + Send + Sync>,
    /// All NodePools as last seen, from memory.
    pub pools: Arc<dyn Fn() -> Vec<Arc<NodePool>> + Send + Sync>,
}

/// What answers about one kind.
type Answer = fn(&AdmissionRequest<DynamicObject>, &Judge) -> AdmissionResponse;

/// The routes of the webhook.
pub fn router(judge: Judge) -> Router {
    Router::new()
        .route(TENANT_CLUSTERS, validate(tenant_cluster::judge))
        .route(NODE_POOLS, validate(node_pool::judge))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(judge)
}

fn validate(answer: Answer) -> MethodRouter<Judge> {
    post(async move |State(judge): State<Judge>, body: Bytes| respond(answer, &judge, &body))
}

fn respond(answer: Answer, judge: &Judge, body: &[u8]) -> Response {
    let review: AdmissionReview<DynamicObject> = match serde_json::from_slice(body) {
        Ok(review) => review,
        // Without a UID there is nobody to answer; the API server applies its failure policy.
        Err(error) => return refuse_body(&format!("not an AdmissionReview: {error}")),
    };
    let request: AdmissionRequest<DynamicObject> = match review.try_into() {
        Ok(request) => request,
        Err(_) => return refuse_body("an AdmissionReview without a request"),
    };
    let answer = answer(&request, judge);
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

#[cfg(test)]
mod tests;
