//! Inside the tenant cluster that is looked into: its nodes, network, names, load balancers, volumes, webhooks, APIs that go.
//!
//! Invariant: about a tenant cluster that was not looked into nothing is found; what may be on its way for a moment is told
//! of no one.

use api::TenantCluster;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit_objects::known::Known;
use kube::ResourceExt as _;

use super::management::unknown;
use crate::check::Check;
use crate::facts::Facts;
use crate::finding::{Finding, Level, Scope, Subject};
use crate::inside::Inside;

mod nodes;
mod objects;
mod webhooks;

/// How long an object may be on its way.
const GRACE: SignedDuration = SignedDuration::from_secs(60);
/// Most objects that are named.
const NAMED: usize = 5;

/// The tenant cluster, and what was read inside.
struct Seen<'a> {
    cluster: &'a TenantCluster,
    inside: &'a Inside,
    facts: &'a Facts,
    subject: Subject,
}

impl Seen<'_> {
    fn told(&self, check: Check, level: Level, cause: &str, mend: &str) -> Finding {
        Finding::new(check, level, self.subject.clone(), cause, mend)
    }

    fn unknown(&self, check: Check, what: &str, why: &str) -> Vec<Finding> {
        unknown(check, self.subject.clone(), what, why)
    }

    /// A list, or that it is not known.
    fn list<'a, T>(
        &self,
        list: &'a Known<Vec<T>>,
        check: Check,
        what: &str,
    ) -> Result<&'a [T], Vec<Finding>> {
        match list {
            Known::Known(all) => Ok(all),
            Known::Absent => Err(Vec::new()),
            Known::Unknown { why } => Err(self.unknown(check, what, why)),
        }
    }

    /// Whether it is so for longer than what may be on its way.
    fn is_old(&self, since: Option<&Time>) -> bool {
        since.is_some_and(|since| self.age(since.0) > GRACE)
    }

    fn age(&self, since: Timestamp) -> SignedDuration {
        self.facts.now.duration_since(since)
    }

    /// The newest warning about an object inside.
    fn warning(&self, kind: &str, namespace: &str, name: &str) -> Option<String> {
        let events = self.inside.warnings.as_ref().there()?;
        let is_about = |of: &Option<String>, wanted: &str| of.as_deref() == Some(wanted);
        let about = events.iter().filter(|event| {
            let of = &event.involved_object;
            is_about(&of.kind, kind)
                && is_about(&of.name, name)
                && is_about(&of.namespace, namespace)
        });
        let newest = about
            .map(crate::description::told)
            .max_by_key(|told| told.at)?;
        Some(format!("{}: {}", newest.reason, newest.message))
    }
}

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let clusters = facts.clusters.as_ref().there().map(Vec::as_slice);
    let (inside, cluster) = match (&facts.inside, clusters) {
        (Known::Known(inside), Some([cluster])) => (inside, cluster),
        (Known::Unknown { why }, Some([cluster])) => {
            let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
            let subject = Subject::new("TenantCluster", &namespace, &name);
            return unknown(Check::Nodes, subject, "what is inside", why);
        }
        _ => return Vec::new(),
    };
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let look = Seen {
        cluster,
        inside,
        facts,
        subject: Subject::new("TenantCluster", &namespace, &name),
    };
    let mut found = api_parts(&look);
    found.extend(webhooks::check(&look));
    found.extend(removed(&look));
    found.extend(nodes::check(&look));
    found.extend(objects::check(&look));
    let scope = Scope {
        cluster: Some((namespace, name)),
        pool: None,
    };
    let found = found.into_iter();
    found.map(|finding| finding.within(&scope)).collect()
}

/// Parts of the API server that are not ready.
fn api_parts(look: &Seen<'_>) -> Vec<Finding> {
    let parts = match &look.inside.not_ready {
        Known::Known(parts) if !parts.is_empty() => parts,
        _ => return Vec::new(),
    };
    let cause = format!("the API server is not ready: {}", parts.join(", "));
    let mend = match parts.iter().any(|part| part.starts_with("etcd")) {
        true => "look at etcd: `covey logs NAME etcd`",
        false => "`covey logs NAME apiserver` says why",
    };
    let mend = mend.replace("NAME", &look.subject.name);
    vec![look.told(Check::ApiReady, Level::Error, &cause, &mend)]
}

/// APIs that somebody calls and a later minor does not serve.
fn removed(look: &Seen<'_>) -> Vec<Finding> {
    let apis = match look.list(
        &look.inside.removed,
        Check::RemovedApis,
        "which APIs are called",
    ) {
        Ok(apis) => apis,
        Err(found) => return found,
    };
    let status = look.cluster.status.as_ref();
    let version = status.and_then(|status| status.version.as_deref());
    let Some((major, minor)) = version.and_then(minor_of) else {
        return Vec::new();
    };
    let next = (major, minor + 1);
    let goes = apis.iter().filter(|api| api.removed_in > (major, minor));
    let (soon, later): (Vec<_>, Vec<_>) = goes.partition(|api| api.removed_in <= next);
    let told = [(soon, Level::Warning), (later, Level::Info)];
    let told = told.into_iter().filter(|(apis, _)| !apis.is_empty());
    let found = told.map(|(apis, level)| {
        let names = apis.iter().map(|api| {
            let (major, minor) = api.removed_in;
            format!("{} (not in {major}.{minor})", api.name)
        });
        let names: Vec<_> = names.collect();
        let names = crate::text::names(names.iter().map(String::as_str), NAMED);
        let cause = format!("somebody calls APIs that go: {names}");
        let mend = "move who calls them to newer ones before the upgrade; the audit log says who that is (docs/upgrades.md)";
        look.told(Check::RemovedApis, level, &cause, mend)
    });
    found.collect()
}

/// 1 and 35 of `v1.35.4`.
fn minor_of(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
