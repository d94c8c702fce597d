//! Families of a Service's cluster IPs, and what else an API server fills in, as it gives and refuses them
//! (`initIPFamilyFields` in kubernetes/pkg/registry/core/service/storage/alloc.go).
//!
//! Invariant: a real one answers the same; `ccm/tests/t1/played.rs` asks it.

use k8s_openapi::api::core::v1::ServiceSpec;
use serde_json::{Value, json};

/// What is filled in of a load balancer that says nothing.
pub(crate) const DEFAULTS: [(&str, &str); 3] = [
    ("sessionAffinity", "None"),
    ("externalTrafficPolicy", "Cluster"),
    ("internalTrafficPolicy", "Cluster"),
];
const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

/// Fills in what is not said, on the way from `old`, in a cluster of these families.
pub(crate) fn admit(
    spec: &mut Value,
    old: Option<&ServiceSpec>,
    stacks: &[&str],
) -> Result<(), String> {
    let said: Option<Vec<String>> = serde_json::from_value(spec["ipFamilies"].clone()).unwrap();
    let had = old.and_then(|s| s.ip_families.clone()).unwrap_or_default();
    let policy_had = old.and_then(|s| s.ip_family_policy.clone());
    let mut families = said.filter(|f| !f.is_empty()).unwrap_or(had.clone());
    let policy = spec["ipFamilyPolicy"].as_str().map(str::to_owned);
    let policy = policy.or(policy_had.clone());
    let policy = policy.unwrap_or_else(|| SINGLE.to_owned());
    let stays = policy == PREFER && policy_had.as_deref() == Some(PREFER) && families == had;
    if !stays {
        if families
            .first()
            .is_some_and(|f| had.first().is_some_and(|h| h != f))
        {
            return Err("spec.ipFamilies[0]: may not change once set".to_owned());
        }
        if policy == SINGLE && families.len() == 2 {
            if had.len() < 2 {
                return Err("spec.ipFamilies: may only hold one with SingleStack".to_owned());
            }
            families.truncate(1);
        }
        if policy != SINGLE && families.len() < had.len() {
            let message =
                "spec.ipFamilyPolicy: must be 'SingleStack' to release the secondary IP family";
            return Err(message.to_owned());
        }
        if !families.iter().all(|f| stacks.contains(&f.as_str())) {
            return Err("spec.ipFamilies: not configured on this cluster".to_owned());
        }
        if families.is_empty() {
            families.push(stacks[0].to_owned());
        }
        if policy != SINGLE && families.len() == 1 {
            let other = stacks.iter().find(|stack| **stack != families[0]);
            match other {
                Some(other) => families.push((*other).to_owned()),
                None if policy == REQUIRE => {
                    let message = "spec.ipFamilyPolicy: this cluster is not configured for dual-stack services";
                    return Err(message.to_owned());
                }
                None => {}
            }
        }
    }
    spec["ipFamilies"] = json!(families);
    spec["ipFamilyPolicy"] = json!(policy);
    Ok(())
}
