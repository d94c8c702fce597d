//! What the API says when it does not do something: of which kind it is, and what to change.
//!
//! Sources of the codes: AWS's documentation ("Error codes for the Amazon EC2 API", "Common errors" of the Security Token
//! Service, "Ensure idempotency in Amazon EC2 API requests").
//! Invariant: the code decides, and the status only where nobody knows the code: nothing left of a type is said with 500,
//! and that it is asked too often with 503. No code proves that a machine is gone.

use std::time::Duration;

use providers::refused::Asked;
use providers::{FaultKind, Refused};

use crate::schema::{Fault, Instance};

/// Our name.
pub const PROVIDER: &str = "aws";
/// Code of ours: pages do not end.
pub const PAGES: &str = "too_many_pages";
/// Code of ours: it is another account or region than machines were made in.
pub const OTHER_PLACE: &str = "other_account";
/// Code of ours: what the settings name is not there.
pub const NO_SUCH: &str = "no_such_name";
/// Code of ours: there is no key, or no token of another's where it should be.
pub const NO_CREDENTIALS: &str = "no_credentials";
/// What EC2 says of a call that would have been carried out and was not to be.
pub const DRY_RUN: &str = "DryRunOperation";
/// What it says of a call for which a right is missing.
pub const UNAUTHORIZED: &str = "UnauthorizedOperation";
/// What it says of a token under which something was made that ended.
pub const ENDED: &str = "IdempotentInstanceTerminated";
/// What it says of a token under which something else was asked for.
pub const MISMATCH: &str = "IdempotentParameterMismatch";

/// Most letters of the name of a right.
const LONGEST: usize = 64;
/// How long nothing of a type is asked for in a zone that has none left.
const CAPACITY: Duration = Duration::from_secs(180);
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

/// That it was not done, as the API said.
#[must_use]
pub fn answered(asked: &Asked, status: u16, fault: &Fault) -> Refused {
    let code = match fault.code.as_str() {
        "" => format!("HTTP {status}"),
        code => code.to_owned(),
    };
    let kind = kind(status, &fault.code);
    Refused {
        mend: mend(kind, &code, &fault.message),
        ..asked.refused(kind, &code, &*fault.message)
    }
}

/// Of what kind a refusal is.
#[must_use]
pub fn kind(status: u16, code: &str) -> FaultKind {
    match code {
        "EC2ThrottledException"
        | "RequestLimitExceeded"
        | "ThrottledException"
        | "Throttling"
        | "ThrottlingException" => FaultKind::Throttled { after: None },
        "InsufficientCapacity"
        | "InsufficientHostCapacity"
        | "InsufficientInstanceCapacity"
        | "InsufficientReservedInstanceCapacity"
        | "SpotMaxPriceTooLow"
        | "Unsupported" => FaultKind::Capacity {
            again: Some(CAPACITY),
        },
        "InstanceLimitExceeded"
        | "InsufficientFreeAddressesInSubnet"
        | "MaxSpotInstanceCountExceeded"
        | "PendingVerification"
        | "VcpuLimitExceeded"
        | "VolumeLimitExceeded" => FaultKind::Quota { again: Some(QUOTA) },
        "AccessDenied"
        | "AccessDeniedException"
        | "AuthFailure"
        | "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
        | "Blocked"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "IncompleteSignature"
        | "InvalidClientTokenId"
        | "InvalidIdentityToken"
        | "MissingAuthenticationToken"
        | "OptInRequired"
        | "PendingAcceptance"
        | "RegionDisabledException"
        | "RequestExpired"
        | "RequestTimeTooSkewed"
        | "SignatureDoesNotMatch"
        | UNAUTHORIZED => FaultKind::Auth,
        "InvalidInstanceID.NotFound"
        | "InvalidNetworkInterfaceID.NotFound"
        | "InvalidSpotInstanceRequestID.NotFound"
        | "InvalidVolume.NotFound" => FaultKind::NotFound,
        "DependencyViolation"
        | "IncorrectInstanceState"
        | "IncorrectState"
        | "InvalidNetworkInterface.InUse"
        | "InvalidParameterValue.NetworkInterfaceInUse"
        | "OperationNotPermitted.Busy"
        | "VolumeInUse" => FaultKind::Conflict,
        MISMATCH => FaultKind::Taken,
        ENDED => FaultKind::Gone,
        // Somebody protected it against termination.
        "OperationNotPermitted" => FaultKind::Terminal,
        "IDPCommunicationError"
        | "InternalError"
        | "InternalFailure"
        | "ServiceUnavailable"
        | "Unavailable" => FaultKind::Unavailable,
        // Of whatever stands between: it knows nothing of what there is.
        "" if status == 404 => FaultKind::Unavailable,
        _ if status == 404 => FaultKind::Terminal,
        _ => FaultKind::of_status(status),
    }
}

/// Why an instance that was made ended before anybody saw it (documentation, `StateReason`).
#[must_use]
pub fn of_reason(asked: &Asked, ended: &Instance) -> Refused {
    let (code, message) = match &ended.reason {
        Some((code, message)) => (code.as_str(), message.as_str()),
        None => (ENDED, "it was made, and has ended"),
    };
    let kind = match code {
        "Server.InsufficientInstanceCapacity" => FaultKind::Capacity {
            again: Some(CAPACITY),
        },
        "Client.VolumeLimitExceeded" => FaultKind::Quota { again: Some(QUOTA) },
        _ => FaultKind::Gone,
    };
    Refused {
        mend: mend(kind, code, message),
        ..asked.refused(kind, code, message)
    }
}

/// Whether such a refusal may be one of a session that ended or of a clock that is wrong, so that another signature is let
/// in. Nothing was done.
#[must_use]
pub fn is_of_signature(code: &str) -> bool {
    matches!(
        code,
        "AuthFailure"
            | "ExpiredToken"
            | "ExpiredTokenException"
            | "InvalidClientTokenId"
            | "RequestExpired"
            | "RequestTimeTooSkewed"
            | "SignatureDoesNotMatch"
    )
}

/// What to change so that it is done; none where nobody has to do anything. The kind decides whether somebody has to, and
/// the API's words only which of our fields is named.
fn mend(kind: FaultKind, code: &str, message: &str) -> Option<String> {
    let said = match kind {
        FaultKind::Auth => match code {
            "OptInRequired" | "RegionDisabledException" => {
                "the account may not use this region: opt in to it (Account, AWS Regions), or make a ProviderConfig of \
                 another one"
            }
            "RequestExpired" | "RequestTimeTooSkewed" => {
                "the clock is wrong by more than five minutes: set the time of the machine that the operator runs on"
            }
            UNAUTHORIZED => return Some(lacks(right(message).as_deref().unwrap_or_default())),
            "AccessDenied" | "AccessDeniedException" => {
                "give the user or the role the rights of Covey's policy (iam-policy.json)"
            }
            "Blocked" | "PendingAcceptance" => "AWS keeps the account from it: ask its support",
            _ => {
                "the key has ended or is another one: make a new one in the same account, and put it into the Secret that \
                 spec.aws.credentialsSecretName of the ProviderConfig names"
            }
        },
        FaultKind::Quota { .. } => match code {
            "InsufficientFreeAddressesInSubnet" => {
                "the subnet has no address left: name a larger one as spec.aws.subnetID of the ProviderConfig, or delete what \
                 has them"
            }
            "PendingVerification" => {
                "AWS verifies the account for this region first, which may take hours"
            }
            _ => {
                "the account may have no more of it: ask AWS for a higher quota (Service Quotas, vCPUs of the family), or \
                 name another type below spec.provider.aws.types of the node pool"
            }
        },
        FaultKind::Capacity { .. } => {
            "nothing of this type is to be had in the zone now: name more types below spec.provider.aws.types of the node \
             pool, or a ProviderConfig of another zone"
        }
        FaultKind::Taken => {
            "something else was asked for under this Machine's UID before, since its settings changed: delete the Machine \
             to have it replaced"
        }
        FaultKind::Gone => "delete the Machine to have it replaced",
        FaultKind::Terminal if code == "OperationNotPermitted" => {
            "somebody protected it against termination: take that off, since Covey does not"
        }
        FaultKind::Terminal => {
            let text = format!("{code} {message}");
            let field = FIELDS.iter().find(|(theirs, _)| text.contains(theirs));
            return Some(match field {
                Some((_, ours)) => format!("change {ours}"),
                None => format!("EC2 does not take what was sent ({code})"),
            });
        }
        FaultKind::Throttled { .. }
        | FaultKind::Unavailable
        | FaultKind::NotFound
        | FaultKind::Conflict => return None,
    };
    Some(said.to_owned())
}

/// The right that is missing, as EC2's sentence names it: `… is not authorized to perform: ec2:RunInstances on resource: …`.
#[must_use]
pub fn right(message: &str) -> Option<String> {
    let (_, from) = message.split_once("to perform: ec2:")?;
    let is_of_it = |c: &char| c.is_ascii_alphanumeric();
    let action: String = from.chars().take_while(is_of_it).take(LONGEST).collect();
    (!action.is_empty()).then(|| format!("ec2:{action}"))
}

/// What to do about rights that are missing; empty: it is not known which.
#[must_use]
pub fn lacks(rights: &str) -> String {
    let which = match rights {
        "" => String::new(),
        rights => format!(" {rights}, with"),
    };
    format!(
        "give the user or the role{which} the rights of Covey's policy (iam-policy.json), on what the ProviderConfig names"
    )
}

/// What the API's codes and sentences name, and which of our settings decides each.
const FIELDS: [(&str, &str); 9] = [
    ("InvalidAMI", IMAGE),
    ("ImageId", IMAGE),
    ("InvalidSubnet", "spec.aws.subnetID of the ProviderConfig"),
    (
        "InvalidGroup",
        "spec.aws.securityGroupIDs of the ProviderConfig",
    ),
    ("UserData", USER_DATA),
    ("User data", USER_DATA),
    (
        "BlockDevice",
        "the size of the disk (spec.provider.aws.diskGiB), or spec.aws.rootDevice of the ProviderConfig",
    ),
    ("InstanceType", TYPE),
    ("nstance type", TYPE),
];

const IMAGE: &str = "the image of the node pool, or spec.aws.images of the ProviderConfig";
const TYPE: &str = "the type of the node pool (spec.provider.aws.types)";
const USER_DATA: &str =
    "what makes the user data long: labels, taints, files and SSH keys of the node pool";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_decides_and_the_status_only_where_nobody_knows_it() {
        for (status, code, expected) in [
            (
                503,
                "RequestLimitExceeded",
                FaultKind::Throttled { after: None },
            ),
            (
                500,
                "InsufficientInstanceCapacity",
                FaultKind::Capacity {
                    again: Some(CAPACITY),
                },
            ),
            (
                400,
                "VcpuLimitExceeded",
                FaultKind::Quota { again: Some(QUOTA) },
            ),
            (403, "UnauthorizedOperation", FaultKind::Auth),
            (401, "AuthFailure", FaultKind::Auth),
            (400, "RequestExpired", FaultKind::Auth),
            (401, "OptInRequired", FaultKind::Auth),
            (400, "InvalidAMIID.NotFound", FaultKind::Terminal),
            (400, "InvalidAMIID.Malformed", FaultKind::Terminal),
            (400, "InvalidInstanceID.NotFound", FaultKind::NotFound),
            (400, MISMATCH, FaultKind::Taken),
            (400, ENDED, FaultKind::Gone),
            (503, "Unavailable", FaultKind::Unavailable),
            (500, "Novel", FaultKind::Unavailable),
            (400, "Novel", FaultKind::Terminal),
            (404, "", FaultKind::Unavailable),
        ] {
            assert_eq!(kind(status, code), expected, "{status} {code}");
        }
    }

    #[test]
    fn vendors_code_is_kept_and_our_setting_is_named() {
        for (code, message, ours) in [
            ("InvalidAMIID.NotFound", "m", "image of the node pool"),
            ("InvalidSubnetID.NotFound", "m", "spec.aws.subnetID"),
            ("InvalidGroup.NotFound", "m", "spec.aws.securityGroupIDs"),
            (
                "InvalidParameterValue",
                "Invalid instance type: x",
                "type of the node pool",
            ),
            ("InvalidUserData.Malformed", "m", "labels, taints"),
            ("OperationNotPermitted", "m", "protected"),
            ("InvalidBlockDeviceMapping", "m", "spec.aws.rootDevice"),
            ("UnauthorizedOperation", "m", "iam-policy.json"),
            ("AuthFailure", "m", "spec.aws.credentialsSecretName"),
            ("OptInRequired", "m", "region"),
            ("RequestExpired", "m", "clock"),
            ("VcpuLimitExceeded", "m", "quota"),
        ] {
            let fault = Fault {
                code: code.to_owned(),
                message: message.to_owned(),
            };
            let told = answered(&asked("create", "instance a"), 400, &fault).to_string();
            assert!(told.contains(code) && told.contains(ours), "{told}");
        }
    }

    #[test]
    fn right_that_is_missing_is_read_from_the_sentence() {
        let why = "You are not authorized to perform this operation. User: arn:aws:iam::111111111111:user/covey is not \
                   authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:eu-central-1:111111111111:subnet/s \
                   because no identity-based policy allows the ec2:RunInstances action.";
        assert_eq!(right(why).as_deref(), Some("ec2:RunInstances"));
        assert_eq!(
            right("You are not authorized to perform this operation."),
            None
        );
        assert_eq!(
            right("User: arn:aws:ec2:a is not authorized to perform: ec2:"),
            None
        );
        let fault = Fault {
            code: UNAUTHORIZED.to_owned(),
            message: why.to_owned(),
        };
        let told = answered(&asked("create", "instance a"), 403, &fault).to_string();
        assert!(told.contains("the role ec2:RunInstances, with"), "{told}");
    }

    #[test]
    fn instance_that_ended_says_why_and_of_what_kind_that_is() {
        let asked = asked("create", "instance a");
        let of = |code: Option<&str>| {
            let reason = code.map(|code| (code.to_owned(), "m".to_owned()));
            let ended = Instance {
                reason,
                ..Instance::default()
            };
            of_reason(&asked, &ended).kind
        };
        let capacity = of(Some("Server.InsufficientInstanceCapacity"));
        assert!(matches!(capacity, FaultKind::Capacity { .. }));
        let quota = of(Some("Client.VolumeLimitExceeded"));
        assert!(matches!(quota, FaultKind::Quota { .. }));
        assert_eq!(of(Some("Server.SpotInstanceTermination")), FaultKind::Gone);
        assert_eq!(of(None), FaultKind::Gone);
    }
}
