//! Client of the API for the one Lease object of an election: reads and writes it.
//!
//! Invariant: every write but the first carries the resource version it was decided on, so of two
//! that write at once only one succeeds. Every request ends within [`REQUEST_TIMEOUT`].

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};

use super::config::{LeaseConfig, Notes};
use super::gap::{self, Gap};
use super::plan::Record;

/// Longer than a healthy API server needs, short enough for two tries before the deadline.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);

/// Why the Lease could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("could not {verb} the Lease")]
    Request {
        verb: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("no answer to {verb} the Lease within {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout { verb: &'static str },
}

impl Error {
    /// True when what we know about the Lease is out of date.
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Request { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => matches!(status.code, 404 | 409),
                _ => true,
            },
            // It may have been written all the same.
            Self::Timeout { .. } => true,
        }
    }
}

#[derive(Debug)]
pub(super) struct LeaseClient {
    api: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    duration: Duration,
    /// When we took the Lease, for people.
    acquired: Option<MicroTime>,
    /// What is said in the Lease besides.
    pub(super) notes: Notes,
    /// A time in which nobody is known to have led.
    pub(super) gap: Option<Gap>,
}

impl LeaseClient {
    pub(super) fn new(client: Client, config: &LeaseConfig) -> Self {
        let LeaseConfig {
            namespace,
            name,
            identity,
            timing,
        } = config;
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.clone(),
            name: name.clone(),
            identity: identity.clone(),
            duration: timing.duration,
            acquired: None,
            notes: Notes::default(),
            gap: None,
        }
    }

    pub(super) async fn read(&self) -> Result<Option<Record>, Error> {
        let lease = within("read", self.api.get_opt(&self.name)).await?;
        Ok(lease.map(record))
    }

    pub(super) async fn create(&mut self) -> Result<Record, Error> {
        self.acquired = Some(now());
        let lease = self.lease(None, 0);
        within("create", self.api.create(&PostParams::default(), &lease))
            .await
            .map(record)
    }

    /// Makes us the holder (`take`) or renews what we hold.
    pub(super) async fn write(
        &mut self,
        resource_version: String,
        transitions: i32,
        take: bool,
    ) -> Result<Record, Error> {
        if take || self.acquired.is_none() {
            self.acquired = Some(now());
        }
        let lease = self.lease(Some(resource_version), transitions);
        self.replace("renew", &lease).await
    }

    /// Clears the holder, so that the next candidate does not wait.
    pub(super) async fn clear(&self, held: Record) -> Result<(), Error> {
        let mut lease = self.lease(Some(held.resource_version), held.transitions);
        if let Some(spec) = &mut lease.spec {
            // As client-go does: an empty holder, and a second for those that look at it.
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        self.replace("release", &lease).await.map(drop)
    }

    async fn replace(&self, verb: &'static str, lease: &Lease) -> Result<Record, Error> {
        let params = PostParams::default();
        within(verb, self.api.replace(&self.name, &params, lease))
            .await
            .map(record)
    }

    fn lease(&self, resource_version: Option<String>, transitions: i32) -> Lease {
        let mut annotations = self.notes.annotations.clone();
        if let Some(gap) = self.gap {
            annotations.insert(gap::ANNOTATION.to_owned(), gap.written());
        }
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                resource_version,
                labels: Some(self.notes.labels.clone()).filter(|labels| !labels.is_empty()),
                annotations: Some(annotations).filter(|all| !all.is_empty()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                acquire_time: self.acquired.clone(),
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: i32::try_from(self.duration.as_secs()).ok(),
                lease_transitions: Some(transitions),
                renew_time: Some(now()),
                ..LeaseSpec::default()
            }),
        }
    }
}

async fn within<T>(
    verb: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(answer) => answer.map_err(|source| Error::Request {
            verb,
            source: Box::new(source),
        }),
        Err(_) => Err(Error::Timeout { verb }),
    }
}

fn record(lease: Lease) -> Record {
    let annotations = lease.metadata.annotations.as_ref();
    let gap = annotations
        .and_then(|all| all.get(gap::ANNOTATION))
        .and_then(|text| Gap::parse(text));
    let spec = lease.spec.unwrap_or_default();
    let seconds = spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        duration: seconds.map(Duration::from_secs),
        resource_version: lease.metadata.resource_version.unwrap_or_default(),
        transitions: spec.lease_transitions.unwrap_or(0),
        renewed: spec.renew_time.map(|MicroTime(renewed)| renewed),
        gap,
    }
}

fn now() -> MicroTime {
    MicroTime(jiff::Timestamp::now())
}
