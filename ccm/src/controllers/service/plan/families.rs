//! Families of a mirror's cluster IPs: those of the tenant's Service that its machines have.
//!
//! Invariant: the first family of a mirror never changes, because the API refuses that; machines that
//! are not there for a moment change nothing.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::types::Family;
use crate::cache::objects::Target;

const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";

/// `ipFamilies` and `ipFamilyPolicy` of a mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Families {
    /// What is asked for: one where a second one is only preferred, because a management cluster that
    /// has none refuses to be asked for it by name.
    pub asked: Vec<String>,
    /// What is to be said now: the same, or what the API made of it. Saying less would be asking it to
    /// release a family.
    pub said: Vec<String>,
    /// The policy.
    pub policy: Option<String>,
}

/// Those of the mirror of a Service.
#[must_use]
pub fn families(wanted: &ServiceSpec, live: Option<&Service>, targets: &[Target]) -> Families {
    let of = |spec: &ServiceSpec| spec.ip_families.clone().unwrap_or_default();
    let all = of(wanted);
    let had = live.and_then(|live| live.spec.as_ref()).map(of);
    let had = had.unwrap_or_default();
    let known = targets.iter().any(|target| !target.addresses.is_empty());
    let is_there = |name: &&String| match known {
        true => targets.iter().any(|target| has(target, name)),
        false => had.is_empty() || had.contains(name),
    };
    let mut families: Vec<_> = all.iter().filter(is_there).cloned().collect();
    if families.is_empty() {
        families = all;
    }
    let first = had.first();
    families.sort_by_key(|family| Some(family) != first);
    let mut policy = wanted.ip_family_policy.clone();
    if families.len() == 1 {
        policy = Some(SINGLE.to_owned());
    }
    if policy.as_deref() != Some(PREFER) {
        return Families {
            asked: families.clone(),
            said: families,
            policy,
        };
    }
    let made = !had.is_empty() && had.iter().all(|family| families.contains(family));
    let asked = families[..families.len().min(1)].to_vec();
    Families {
        said: if made { had } else { asked.clone() },
        asked,
        policy,
    }
}

fn has(target: &Target, name: &str) -> bool {
    let mut families = [Family::V4, Family::V6].into_iter();
    families
        .find(|family| family.as_str() == name)
        .is_some_and(|family| target.addresses.iter().any(|ip| family.has(ip)))
}
