//! What the API says when it does not do something: of which kind it is, and what to change.
//!
//! Sources of the codes: the documentation of the API ("Handle API responses and errors", "Troubleshoot resource
//! availability", "Allocation quotas").
//! Invariant: the reason decides, and the status only where nobody knows the reason; 403 alone has three meanings. No
//! answer, half an answer and one that cannot be read never say that nothing was done.

use std::time::Duration;

use providers::{FaultKind, Refused};

use crate::schema::{Fault, Operation};

/// Our name.
pub const PROVIDER: &str = "gcp";
/// Code of ours: pages do not end.
pub const PAGES: &str = "too_many_pages";
/// Code of ours: a part of a list could not be asked.
pub const PARTIAL: &str = "partial_list";
/// Code of ours: the project, or its zone, is another one than machines were made in.
pub const OTHER_PROJECT: &str = "other_project";
/// Code of ours: what the settings name is not there.
pub const NO_SUCH: &str = "no_such_name";
/// Code of ours: the key of the service account cannot be used.
pub const NO_CREDENTIALS: &str = "no_credentials";
/// Code of ours: it was made and has ended.
pub const ENDED: &str = "instance_has_ended";

/// How long nothing of a size is asked for in a zone that has none left.
pub const CAPACITY: Duration = Duration::from_secs(180);
/// How long nothing is asked for that the project may not have.
const QUOTA: Duration = Duration::from_secs(600);

/// What was asked, for sentences.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Asked {
    /// `create`, `delete`, `list`, `read`, `restart`, `use`.
    pub verb: &'static str,
    /// `instance a`.
    pub object: String,
}

impl Asked {
    /// From its parts.
    #[must_use]
    pub fn new(verb: &'static str, object: impl Into<String>) -> Self {
        let object = object.into();
        Self { verb, object }
    }

    /// That it was not done, in our own words.
    #[must_use]
    pub fn refused(&self, kind: FaultKind, code: &str, message: impl Into<String>) -> Refused {
        Refused {
            provider: PROVIDER,
            verb: self.verb,
            object: self.object.clone(),
            kind,
            code: code.to_owned(),
            message: message.into(),
            request: None,
            mend: None,
        }
    }

    /// That it was not done, as the API said at once. `after`: how long everything pauses, where it is asked too often.
    #[must_use]
    pub fn answered(&self, status: u16, fault: &Fault, after: Option<Duration>) -> Refused {
        let reason = fault.errors.first().map(|detail| detail.reason.as_str());
        let reason = reason.unwrap_or_default();
        let code = match reason {
            "" => format!("HTTP {status}"),
            reason => reason.to_owned(),
        };
        let kind = kind(status, reason, after);
        Refused {
            mend: mend(kind, &code, &fault.message),
            ..self.refused(kind, &code, &*fault.message)
        }
    }

    /// That it was not done, as the operation said that it became; none where it has not failed.
    #[must_use]
    pub fn failed(&self, operation: &Operation) -> Option<Refused> {
        let error = operation.error.as_ref()?;
        let (code, message) = match error.errors.first() {
            Some(first) => (first.code.as_str(), first.message.as_str()),
            None => ("", ""),
        };
        let kind = kind_of_operation(operation.http_error_status_code.unwrap_or(500), code);
        Some(Refused {
            mend: mend(kind, code, message),
            ..self.refused(kind, code, message)
        })
    }
}

/// Of what kind a refusal is.
#[must_use]
pub fn kind(status: u16, reason: &str, after: Option<Duration>) -> FaultKind {
    match reason {
        "rateLimitExceeded" | "userRateLimitExceeded" => FaultKind::Throttled { after },
        "authError" | "forbidden" | "required" | "accessNotConfigured" | "SERVICE_DISABLED" => {
            FaultKind::Auth
        }
        "quotaExceeded" | "limitExceeded" => FaultKind::Quota { again: Some(QUOTA) },
        "notFound" => FaultKind::NotFound,
        "alreadyExists" => FaultKind::Taken,
        "conditionNotMet" | "resourceNotReady" | "resourceInUseByAnotherResource" => {
            FaultKind::Conflict
        }
        "backendError" | "internalError" => FaultKind::Unavailable,
        "invalid" | "badRequest" | "invalidParameter" | "parseError" => FaultKind::Terminal,
        _ => match FaultKind::of_status(status) {
            FaultKind::Throttled { .. } => FaultKind::Throttled { after },
            kind => kind,
        },
    }
}

/// Of what kind the end of an operation is. `status`: the one of HTTP that it would have had.
#[must_use]
pub fn kind_of_operation(status: u16, code: &str) -> FaultKind {
    match code {
        "ZONE_RESOURCE_POOL_EXHAUSTED"
        | "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
        | "REGION_RESOURCE_POOL_EXHAUSTED"
        | "RESOURCE_POOL_EXHAUSTED" => FaultKind::Capacity {
            again: Some(CAPACITY),
        },
        "QUOTA_EXCEEDED" | "IP_SPACE_EXHAUSTED" | "LIMIT_EXCEEDED" => {
            FaultKind::Quota { again: Some(QUOTA) }
        }
        "RATE_LIMIT_EXCEEDED" => FaultKind::Throttled { after: None },
        "PERMISSIONS_ERROR" => FaultKind::Auth,
        "RESOURCE_ALREADY_EXISTS" => FaultKind::Taken,
        "RESOURCE_NOT_READY" | "CONDITION_NOT_MET" | "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE" => {
            FaultKind::Conflict
        }
        "RESOURCE_NOT_FOUND" | "INVALID_USAGE" | "INVALID_FIELD_VALUE" => FaultKind::Terminal,
        "INTERNAL_ERROR" => FaultKind::Unavailable,
        _ => FaultKind::of_status(status),
    }
}

/// What to change so that it is done; none where nobody has to do anything. The kind decides whether somebody has to, and
/// the API's sentence only which of our fields is named.
fn mend(kind: FaultKind, code: &str, message: &str) -> Option<String> {
    let said = match kind {
        FaultKind::Auth => {
            "give the service account the permissions that Covey needs in the project, and see that the API of Compute \
             Engine is switched on there; a key that was deleted has to be made anew, and put into the Secret that \
             spec.gcp.keySecretName of the ProviderConfig names"
        }
        FaultKind::Quota { .. } => {
            "the project has as much as it may have: delete some, or ask Google for a higher quota (console, Quotas)"
        }
        FaultKind::Capacity { .. } => {
            "nothing of this size is left in the zone now: name more sizes below spec.provider.gcp.types of the node pool, or a \
             ProviderConfig of another zone"
        }
        FaultKind::Taken => "there is another one of the same name: delete it",
        FaultKind::Gone => "delete the Machine to have it replaced",
        FaultKind::Terminal => {
            let field = FIELDS.iter().find(|(theirs, _)| message.contains(theirs));
            return Some(match field {
                Some((_, ours)) => format!("change {ours}"),
                None => format!("Google does not take what was sent ({code})"),
            });
        }
        FaultKind::Throttled { .. }
        | FaultKind::Unavailable
        | FaultKind::NotFound
        | FaultKind::Conflict => return None,
    };
    Some(said.to_owned())
}

/// Fields of a call as the API's sentences name them, and which of our settings decides each.
const FIELDS: [(&str, &str); 8] = [
    ("deletion", "its protection against deletion in the console"),
    (
        "machineType",
        "the size of the node pool (spec.provider.gcp.types)",
    ),
    (
        "image",
        "the image of the node pool, or spec.gcp.images of the ProviderConfig",
    ),
    ("subnetwork", "spec.gcp.subnet of the ProviderConfig"),
    ("tags", "spec.gcp.networkTags of the ProviderConfig"),
    ("zone", "the zone: another one is another ProviderConfig"),
    (
        "metadata",
        "what makes the user data long: labels, taints, files and SSH keys of the node pool",
    ),
    ("disk", "the size of the disk (spec.provider.gcp.diskGiB)"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Detail, OperationError, OperationFault};

    #[test]
    fn reason_decides_and_403_has_three_meanings() {
        let after = Some(Duration::from_secs(3));
        let kind = |status, reason| kind(status, reason, after);
        assert_eq!(
            kind(403, "rateLimitExceeded"),
            FaultKind::Throttled { after }
        );
        assert_eq!(kind(403, "forbidden"), FaultKind::Auth);
        assert!(matches!(
            kind(403, "quotaExceeded"),
            FaultKind::Quota { .. }
        ));
        assert_eq!(kind(401, "authError"), FaultKind::Auth);
        assert_eq!(kind(409, "alreadyExists"), FaultKind::Taken);
        assert_eq!(kind(400, "resourceNotReady"), FaultKind::Conflict);
        assert_eq!(kind(400, "invalid"), FaultKind::Terminal);
        assert_eq!(kind(503, ""), FaultKind::Unavailable);
        assert_eq!(kind(429, ""), FaultKind::Throttled { after });
        assert_eq!(kind(503, "novel"), FaultKind::Unavailable);
    }

    #[test]
    fn operation_that_failed_is_told_by_its_code() {
        let operation = |code: &str| Operation {
            status: "DONE".to_owned(),
            error: Some(OperationError {
                errors: vec![OperationFault {
                    code: code.to_owned(),
                    message: "m".to_owned(),
                }],
            }),
            http_error_status_code: Some(503),
            ..Operation::default()
        };
        let asked = Asked::new("create", "instance a");
        for code in [
            "ZONE_RESOURCE_POOL_EXHAUSTED",
            "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
        ] {
            let refused = asked.failed(&operation(code)).unwrap();
            assert!(matches!(refused.kind, FaultKind::Capacity { .. }));
            assert!(refused.to_string().contains(code), "{refused}");
        }
        let refused = asked.failed(&operation("QUOTA_EXCEEDED")).unwrap();
        assert!(matches!(refused.kind, FaultKind::Quota { .. }));
        let refused = asked.failed(&operation("NOVEL")).unwrap();
        assert_eq!(refused.kind, FaultKind::Unavailable);
        assert_eq!(asked.failed(&Operation::default()), None);
    }

    #[test]
    fn sentence_names_our_setting() {
        let fault = |message: &str| Fault {
            message: message.to_owned(),
            errors: vec![Detail {
                reason: "invalid".to_owned(),
            }],
        };
        let asked = Asked::new("create", "instance a");
        for (field, ours) in [
            ("resource.machineType", "size of the node pool"),
            ("resource.networkInterfaces[0].subnetwork", "subnet"),
            ("resource.metadata.items[0].value", "labels, taints"),
        ] {
            let message = format!("Invalid value for field '{field}': x");
            let told = asked.answered(400, &fault(&message), None).to_string();
            assert!(told.contains("invalid") && told.contains(ours), "{told}");
        }
    }
}
