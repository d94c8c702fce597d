//! What is seen of a tenant cluster that is to sleep, sleeps, or wakes.
//!
//! Invariant: what could not be read is not known, and never nothing.

use std::collections::BTreeMap;

use api::names::{COMPONENT_LOAD_BALANCER, COMPONENT_WORKER, LABEL_COMPONENT};
use jiff::Timestamp;
use serde_json::Value;
use tenant_cp::backup::process::{BACKUP, RESTORE_TEST};
use tenant_cp::names;

use super::parts::Part;
use super::place;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Machines of it, those included that go.
    pub machines: usize,
    /// Pods of the tenant namespace.
    pub pods: Vec<Value>,
    /// The last request that asked that it wakes.
    pub asked: Option<Asked>,
    /// Where the activator waits for it; none where that was not looked at, because it was not sent to sleep.
    pub place: Option<place::Seen>,
    /// What is left inside; none where it was not asked in this reconcile.
    pub left: Option<Left>,
    /// Webhooks that would keep it from waking; none where it was not asked in this reconcile.
    pub blocking: Option<Blocking>,
}

/// A request that asked that it wakes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Asked {
    /// When.
    pub at: Timestamp,
    /// Address of the client, as the activator says.
    pub by: Option<String>,
}

/// What is left on nodes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Left {
    /// No node, no volume that is attached to one, no pod that is on one.
    Nothing,
    /// This, for people.
    Some(String),
    /// It could not be asked, why.
    Unknown(String),
}

/// Webhooks that would keep it from waking; of one that is awake those that let requests pass still.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Blocking {
    /// These.
    By(Vec<String>),
    /// It could not be asked, why.
    Unknown(String),
}

impl Seen {
    /// How many pods of each part are there.
    #[must_use]
    pub fn pods(&self) -> BTreeMap<Part, u32> {
        let mut all = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| !is_over(pod)) {
            let labels = &pod["metadata"]["labels"];
            let part = match labels[LABEL_COMPONENT].as_str().unwrap_or_default() {
                names::ETCD => Part::Etcd,
                names::CONTROL_PLANE | names::CONTROLLERS | names::ETCD_EVENTS => {
                    Part::ControlPlane
                }
                BACKUP => Part::Backup,
                // They end by themselves, or belong to machines.
                names::ETCD_RESTORE | RESTORE_TEST | COMPONENT_WORKER | COMPONENT_LOAD_BALANCER => {
                    continue;
                }
                _ => Part::Adapters,
            };
            *all.entry(part).or_default() += 1;
        }
        all
    }
}

fn is_over(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str();
    phase.is_some_and(|phase| ["Succeeded", "Failed"].contains(&phase))
}
