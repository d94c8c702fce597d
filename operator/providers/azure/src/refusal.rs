//! What the API says when it does not do something: of which kind it is, and what to change.
//!
//! Sources of the codes: Azure's documentation ("Common Azure deployment errors", "Resolve errors for SKU not available",
//! "Troubleshoot allocation failures", "Microsoft Entra authentication and authorization error codes").
//! Invariant: the code decides, and the status only where nobody knows the code. Only `ResourceNotFound` says that
//! something is not there: a subscription or a group that is not found says nothing of what is in it. A quota is told
//! apart from a conflict by Azure's sentence alone, because both have one code (`OperationNotAllowed`).

use std::time::Duration;

use providers::refused::Asked;
use providers::{FaultKind, Refused};

use crate::schema::Fault;

/// Our name.
pub const PROVIDER: &str = "azure";
/// Code of ours: pages do not end, or lead elsewhere.
pub const PAGES: &str = "too_many_pages";
/// Code of ours: the resource group is another one than machines were made in.
pub const OTHER_PLACE: &str = "other_resource_group";
/// Code of ours: what the settings name is not there.
pub const NO_SUCH: &str = "no_such_name";
/// Code of ours: no token of another's is where it should be.
pub const NO_CREDENTIALS: &str = "no_credentials";
/// Code of ours: it was made and has ended.
pub const ENDED: &str = "machine_has_ended";
/// Code of ours: it failed, and nobody said why.
pub const FAILED: &str = "failed_without_a_code";

/// How long nothing of a size is asked for in a location that has none left.
const CAPACITY: Duration = Duration::from_secs(600);
/// How long nothing of a size is asked for that the subscription may not have.
const SKU: Duration = Duration::from_hours(1);
/// How long nothing is asked for that would be too much.
const QUOTA: Duration = Duration::from_secs(600);

/// What was asked.
#[must_use]
pub fn asked(verb: &'static str, object: impl Into<String>) -> Asked {
    Asked {
        provider: PROVIDER,
        verb,
        object: object.into(),
    }
}

/// That it was not done, as the API said. `status`: of HTTP; of an operation that failed, 500. `after`: how long such calls
/// pause, where it is asked too often.
#[must_use]
pub fn answered(asked: &Asked, status: u16, fault: &Fault, after: Option<Duration>) -> Refused {
    let code = match fault.code.as_str() {
        "" => format!("HTTP {status}"),
        code => code.to_owned(),
    };
    let kind = kind(status, fault, after);
    Refused {
        mend: mend(kind, &code, &fault.message),
        ..asked.refused(kind, &code, &*fault.message)
    }
}

/// Of what kind a refusal is.
#[must_use]
pub fn kind(status: u16, fault: &Fault, after: Option<Duration>) -> FaultKind {
    if status == 429 {
        return FaultKind::Throttled { after };
    }
    match fault.code.as_str() {
        "AuthenticationFailed"
        | "AuthorizationFailed"
        | "ExpiredAuthenticationToken"
        | "InvalidAuthenticationToken"
        | "InvalidAuthenticationTokenTenant"
        | "InvalidSubscriptionId"
        | "LinkedAuthorizationFailed"
        | "MissingSubscriptionRegistration"
        | "ReadOnlyDisabledSubscription"
        | "ResourceGroupNotFound"
        | "SubscriptionNotFound"
        | "SubscriptionNotRegistered" => FaultKind::Auth,
        "SkuNotAvailable" => FaultKind::Capacity { again: Some(SKU) },
        "AllocationFailed"
        | "OverconstrainedAllocationRequest"
        | "OverconstrainedZonalAllocationRequest"
        | "ZonalAllocationFailed" => FaultKind::Capacity {
            again: Some(CAPACITY),
        },
        "OperationNotAllowed" if fault.message.to_lowercase().contains("quota") => {
            FaultKind::Quota { again: Some(QUOTA) }
        }
        "PublicIPCountLimitReached" | "QuotaExceeded" | "SubnetIsFull" => {
            FaultKind::Quota { again: Some(QUOTA) }
        }
        "ResourceNotFound" | "NotFound" => FaultKind::NotFound,
        "PreconditionFailed" => FaultKind::Taken,
        "AnotherOperationInProgress"
        | "Conflict"
        | "ConflictingUserInput"
        | "NicInUse"
        | "NicReservedForAnotherVm"
        | "OperationNotAllowed"
        | "OperationPreempted"
        | "PublicIPAddressCannotBeDeleted"
        | "RetryableError"
        | "RetryableErrorDueToAnotherOperation" => FaultKind::Conflict,
        "InternalExecutionError" | "InternalServerError" | "ServerTimeout" | FAILED => {
            FaultKind::Unavailable
        }
        "ScopeLocked" => FaultKind::Terminal,
        // Of whatever stands between: it knows nothing of what there is.
        "" if status == 404 => FaultKind::Unavailable,
        _ if status == 404 => FaultKind::Terminal,
        _ => FaultKind::of_status(status),
    }
}

/// What to change so that it is done; none where nobody has to do anything. The kind decides whether somebody has to, and
/// the API's sentence only which of our fields is named.
fn mend(kind: FaultKind, code: &str, message: &str) -> Option<String> {
    let said = match kind {
        FaultKind::Auth => {
            "see that subscription, resource group and tenant are the right ones, and that the principal has Covey's role \
             there; a secret that has ended has to be made anew, and put into the Secret that \
             spec.azure.credentialsSecretName of the ProviderConfig names"
        }
        FaultKind::Quota { .. } => {
            "there is as much as there may be: delete some, or ask Azure for a higher quota (portal, Quotas), or name a \
             larger subnet as spec.azure.subnetID of the ProviderConfig"
        }
        FaultKind::Capacity { .. } => {
            "nothing of this size is to be had there now: name more sizes below spec.provider.azure.types of the node pool, or \
             a ProviderConfig of another zone or location"
        }
        FaultKind::Taken => "there is another one of the same name: delete it",
        FaultKind::Gone => "delete the Machine to have it replaced",
        FaultKind::Terminal if code == "ScopeLocked" => {
            "somebody locked it against deletion: take the lock off, since Covey does not"
        }
        FaultKind::Terminal => {
            let text = format!("{code} {message}");
            let field = FIELDS.iter().find(|(theirs, _)| text.contains(theirs));
            return Some(match field {
                Some((_, ours)) => format!("change {ours}"),
                None => format!("Azure does not take what was sent ({code})"),
            });
        }
        FaultKind::Throttled { .. }
        | FaultKind::Unavailable
        | FaultKind::NotFound
        | FaultKind::Conflict => return None,
    };
    Some(said.to_owned())
}

/// What the API's codes and sentences name, and which of our settings decides each.
const FIELDS: [(&str, &str); 10] = [
    (
        "vmSize",
        "the size of the node pool (spec.provider.azure.types)",
    ),
    (
        "diskSize",
        "the size of the disk (spec.provider.azure.diskGiB)",
    ),
    ("Image", IMAGE),
    ("image", IMAGE),
    (
        "networkSecurityGroup",
        "spec.azure.securityGroupID of the ProviderConfig",
    ),
    ("subnet", "spec.azure.subnetID of the ProviderConfig"),
    ("ssh", "spec.azure.sshKey of the ProviderConfig"),
    (
        "userData",
        "what makes the user data long: labels, taints, files and SSH keys of the node pool",
    ),
    (
        "Location",
        "the location: another one is another ProviderConfig",
    ),
    ("zone", "the zone: another one is another ProviderConfig"),
];
const IMAGE: &str = "the image of the node pool, or spec.azure.images of the ProviderConfig";

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(code: &str, message: &str) -> Fault {
        Fault {
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn code_decides_and_not_found_has_four_meanings() {
        let after = Some(Duration::from_secs(3));
        let of = |status, code| kind(status, &fault(code, "m"), after);
        assert_eq!(of(404, "ResourceNotFound"), FaultKind::NotFound);
        for code in ["ResourceGroupNotFound", "SubscriptionNotFound"] {
            assert_eq!(of(404, code), FaultKind::Auth, "{code}");
        }
        assert_eq!(of(404, "GalleryImageNotFound"), FaultKind::Terminal);
        assert_eq!(of(404, ""), FaultKind::Unavailable, "of a proxy");
        assert!(matches!(
            of(409, "SkuNotAvailable"),
            FaultKind::Capacity { .. }
        ));
        assert!(matches!(
            of(500, "ZonalAllocationFailed"),
            FaultKind::Capacity { .. }
        ));
        assert_eq!(
            of(429, "OperationNotAllowed"),
            FaultKind::Throttled { after }
        );
        assert_eq!(of(412, "PreconditionFailed"), FaultKind::Taken);
        assert_eq!(of(400, "NicReservedForAnotherVm"), FaultKind::Conflict);
        assert_eq!(of(400, "InvalidParameter"), FaultKind::Terminal);
        assert_eq!(of(503, "Novel"), FaultKind::Unavailable);
        assert_eq!(of(409, "Novel"), FaultKind::Conflict);
    }

    #[test]
    fn quota_is_told_from_a_conflict_by_the_sentence() {
        let quota = fault("OperationNotAllowed", "exceeding approved Cores Quota");
        assert!(matches!(kind(409, &quota, None), FaultKind::Quota { .. }));
        let busy = fault("OperationNotAllowed", "The disk is attached");
        assert_eq!(kind(409, &busy, None), FaultKind::Conflict);
    }

    #[test]
    fn sentence_names_our_setting() {
        for (code, message, ours) in [
            (
                "InvalidParameter",
                "parameter vmSize is invalid",
                "size of the node pool",
            ),
            ("GalleryImageNotFound", "m", "image of the node pool"),
            ("InvalidResourceReference", "subnet refers to", "subnet"),
            ("InvalidParameter", "userData is too long", "labels, taints"),
            ("ScopeLocked", "m", "locked"),
        ] {
            let asked = asked("create", "virtual machine a");
            let told = answered(&asked, 400, &fault(code, message), None).to_string();
            assert!(told.contains(code) && told.contains(ours), "{told}");
        }
    }
}
