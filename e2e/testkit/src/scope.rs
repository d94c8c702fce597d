//! Which tenant namespaces a stand-in serves.
//!
//! Invariant: only namespaces with the label `covey.dev/tenant-cluster-uid` are ever served, so
//! tests that share a server can each have stand-ins of their own.

use std::collections::BTreeSet;

use anyhow::Result;
use api::names::{LABEL_TENANT_NAMESPACE, LABEL_TENANT_UID};
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};

/// A choice of tenant namespaces.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    owner: Option<String>,
}

impl Scope {
    /// All tenant namespaces.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Those whose TenantCluster is in this namespace.
    #[must_use]
    pub fn of(namespace: &str) -> Self {
        Self {
            owner: Some(namespace.to_owned()),
        }
    }

    /// Selects the objects of these tenant clusters: everything that Covey makes in a tenant namespace
    /// bears these labels, and what a test makes there by hand and wants played has to.
    #[must_use]
    pub fn labels(&self) -> String {
        match &self.owner {
            Some(owner) => format!("{LABEL_TENANT_NAMESPACE}={owner}"),
            None => LABEL_TENANT_UID.to_owned(),
        }
    }

    fn selector(&self) -> String {
        match &self.owner {
            Some(owner) => format!("{LABEL_TENANT_UID},{LABEL_TENANT_NAMESPACE}={owner}"),
            None => LABEL_TENANT_UID.to_owned(),
        }
    }

    /// What changes in the set of namespaces.
    pub(crate) fn watch(&self, client: &Client) -> BoxStream<'static, Result<Event<Namespace>>> {
        let config = watcher::Config::default().labels(&self.selector());
        let events = watcher(Api::all(client.clone()), config).default_backoff();
        events.map_err(anyhow::Error::from).boxed()
    }
}

/// The namespaces of a scope as a watch tells them.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    now: BTreeSet<String>,
    listed: BTreeSet<String>,
}

/// What one event changed.
pub(crate) enum Change {
    None,
    Came(String),
    /// The set was listed anew; look at everything again.
    Listed,
    Went,
}

impl Namespaces {
    pub(crate) fn contains(&self, namespace: &str) -> bool {
        self.now.contains(namespace)
    }

    pub(crate) fn take(&mut self, event: Event<Namespace>) -> Change {
        match event {
            Event::Init => {
                self.listed.clear();
                Change::None
            }
            Event::InitApply(namespace) => {
                self.listed.insert(namespace.name_any());
                Change::None
            }
            Event::InitDone => {
                self.now = std::mem::take(&mut self.listed);
                Change::Listed
            }
            Event::Apply(namespace) => {
                let name = namespace.name_any();
                match self.now.insert(name.clone()) {
                    true => Change::Came(name),
                    false => Change::None,
                }
            }
            Event::Delete(namespace) => {
                self.now.remove(&namespace.name_any());
                Change::Went
            }
        }
    }
}
