//! Sleep of the simulated tenant cluster: machines that go one by one, and what is left of them inside.
//!
//! Invariant: a pod is there while its workload wants one, and one that lingers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::Reason;
use api::names::LABEL_COMPONENT;
use jiff::Timestamp;
use kit::events::Notice;
use kit_objects::object::Key;
use serde_json::{Value, json};
use tenant_cp::names;

use super::{NS, World};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::hibernation::idle::{Look, Usage};
use crate::hibernation::place::{self, Entry};
use crate::hibernation::seen::{Asked, Blocking, Left, Seen};
use crate::hibernation::webhooks::Step;
use crate::hibernation::{holds_backup, is_of_interest};

/// What is played of sleep.
#[derive(Clone, Default)]
pub(in super::super) struct Sleeper {
    /// Machines that are there.
    pub(in super::super) machines: usize,
    /// What is left on nodes, for people.
    pub(in super::super) left: Option<&'static str>,
    /// When a request asked.
    pub(in super::super) asked: Option<Timestamp>,
    /// Webhooks of it that would keep it from waking, with their policy.
    pub(in super::super) webhooks: BTreeMap<&'static str, &'static str>,
    /// Whether somebody is there to answer for them.
    pub(in super::super) answers: bool,
    /// Components whose pods do not end.
    pub(in super::super) lingering: BTreeSet<&'static str>,
    /// What its kube-apiservers have counted of use; none where they do not answer.
    pub(in super::super) used: Option<u64>,
    /// The last look at that, and how many there were.
    pub(in super::super) look: (Option<Look>, usize),
    /// Addresses of the activator's pods.
    pub(in super::super) activators: BTreeSet<IpAddr>,
    /// The ConfigMap of sleepers.
    pub(in super::super) ports: BTreeMap<String, String>,
    /// What was said of it.
    pub(in super::super) said: Vec<Notice>,
    /// How often it was asked what is left.
    pub(in super::super) questions: usize,
}

impl World {
    pub(super) fn see_hibernation(&self) -> Option<Seen> {
        if !is_of_interest(&self.cluster, self.now) {
            return None;
        }
        let of =
            |component: &str| json!({ "metadata": { "labels": { LABEL_COMPONENT: component } } });
        let wants = |live: &Value| live["spec"]["replicas"].as_i64().unwrap_or(1) > 0;
        let workloads = self.objects.iter().filter(|(key, live)| {
            let is_workload = ["Deployment", "StatefulSet"].contains(&key.kind.as_str());
            is_workload && key.namespace == NS && wants(live)
        });
        let mut pods: Vec<_> = workloads.map(|(key, _)| of(&key.name)).collect();
        for pod in pods.iter_mut().filter(|_| self.tenant_up) {
            pod["status"] = json!({ "podIP": "10.0.0.7", "conditions": [{ "type": "Ready",
                "status": "True", "lastTransitionTime": "2026-11-21T11:00:00Z" }] });
        }
        if self.cluster.spec.backup.is_some() && !holds_backup(&self.cluster) {
            pods.push(of("backup"));
        }
        pods.extend(self.sleep.lingering.iter().map(|component| of(component)));
        Some(Seen {
            machines: self.sleep.machines,
            pods,
            asked: self.sleep.asked.map(|at| Asked {
                at,
                by: Some("192.0.2.7".to_owned()),
            }),
            place: self.see_place(),
            left: None,
            blocking: None,
        })
    }

    /// Notes what is said of sleep.
    pub(super) fn hear<'n>(&mut self, notices: impl IntoIterator<Item = &'n Notice>) {
        let of_sleep = [Reason::FallingAsleep, Reason::Hibernated, Reason::Waking];
        let of_sleep = of_sleep.map(<&str>::from);
        let heard = notices.into_iter();
        let heard = heard.filter(|notice| of_sleep.contains(&notice.reason));
        self.sleep.said.extend(heard.cloned());
    }

    fn see_place(&self) -> Option<place::Seen> {
        self.cluster.status.as_ref()?.hibernation.as_ref()?;
        let key = Key::new("EndpointSlice", NS, names::ACTIVATOR_SLICE);
        let slice = self.objects.get(&key);
        Some(place::Seen {
            addresses: self.sleep.activators.clone(),
            version: Some("1".to_owned()),
            data: self.sleep.ports.clone(),
            slice: slice.and_then(|slice| Some(slice["metadata"]["uid"].as_str()?.to_owned())),
        })
    }

    pub(super) fn keep_sleeper(&mut self, entry: &Entry, observed: &mut Observed) {
        let port = entry.port.to_string();
        match &entry.sleeper {
            Some(sleeper) => {
                let text = serde_json::to_string(sleeper).unwrap();
                self.sleep.ports.insert(port, text);
            }
            None => {
                self.sleep.ports.remove(&port);
            }
        }
        observed.hibernation = self.see_hibernation();
    }

    pub(super) fn see_usage(&self) -> Usage {
        Usage {
            last: self.sleep.look.0.clone(),
            now: None,
        }
    }

    pub(super) fn ask_use(&mut self, observed: &mut Observed) {
        let counted = self.sleep.used.map(|used| Some(format!("1.5:{used}")));
        let before = observed
            .usage
            .newest()
            .filter(|_| self.sleep.used.is_none());
        let look = Look {
            at: self.now,
            blocking: before.and_then(|before| before.blocking.clone()),
            counted: counted.ok_or_else(|| "timed out".to_owned()),
            wakes: !self.sleep.activators.is_empty(),
        };
        self.sleep.look = (Some(look.clone()), self.sleep.look.1 + 1);
        observed.usage.now = Some(look);
    }

    /// The policy that webhooks get.
    fn policy(&self, step: Step) -> Option<&'static str> {
        match step {
            Step::Relax => Some("Ignore"),
            Step::Restore if self.sleep.answers => Some("Fail"),
            Step::Look | Step::Restore => None,
        }
    }

    pub(super) fn changes_webhooks(&self, step: Step) -> bool {
        let policy = self.policy(step);
        let mut webhooks = self.sleep.webhooks.values();
        policy.is_some_and(|policy| webhooks.any(|one| *one != policy))
    }

    pub(super) fn ask_webhooks(&mut self, step: Step, observed: &mut Observed) {
        self.sleep.questions += 1;
        let policy = self.policy(step);
        let asked_for = if step == Step::Restore {
            "Ignore"
        } else {
            "Fail"
        };
        let blocking = match self.runs("Deployment", names::CONTROL_PLANE) {
            false => Blocking::Unknown("connection refused".to_owned()),
            true => {
                for one in self.sleep.webhooks.values_mut() {
                    *one = policy.unwrap_or(one);
                }
                let left = self.sleep.webhooks.iter();
                let left = left.filter(|(_, policy)| **policy == asked_for);
                Blocking::By(left.map(|(name, _)| (*name).to_owned()).collect())
            }
        };
        if let Some(look) = &mut observed.usage.now {
            look.blocking = Some(blocking.clone());
            self.sleep.look.0 = Some(look.clone());
        }
        if let Some(seen) = &mut observed.hibernation {
            seen.blocking = Some(blocking);
        }
    }

    pub(super) fn ask_left(&mut self, observed: &mut Observed) {
        self.sleep.questions += 1;
        let left = match (
            self.runs("Deployment", names::CONTROL_PLANE),
            self.sleep.left,
        ) {
            (false, _) => Left::Unknown("connection refused".to_owned()),
            (true, Some(left)) => Left::Some(left.to_owned()),
            (true, None) => Left::Nothing,
        };
        if let Some(seen) = &mut observed.hibernation {
            seen.left = Some(left);
        }
    }
}
