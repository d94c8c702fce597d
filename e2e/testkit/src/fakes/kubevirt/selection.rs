//! Which virtual machines a fake plays.
//!
//! Invariant: fakes on one server that play for different tests are never sent each other's
//! objects.

use api::names::LABEL_MACHINE;
use kube::runtime::watcher::Config;

use crate::scope::Scope;

/// A choice of virtual machines and their instances.
#[derive(Clone, Debug)]
pub struct Selection {
    pub(super) namespace: Option<String>,
    labels: Option<String>,
}

impl Selection {
    /// The machines of tenant clusters, wherever their tenant namespaces are.
    #[must_use]
    pub fn machines_of(scope: &Scope) -> Self {
        Self {
            namespace: None,
            labels: Some(format!("{LABEL_MACHINE},{}", scope.labels())),
        }
    }

    /// All of one namespace.
    #[must_use]
    pub fn namespace(namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            labels: None,
        }
    }

    pub(super) fn config(&self) -> Config {
        let config = Config::default();
        match &self.labels {
            Some(labels) => config.labels(labels),
            None => config,
        }
    }
}
