//! When what became visible of each machine: the first time that a watch showed it.
//!
//! Invariant: all moments are of one clock, the bench's, and each is the first of its kind; so a
//! difference is never less than what a user with a watch would have waited.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use api::{
    ConditionType, Machine, condition,
    foreign::kubevirt::{VirtualMachine, VirtualMachineInstance},
};
use futures::StreamExt as _;
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::Node};
use kube::{
    Api, Client, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{Config, watcher},
    },
};
use tokio::task::JoinSet;

use suites::cluster::{Tenant, wait::Watched};

/// What can be seen of a machine, in the order in which it happens.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Moment {
    /// The VirtualMachine is there.
    Made,
    /// Its instance runs: KubeVirt has started its processor.
    Running,
    /// The Machine's status says that it runs.
    Told,
    /// The kubelet asked for its identity.
    Asked,
    /// The Node is there.
    Joined,
    /// The Node is ready.
    Ready,
}

type Moments = BTreeMap<(String, Moment), Instant>;

/// Watches that note moments as long as it lives.
pub(super) struct Timeline {
    moments: Arc<Mutex<Moments>>,
    _watches: JoinSet<()>,
}

impl Timeline {
    /// Starts the watches of one tenant cluster and waits for nothing: what is there already counts
    /// as seen now.
    pub(super) fn of(tenant: &Tenant, inside: Client) -> Self {
        let moments = Arc::default();
        let mut watches = JoinSet::new();
        let machines: Api<Machine> = Api::namespaced(tenant.management.clone(), &tenant.namespace);
        note(&mut watches, &moments, tenant.parts(), made);
        note(&mut watches, &moments, tenant.parts(), running);
        note(&mut watches, &moments, machines, told);
        note(&mut watches, &moments, Api::all(inside.clone()), asked);
        note(&mut watches, &moments, Api::all(inside), node);
        Self {
            moments,
            _watches: watches,
        }
    }

    /// When something was first seen of a machine.
    pub(super) fn at(&self, machine: &str, moment: Moment) -> Option<Instant> {
        let moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        moments.get(&(machine.to_owned(), moment)).copied()
    }

    /// Seconds from one moment of a machine to a later one.
    pub(super) fn between(&self, machine: &str, from: Moment, to: Moment) -> Option<f64> {
        let (from, to) = (self.at(machine, from)?, self.at(machine, to)?);
        Some(to.checked_duration_since(from)?.as_secs_f64())
    }
}

fn note<K: Watched>(
    watches: &mut JoinSet<()>,
    moments: &Arc<Mutex<Moments>>,
    api: Api<K>,
    seen: fn(&K) -> Vec<(String, Moment)>,
) {
    let moments = Arc::clone(moments);
    watches.spawn(async move {
        let objects = watcher(api, Config::default()).default_backoff();
        let mut objects = Box::pin(objects.applied_objects());
        while let Some(object) = objects.next().await {
            // A watch that has to begin anew goes on by itself.
            let Ok(object) = object else { continue };
            let now = Instant::now();
            let mut moments = moments.lock().unwrap_or_else(PoisonError::into_inner);
            for key in seen(&object) {
                moments.entry(key).or_insert(now);
            }
        }
    });
}

fn made(machine: &VirtualMachine) -> Vec<(String, Moment)> {
    vec![(machine.name_any(), Moment::Made)]
}

fn running(instance: &VirtualMachineInstance) -> Vec<(String, Moment)> {
    let phase = instance.status.as_ref().and_then(|s| s.phase.as_deref());
    match phase {
        Some("Running") => vec![(instance.name_any(), Moment::Running)],
        _ => Vec::new(),
    }
}

fn told(machine: &Machine) -> Vec<(String, Moment)> {
    let conditions = machine.status.as_ref().map(|s| s.conditions.as_slice());
    let conditions = conditions.unwrap_or_default();
    match condition::is_true(conditions, ConditionType::VirtualMachineReady) {
        true => vec![(machine.name_any(), Moment::Told)],
        false => Vec::new(),
    }
}

/// The first request of a node names it in its subject, which only its bytes hold; the certificate
/// that it asks for is of its user, so the name is looked for there.
fn asked(request: &CertificateSigningRequest) -> Vec<(String, Moment)> {
    let text = String::from_utf8_lossy(&request.spec.request.0);
    let subject = common_name(&text);
    let node = subject.and_then(|name| Some(name.strip_prefix("system:node:")?.to_owned()));
    node.map(|node| (node, Moment::Asked)).into_iter().collect()
}

/// The common name in a PEM certificate request.
fn common_name(pem: &str) -> Option<String> {
    use x509_parser::{certification_request::X509CertificationRequest, prelude::FromDer as _};
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).ok()?;
    let (_, request) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let subject = &request.certification_request_info.subject;
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    Some(name.to_owned())
}

fn node(node: &Node) -> Vec<(String, Moment)> {
    let name = node.name_any();
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    let ready = conditions.any(|c| c.type_ == "Ready" && c.status == "True");
    let mut seen = vec![(name.clone(), Moment::Joined)];
    if ready {
        seen.push((name, Moment::Ready));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_ready_only_once_its_condition_says_so() {
        let node_with = |status: &str| {
            let object = serde_json::json!({
                "metadata": { "name": "a" },
                "status": { "conditions": [{ "type": "Ready", "status": status }] },
            });
            node(&serde_json::from_value(object).unwrap())
        };
        let seen = |moments: &[Moment]| {
            let at = |moment: &Moment| ("a".to_owned(), *moment);
            moments.iter().map(at).collect::<Vec<_>>()
        };
        assert_eq!(node_with("False"), seen(&[Moment::Joined]));
        assert_eq!(node_with("True"), seen(&[Moment::Joined, Moment::Ready]));
    }
}
