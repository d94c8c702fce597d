//! The answer to one AdmissionReview about a TenantCluster.
//!
//! Invariant: an object that is being deleted, or whose spec stays as it is, is let through before
//! anything else is looked at; so no bad spec ever keeps a finalizer or a status from being written.

use api::TenantCluster;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, Operation};
use kube::core::response::{Status, StatusCause, StatusDetails};
use tenant_cp::validate::{Problem, admit, transition_warnings, warnings};

use super::Judge;

/// Judges one request.
#[must_use]
pub fn judge(request: &AdmissionRequest<DynamicObject>, judge: &Judge) -> AdmissionResponse {
    let allowed = AdmissionResponse::from(request);
    if !matches!(request.operation, Operation::Create | Operation::Update) {
        return allowed;
    }
    let Some(raw) = &request.object else {
        return refuse(allowed, request, &[missing()]);
    };
    let raw_old = request.old_object.as_ref();
    let same_spec = raw_old.is_some_and(|old| old.data.get("spec") == raw.data.get("spec"));
    if raw.metadata.deletion_timestamp.is_some() || same_spec {
        return allowed;
    }
    let new = match decode(raw) {
        Ok(new) => new,
        Err(problem) => return refuse(allowed, request, &[problem]),
    };
    // One that cannot be read any more (by an operator that is older than it) is no measure.
    let old = raw_old.and_then(|old| decode(old).ok());
    let problems = admit(old.as_ref(), &new, &(judge.clusters)(), &judge.settings);
    if !problems.is_empty() {
        return refuse(allowed, request, &problems);
    }
    let mut said = warnings(&new, &judge.settings);
    if let Some(old) = &old {
        said.retain(|warning| !warnings(old, &judge.settings).contains(warning));
        said.extend(transition_warnings(old, &new));
    }
    let mut allowed = allowed;
    allowed.warnings = (!said.is_empty()).then_some(said);
    allowed
}

fn decode(raw: &DynamicObject) -> Result<TenantCluster, Problem> {
    raw.clone().try_parse().map_err(|error| {
        Problem::new(
            "spec",
            "Undecodable",
            format!("the TenantCluster cannot be read: {error}; compare it with `kubectl explain tc.spec`"),
        )
    })
}

fn missing() -> Problem {
    Problem::new(
        "spec",
        "Undecodable",
        "the request holds no TenantCluster; send one",
    )
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
        reason: problem.reason.to_owned(),
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
