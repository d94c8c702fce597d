//! What a tenant may read of an answer of the management cluster's API.
//!
//! Invariant: only sentences whose form is known are passed on, without names of objects, policies,
//! quotas, accounts and addresses of the management cluster.

use kit_client::errors::OVER_QUOTA;
use kube::core::Status;

/// What policies (`ValidatingAdmissionPolicy`) and webhooks put before their own words
/// (apiserver/pkg/admission/plugin/policy/validating/dispatcher.go and
/// webhook/errors/statuserror.go).
const DENIALS: [&str; 2] = ["denied request: ", "denied the request: "];
/// The API's own sentence where it may be passed on.
pub(super) fn sentence(status: &Status) -> String {
    let message = &status.message;
    let denial = DENIALS.iter().find_map(|before| message.split_once(before));
    if let Some((_, words)) = denial {
        return format!("a policy of the management cluster refuses it: {words}");
    }
    if let Some((_, quota)) = message.split_once(OVER_QUOTA) {
        let amounts = quota.split_once(", ").map_or("", |(_, amounts)| amounts);
        return format!("a quota of the management cluster is exceeded: {amounts}");
    }
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes: Vec<_> = causes
        .filter(|cause| !cause.field.is_empty())
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    match status.code {
        422 if !causes.is_empty() => {
            format!("the management cluster refuses it: {}", causes.join("; "))
        }
        code => format!(
            "the management cluster refuses it ({code}); it is tried again, and whoever runs that \
             cluster finds why in the log of ccm"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(answer: serde_json::Value) -> String {
        sentence(&serde_json::from_value(answer).unwrap())
    }

    #[test]
    fn quotas_policies_webhooks_and_fields_speak_and_name_nothing() {
        for (code, message, expected) in [
            (
                403,
                "services \"lb-1\" is forbidden: exceeded quota: covey, requested: \
                 services.loadbalancers=1, used: services.loadbalancers=5, limited: \
                 services.loadbalancers=5",
                "exceeded: requested: services.loadbalancers=1, used: services.loadbalancers=5",
            ),
            (
                422,
                "services \"lb-1\" is forbidden: ValidatingAdmissionPolicy 'secret' with binding \
                 'secret' denied request: no load balancers on Fridays",
                "refuses it: no load balancers on Fridays",
            ),
            (
                400,
                "admission webhook \"secret.example.com\" denied the request: not here",
                "refuses it: not here",
            ),
        ] {
            let told = told(json!({ "code": code, "message": message }));
            assert!(told.contains(expected), "{told}");
            assert!(!told.contains("secret") && !told.contains("lb-1") && !told.contains("covey,"));
        }
        let causes =
            json!([{ "field": "spec.ipFamilies[0]", "message": "Invalid value: \"IPv6\"" }]);
        let invalid = told(json!({
            "code": 422, "message": "Service \"lb-1\" is invalid", "details": { "causes": causes },
        }));
        assert!(
            invalid.ends_with("spec.ipFamilies[0]: Invalid value: \"IPv6\""),
            "{invalid}"
        );
    }

    #[test]
    fn anything_else_stays_in_the_log() {
        for (code, message) in [
            (
                403,
                "services is forbidden: User \"system:serviceaccount:covey-secret:ccm\" cannot patch",
            ),
            (
                500,
                "failed calling webhook \"secret\": dial tcp 10.0.0.1:443: connection refused",
            ),
        ] {
            let told = told(json!({ "code": code, "message": message }));
            assert!(told.contains(&code.to_string()), "{told}");
            assert!(
                !told.contains("secret") && !told.contains("10.0.0.1"),
                "{told}"
            );
        }
    }
}
