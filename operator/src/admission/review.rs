//! Review of one object: what the answers to AdmissionReviews of all kinds have in common.
//!
//! Invariant: an object that is being deleted, or whose spec stays as it is, is let through before
//! anything else is looked at; so no bad spec ever keeps a finalizer or a status from being written.

use api::Reason;
use kube::Resource;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, Operation};
use kube::core::response::{Status, StatusCause, StatusDetails};
use serde::de::DeserializeOwned;
use tenant_cp::problem::Problem;

/// What is said about one object.
#[derive(Debug, Default)]
pub(super) struct Opinion {
    /// Why it is refused; empty where it is let in.
    pub(super) problems: Vec<Problem>,
    /// What is said to whoever is let in.
    pub(super) warnings: Vec<String>,
}

/// How a kind is called in messages.
pub(super) struct Kind {
    /// Example: `TenantCluster`.
    pub(super) name: &'static str,
    /// What `kubectl explain` knows it by. Example: `tc`.
    pub(super) short: &'static str,
}

/// Answers one request by what `opinion` says of the old object, if there is one that can be read, and
/// the new one.
pub(super) fn review<K: DeserializeOwned + Resource>(
    kind: &Kind,
    request: &AdmissionRequest<DynamicObject>,
    opinion: impl FnOnce(Option<&K>, &K) -> Opinion,
) -> AdmissionResponse {
    let mut allowed = AdmissionResponse::from(request);
    if !matches!(request.operation, Operation::Create | Operation::Update) {
        return allowed;
    }
    let Some(raw) = &request.object else {
        return refuse(allowed, request, &[missing(kind)]);
    };
    let raw_old = request.old_object.as_ref();
    let same_spec = raw_old.is_some_and(|old| old.data.get("spec") == raw.data.get("spec"));
    if raw.metadata.deletion_timestamp.is_some() || same_spec {
        return allowed;
    }
    let new: K = match decode(kind, raw) {
        Ok(new) => new,
        Err(problem) => return refuse(allowed, request, &[problem]),
    };
    // One that cannot be read any more (by an operator that is older than it) is no measure.
    let old: Option<K> = raw_old.and_then(|old| decode(kind, old).ok());
    let Opinion { problems, warnings } = opinion(old.as_ref(), &new);
    if !problems.is_empty() {
        return refuse(allowed, request, &problems);
    }
    allowed.warnings = (!warnings.is_empty()).then_some(warnings);
    allowed
}

fn decode<K: DeserializeOwned + Resource>(kind: &Kind, raw: &DynamicObject) -> Result<K, Problem> {
    let Kind { name, short } = kind;
    raw.clone().try_parse().map_err(|error| {
        let message = format!(
            "the {name} cannot be read: {error}; compare it with `kubectl explain {short}.spec`"
        );
        Problem::new("spec", Reason::Undecodable, message)
    })
}

fn missing(kind: &Kind) -> Problem {
    let message = format!("the request holds no {}; send one", kind.name);
    Problem::new("spec", Reason::Undecodable, message)
}

/// Refuses as the API server itself refuses what is invalid: kubectl then shows each cause in a
/// line of its own.
fn refuse(
    mut answer: AdmissionResponse,
    request: &AdmissionRequest<DynamicObject>,
    problems: &[Problem],
) -> AdmissionResponse {
    let sentences: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let causes = problems.iter().map(|problem| StatusCause {
        reason: problem.reason.as_str().to_owned(),
        message: problem.message.clone(),
        field: problem.field.clone(),
    });
    let details = StatusDetails {
        name: request.name.clone(),
        group: api::GROUP.to_owned(),
        kind: request.kind.kind.clone(),
        causes: causes.collect(),
        uid: String::new(),
        retry_after_seconds: 0,
    };
    answer.allowed = false;
    answer.result = Status::failure(&sentences.join("; "), "Invalid")
        .with_code(422)
        .with_details(details);
    answer
}
