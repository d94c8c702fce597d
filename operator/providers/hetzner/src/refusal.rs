//! What the API says when it does not do something: of which kind it is, and what to change.
//!
//! Sources of the codes: the API's documentation ("Errors", `POST /servers`, "Rate Limiting") and Hetzner's own client
//! (hcloud-go, `hcloud/error.go`).
//! Invariant: the code decides, and the status only where nobody knows the code; no answer, half an answer and one that
//! cannot be read never say that nothing was done.

use std::time::Duration;

use providers::{FaultKind, Refused};

use crate::schema::Fault;

/// Our name.
pub const PROVIDER: &str = "hetzner";
/// Code of ours: pages do not end.
pub const PAGES: &str = "too_many_pages";
/// Code of ours: the token is of another project.
pub const OTHER_PROJECT: &str = "other_project";
/// Code of ours: what the settings name is not there.
pub const NO_SUCH: &str = "no_such_name";

/// How long nothing of a size is asked for in a location that has none left.
const CAPACITY: Duration = Duration::from_secs(180);
/// How long nothing is asked for that the account may not have.
const QUOTA: Duration = Duration::from_secs(600);

/// What was asked, for sentences.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Asked {
    /// `create`, `delete`, `list`, `read`, `restart`.
    pub verb: &'static str,
    /// `server a`.
    pub object: String,
}

impl Asked {
    /// From its parts.
    #[must_use]
    pub fn new(verb: &'static str, object: impl Into<String>) -> Self {
        Self {
            verb,
            object: object.into(),
        }
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

    /// That it was not done, as the API said.
    #[must_use]
    pub fn answered(
        &self,
        status: u16,
        fault: &Fault,
        after: Option<Duration>,
        request: Option<String>,
    ) -> Refused {
        let code = match fault.code.as_str() {
            "" => format!("HTTP {status}"),
            code => code.to_owned(),
        };
        Refused {
            request,
            mend: mend(fault),
            ..self.refused(kind(status, &fault.code, after), &code, &*fault.message)
        }
    }
}

/// Of what kind it is.
#[must_use]
pub fn kind(status: u16, code: &str, after: Option<Duration>) -> FaultKind {
    match code {
        "rate_limit_exceeded" => FaultKind::Throttled { after },
        "unauthorized" | "forbidden" | "token_readonly" => FaultKind::Auth,
        "not_found" => FaultKind::NotFound,
        "resource_unavailable" | "placement_error" => FaultKind::Capacity {
            again: Some(CAPACITY),
        },
        "resource_limit_exceeded" | "no_subnet_available" | "ip_not_available" => {
            FaultKind::Quota { again: Some(QUOTA) }
        }
        "uniqueness_error" => FaultKind::Taken,
        "locked"
        | "conflict"
        | "must_be_unassigned"
        | "primary_ip_assigned"
        | "primary_ip_already_assigned"
        | "server_not_stopped" => FaultKind::Conflict,
        "server_error" | "service_error" | "unknown_error" | "unavailable" | "maintenance"
        | "timeout" | "bad_gateway" => FaultKind::Unavailable,
        "invalid_input"
        | "json_error"
        | "invalid_server_type"
        | "unsupported_error"
        | "deprecated_api_endpoint"
        | "protected"
        | "resource_locked"
        | "primary_ip_datacenter_mismatch"
        | "primary_ip_version_mismatch" => FaultKind::Terminal,
        _ => match FaultKind::of_status(status) {
            FaultKind::Throttled { .. } => FaultKind::Throttled { after },
            kind => kind,
        },
    }
}

/// What to change so that it is done; none where nobody has to do anything.
fn mend(fault: &Fault) -> Option<String> {
    let said = match fault.code.as_str() {
        "unauthorized" => {
            "the token is unknown or was taken back: put a new one of the same project into the Secret that \
             spec.hetzner.tokenSecretName of the ProviderConfig names"
        }
        "forbidden" | "token_readonly" => {
            "the token may only read: put one with the permission Read & Write into the Secret that \
             spec.hetzner.tokenSecretName of the ProviderConfig names"
        }
        "resource_limit_exceeded" => {
            return Some(format!(
                "the project has as many as it may have{}: delete some, or ask Hetzner for a higher limit (console, \
                 Limits)",
                named(fault, "limits")
            ));
        }
        "no_subnet_available" | "ip_not_available" => {
            "the network has no address left: add a subnet to the one that spec.hetzner.network of the ProviderConfig \
             names"
        }
        "resource_unavailable" | "placement_error" => {
            "nothing of this size is left there now: name more sizes in types of the node pool, or another location"
        }
        "invalid_server_type" => {
            "the size is not made any more, or does not fit the image: change types of the node pool"
        }
        "protected" => {
            "somebody protected it against deletion: take that off in the console, since Covey does not"
        }
        "resource_locked" => "Hetzner has locked it: ask its support",
        "uniqueness_error" => "there is another one of the same name: delete it, or rename it",
        "primary_ip_datacenter_mismatch" => {
            "its address is in another location: delete the Machine to have it replaced"
        }
        "deprecated_api_endpoint" | "unsupported_error" => {
            "the API does not have this any more: use a newer Covey"
        }
        "invalid_input" | "json_error" => {
            let fields = fields(fault);
            let ours: Vec<_> = fields.iter().filter_map(|field| setting(field)).collect();
            return Some(match (ours.is_empty(), fields.is_empty()) {
                (false, _) => format!("change {}", ours.join(" and ")),
                (true, false) => format!("Hetzner does not take {}", fields.join(", ")),
                (true, true) => "Hetzner does not take what was sent".to_owned(),
            });
        }
        _ => return None,
    };
    Some(said.to_owned())
}

/// Which of our fields decides a field of a call.
fn setting(field: &str) -> Option<&'static str> {
    let first = field.split(['.', '[']).next().unwrap_or_default();
    Some(match first {
        "server_type" => "types of the node pool",
        "image" => "image of the node pool",
        "location" => "spec.hetzner.location of the ProviderConfig",
        "networks" => "spec.hetzner.network of the ProviderConfig",
        "ssh_keys" => "spec.hetzner.sshKeys of the ProviderConfig",
        "firewalls" => "spec.hetzner.firewalls of the ProviderConfig",
        "public_net" => "spec.hetzner.publicIPv4 or publicIPv6 of the ProviderConfig",
        "user_data" => {
            "what makes the user data long: labels, taints, files and SSH keys of the node pool"
        }
        _ => return None,
    })
}

/// The fields that are wrong (`details.fields[].name`).
fn fields(fault: &Fault) -> Vec<String> {
    names(fault, "fields")
}

fn names(fault: &Fault, list: &str) -> Vec<String> {
    let list = fault.details.as_ref().and_then(|d| d.get(list));
    let items = list.and_then(|list| list.as_array()).into_iter().flatten();
    let name = |item: &serde_json::Value| item.get("name")?.as_str().map(cut);
    items.filter_map(name).take(8).collect()
}

/// The limits that were reached, in brackets (`details.limits[].name`).
fn named(fault: &Fault, list: &str) -> String {
    match names(fault, list) {
        names if names.is_empty() => String::new(),
        names => format!(" ({})", names.join(", ")),
    }
}

/// What somebody else says, cut to what a sentence takes.
fn cut(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fault(code: &str, details: serde_json::Value) -> Fault {
        Fault {
            code: code.to_owned(),
            message: "m".to_owned(),
            details: Some(details),
        }
    }

    #[test]
    fn codes_decide_and_not_the_status() {
        let after = Some(Duration::from_secs(3));
        let kind = |code| kind(418, code, after);
        assert_eq!(kind("rate_limit_exceeded"), FaultKind::Throttled { after });
        for code in ["unauthorized", "forbidden", "token_readonly"] {
            assert_eq!(kind(code), FaultKind::Auth, "{code}");
        }
        assert!(matches!(
            kind("resource_limit_exceeded"),
            FaultKind::Quota { again: Some(_) }
        ));
        for code in ["resource_unavailable", "placement_error"] {
            assert!(
                matches!(kind(code), FaultKind::Capacity { again: Some(_) }),
                "{code}"
            );
        }
        for code in ["locked", "conflict", "must_be_unassigned"] {
            assert_eq!(kind(code), FaultKind::Conflict, "{code}");
        }
        for code in ["server_error", "unavailable", "timeout", "maintenance"] {
            assert_eq!(kind(code), FaultKind::Unavailable, "{code}");
        }
        assert_eq!(kind("uniqueness_error"), FaultKind::Taken);
        assert_eq!(kind("invalid_input"), FaultKind::Terminal);
        assert_eq!(kind("protected"), FaultKind::Terminal);
    }

    #[test]
    fn status_decides_where_nobody_knows_the_code() {
        let after = Some(Duration::from_secs(3));
        assert_eq!(kind(503, "novel", None), FaultKind::Unavailable);
        assert_eq!(kind(422, "novel", None), FaultKind::Terminal);
        assert_eq!(kind(401, "", None), FaultKind::Auth);
        assert_eq!(kind(429, "", after), FaultKind::Throttled { after });
        // One that was cut off on its way: it may have been done.
        assert_eq!(kind(502, "", None), FaultKind::Unavailable);
    }

    #[test]
    fn sentence_names_the_code_and_our_field() {
        let asked = Asked::new("create", "server a");
        for (field, ours) in [
            ("server_type", "types of the node pool"),
            ("image", "image of the node pool"),
            ("location", "spec.hetzner.location"),
            ("networks[0]", "spec.hetzner.network"),
            ("ssh_keys", "spec.hetzner.sshKeys"),
            ("user_data", "labels, taints"),
        ] {
            let fault = fault("invalid_input", json!({"fields": [{"name": field}]}));
            let told = asked.answered(422, &fault, None, None).to_string();
            assert!(
                told.contains("invalid_input") && told.contains(ours),
                "{told}"
            );
        }
        let limit = fault(
            "resource_limit_exceeded",
            json!({"limits": [{"name": "server_limit"}]}),
        );
        let told = asked.answered(403, &limit, None, None).to_string();
        assert!(told.contains("(server_limit)"), "{told}");
        let odd = fault("invalid_input", json!({"fields": "what"}));
        let told = asked.answered(422, &odd, None, None).to_string();
        assert!(told.contains("does not take what was sent"), "{told}");
    }

    #[test]
    fn who_is_not_let_in_is_told_which_secret() {
        let asked = Asked::new("list", "servers");
        let told = asked.answered(401, &fault("unauthorized", json!(null)), None, None);
        assert_eq!(told.kind, FaultKind::Auth);
        assert!(told.to_string().contains("tokenSecret"), "{told}");
    }
}
