//! Scenarios: what happens in a tenant cluster and in its cloud, one step after the other.
//!
//! Invariant: a scenario says nothing about what a cloud controller manager does. It is written once
//! and played to both.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::environment::registered;

/// One scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    /// Unique; differences refer to it.
    pub(super) name: String,
    /// Played in this order; effects are compared after each of them.
    pub(super) steps: Vec<Step>,
}

/// What happens at once, in the order of the fields.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Step {
    /// Machines by name; null: gone for good.
    pub(super) machines: BTreeMap<String, Option<Machine>>,
    /// Addresses of load balancers by name of the Service, as in its status; null: none any more.
    pub(super) balancers: BTreeMap<String, Option<Vec<Value>>>,
    /// Nodes to make: what differs from [`node`].
    pub(super) nodes: BTreeMap<String, Value>,
    /// Services to make: what differs from [`service`].
    pub(super) services: BTreeMap<String, Value>,
    /// Merge patches.
    pub(super) change_nodes: BTreeMap<String, Value>,
    /// Merge patches.
    pub(super) change_services: BTreeMap<String, Value>,
    /// Merge patches of the status.
    pub(super) change_status: BTreeMap<String, Value>,
    /// Status of the condition Ready by node.
    pub(super) ready: BTreeMap<String, String>,
    /// Services to delete.
    pub(super) delete: Vec<String>,
    /// Effects that both sides have in the end and the stock controllers only after a while, because
    /// they try again and do not watch.
    pub(super) until: Vec<String>,
    /// Whether nothing is to be written at all.
    pub(super) quiet: bool,
}

/// A machine that exists.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Machine {
    /// Running, where nothing is said.
    #[serde(default)]
    pub(super) state: State,
    #[serde(default)]
    pub(super) addresses: Vec<String>,
    #[serde(default)]
    pub(super) zone: String,
    #[serde(default)]
    pub(super) region: String,
    /// Instance type.
    #[serde(default, rename = "type")]
    pub(super) size: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    #[default]
    Running,
    /// It was stopped on purpose: there is no instance.
    Stopped,
    /// It was shut down from inside: there is an instance that ended.
    Ended,
}

/// What the cloud has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cloud {
    pub(super) machines: BTreeMap<String, Machine>,
    /// By name of the Service, which is in the namespace `default`.
    pub(super) balancers: BTreeMap<String, Vec<Value>>,
}

impl Cloud {
    /// What a step makes of it.
    pub(super) fn change(&mut self, step: &Step) {
        change(&mut self.machines, &step.machines);
        change(&mut self.balancers, &step.balancers);
    }
}

fn change<T: Clone>(into: &mut BTreeMap<String, T>, by: &BTreeMap<String, Option<T>>) {
    for (name, value) in by {
        match value {
            Some(value) => into.insert(name.clone(), value.clone()),
            None => into.remove(name),
        };
    }
}

/// Those of a file.
pub(super) fn of(file: &str) -> Result<Vec<Scenario>> {
    let text = super::file(&format!("scenarios/{file}.yaml"))?;
    serde_saphyr::from_str(&text).with_context(|| format!("understand scenarios/{file}.yaml"))
}

/// Whether `COVEY_SCENARIO` says that it is to be played: its name contains that.
pub(super) fn is_wanted(scenario: &Scenario) -> bool {
    let wanted = std::env::var("COVEY_SCENARIO").unwrap_or_default();
    scenario.name.contains(&wanted)
}

/// Those of all files.
pub(super) fn all() -> Result<Vec<Scenario>> {
    let each: Result<Vec<_>> = super::FILES.iter().map(|file| of(file)).collect();
    Ok(each?.into_iter().flatten().collect())
}

/// A node as the kubelet of a machine makes it, changed by `patch`.
pub(super) fn node(name: &str, patch: &Value) -> Value {
    let mut node = registered(name);
    merge(&mut node, patch);
    node
}

/// A Service that wants a load balancer, changed by `patch`.
pub(super) fn service(name: &str, patch: &Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "type": "LoadBalancer", "selector": { "app": name }, "ports": [{ "port": 80 }] },
    });
    merge(&mut service, patch);
    service
}

/// RFC 7386.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        if !patch.is_null() {
            *into = patch.clone();
        }
        return;
    };
    for (key, value) in fields {
        match value {
            Value::Null => {
                into.as_object_mut().map(|into| into.remove(key));
            }
            value => merge(&mut into[key.as_str()], value),
        }
    }
}

#[test]
fn each_file_of_scenarios_has_a_test() -> Result<()> {
    let mut files = Vec::new();
    for file in std::fs::read_dir(super::folder().join("scenarios"))? {
        let name = file?.file_name().to_string_lossy().into_owned();
        files.push(name.trim_end_matches(".yaml").to_owned());
    }
    files.sort();
    let mut tested = super::FILES.to_vec();
    tested.sort_unstable();
    assert_eq!(files, tested);
    Ok(())
}

#[test]
fn scenarios_have_names_of_their_own() -> Result<()> {
    let all = all()?;
    let names: std::collections::BTreeSet<_> = all.iter().map(|s| &s.name).collect();
    assert_eq!(names.len(), all.len());
    Ok(())
}
