//! What a tenant cluster's own API says before an upgrade.
//!
//! Invariant: all of it is a tenant's and may be anything; it is kept as numbers and short names. What could not be
//! asked is an error with the reason, and never an empty list.

use std::collections::{BTreeMap, BTreeSet};

use super::names::Names;

/// What was answered; else why it is not known, for people.
pub type Answer<T> = Result<T, String>;

/// All answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Inside {
    /// Nodes by the version of their kubelet, as it says it.
    pub kubelets: Answer<BTreeMap<String, Names>>,
    /// What all its kube-apiservers counted since they started.
    pub counted: Answer<Counted>,
    /// Webhooks that are asked about what a control plane needs.
    pub webhooks: Answer<Vec<Webhook>>,
    /// APIServices that are not available.
    pub unavailable: Answer<Names>,
    /// PodDisruptionBudgets that let no pod go now.
    pub tight_budgets: Answer<Names>,
}

impl Inside {
    /// Nothing could be asked.
    #[must_use]
    pub fn unknown(why: &str) -> Self {
        Self {
            kubelets: Err(why.to_owned()),
            counted: Err(why.to_owned()),
            webhooks: Err(why.to_owned()),
            unavailable: Err(why.to_owned()),
            tight_budgets: Err(why.to_owned()),
        }
    }

    /// Nothing is there.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            kubelets: Ok(BTreeMap::new()),
            counted: Ok(Counted::default()),
            webhooks: Ok(Vec::new()),
            unavailable: Ok(Names::default()),
            tight_budgets: Ok(Names::default()),
        }
    }
}

/// What kube-apiservers counted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Counted {
    /// Deprecated resources that were called.
    pub deprecated: BTreeSet<Deprecated>,
    /// Resources of which stored objects could not be read.
    pub undecodable: BTreeSet<String>,
}

/// A deprecated resource that somebody called.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Deprecated {
    /// The first minor (of 1.x) that does not serve it.
    pub removed: u64,
    /// Its name: `networking.k8s.io/v1beta1 servicecidrs`.
    pub resource: String,
}

/// A webhook that is asked about what a control plane needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Webhook {
    /// Name of its configuration and its own.
    pub name: String,
    /// Whether requests fail where it does not answer.
    pub must_answer: bool,
    /// How long it is waited for, seconds.
    pub seconds: u64,
    /// Whether it is asked about Leases, too.
    pub of_leases: bool,
    /// Whether somebody is there to answer.
    pub responder: Responder,
}

/// Whether somebody is there to answer for a webhook.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Responder {
    /// A pod of its Service is ready, or it is somewhere that the API knows nothing of.
    Answered,
    /// Its Service has no ready pod, or is not there.
    Nobody,
    /// That could not be found out; why, for people.
    Unknown(String),
}
