//! What a description is made of; as JSON it is `ClusterDescription` of `cli.covey.dev/v1`.
//!
//! Invariant: it only ever gains fields.

use jiff::Timestamp;
use serde::Serialize;

/// How a part does.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Switched off, or not needed.
    Off,
    /// Not known.
    Unknown,
    /// On its way, or worth a look.
    Waiting,
    /// Wrong.
    Failing,
}

/// A tenant cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// `cli.covey.dev/v1`.
    pub api_version: &'static str,
    /// `ClusterDescription`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The version that it runs; absent until its API answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether it is Ready.
    pub state: State,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The reason of its condition Ready.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message of that, or what the reason means.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whether the operator has seen the newest spec.
    pub is_current: bool,
    /// Its parts.
    pub parts: Vec<Part>,
    /// Its pools.
    pub pools: Vec<PoolDescription>,
    /// Its conditions, where all of it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionLine>,
    /// What could not be read: `not allowed to list pods in covey-demo-0a1b2c3d11`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<String>,
    /// The newest Events of type Warning, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<WarningEvent>,
}

/// A part of a tenant cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// What it is: `etcd`.
    pub name: &'static str,
    /// How it does.
    pub state: State,
    /// In a few words.
    pub text: String,
}

/// A node pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolDescription {
    /// Its name.
    pub name: String,
    /// How it does.
    pub state: State,
    /// Machines that are wanted.
    pub desired: i32,
    /// Machines whose node is ready.
    pub ready: i32,
    /// The reason of its condition Ready, where it is not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The version that its machines get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its machines, equal ones together.
    pub machines: Vec<MachineGroup>,
}

/// Machines of one pool that are alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineGroup {
    /// How they do.
    pub state: State,
    /// Their phase.
    pub phase: String,
    /// The reason of their condition Ready, where they are not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// How many.
    pub count: usize,
    /// Since when the first of them is so; absent of those that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Names and what is said of them; of those that are ready empty, or the name of one that is told by itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConditionLine {
    /// Its type: `EtcdReady`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Since when it has that status.
    pub since: Timestamp,
    /// Its reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Its message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// An Event, most often one of type Warning.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WarningEvent {
    /// When it was told last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// `TenantCluster/demo`.
    pub object: String,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
}
