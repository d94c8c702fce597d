//! The Lease by which the operator is asked to wake a tenant cluster.
//!
//! Invariant: decided by [`plan::wake`] on what the Lease says, and written with the version that was decided on, so that
//! of two activators that ask at once one does; a write whose fate is unknown is followed by another look.

use std::collections::BTreeMap;
use std::fmt;

use api::names::{ANNOTATION_WAKES, LABEL_TENANT_UID, wake_lease};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::plan::{self, Asked, Wake};

/// Who wants whom to wake.
#[derive(Clone, Debug)]
pub struct Request {
    /// UID of the TenantCluster.
    pub uid: String,
    /// When it was sent to sleep.
    pub since: Timestamp,
    /// Address of the client.
    pub client: String,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It was asked for by this request.
    Woken,
    /// It was asked for before.
    Asked,
    /// Requests woke it too often; from then on they may again.
    TooOften {
        /// An hour after one of those.
        until: Timestamp,
    },
}

/// Why it is not known to be asked for.
#[derive(Debug, thiserror::Error)]
#[error("could not {verb} the Lease")]
pub struct Error {
    verb: &'static str,
    #[source]
    source: Box<kube::Error>,
}

/// Asks to wake: the API, or a test.
pub trait Waker: Send + Sync + 'static {
    /// Asks once; the caller asks again when that fails.
    fn wake(&self, request: Request) -> impl Future<Output = Result<Outcome, Error>> + Send;
}

/// Leases in the operator's namespace.
#[derive(Clone)]
pub struct Leases {
    api: Api<Lease>,
}

impl fmt::Debug for Leases {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Leases").finish_non_exhaustive()
    }
}

impl Leases {
    /// Those of this namespace.
    #[must_use]
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
        }
    }
}

impl Waker for Leases {
    async fn wake(&self, request: Request) -> Result<Outcome, Error> {
        let name = wake_lease(&request.uid);
        let failed = |verb| {
            move |source| Error {
                verb,
                source: Box::new(source),
            }
        };
        let found = self.api.get_opt(&name).await.map_err(failed("read"))?;
        let now = Timestamp::now();
        let asked = found.as_ref().map(asked).unwrap_or_default();
        let wakes = match plan::wake(&asked, request.since, now) {
            Wake::Asked => return Ok(Outcome::Asked),
            Wake::TooOften { until } => return Ok(Outcome::TooOften { until }),
            Wake::Ask { wakes } => wakes,
        };
        let is_new = found.is_none();
        let lease = renewed(found.unwrap_or_default(), &request, now, &wakes);
        let params = PostParams {
            field_manager: Some("activator".to_owned()),
            ..PostParams::default()
        };
        match is_new {
            true => self.api.create(&params, &lease).await,
            false => self.api.replace(&name, &params, &lease).await,
        }
        .map_err(failed("write"))?;
        Ok(Outcome::Woken)
    }
}

/// What a Lease says; what cannot be read of its annotation counts as nothing.
fn asked(lease: &Lease) -> Asked {
    let spec = lease.spec.as_ref();
    let wakes = lease.metadata.annotations.as_ref();
    let wakes = wakes.and_then(|all| all.get(ANNOTATION_WAKES));
    let wakes = wakes.map_or("", String::as_str).split(',');
    Asked {
        renewed: spec
            .and_then(|spec| spec.renew_time.as_ref())
            .map(|time| time.0),
        wakes: wakes.filter_map(|time| time.parse().ok()).collect(),
    }
}

fn renewed(mut lease: Lease, request: &Request, now: Timestamp, wakes: &[Timestamp]) -> Lease {
    let transitions = lease.spec.and_then(|spec| spec.lease_transitions);
    let wakes: Vec<_> = wakes.iter().map(Timestamp::to_string).collect();
    let annotations: &mut BTreeMap<_, _> = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(ANNOTATION_WAKES.to_owned(), wakes.join(","));
    // The operator watches those with it.
    let labels: &mut BTreeMap<_, _> = lease.metadata.labels.get_or_insert_default();
    labels.insert(LABEL_TENANT_UID.to_owned(), request.uid.clone());
    Lease {
        metadata: ObjectMeta {
            name: Some(wake_lease(&request.uid)),
            ..lease.metadata
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(request.client.clone()),
            acquire_time: Some(MicroTime(now)),
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(transitions.unwrap_or_default().saturating_add(1)),
            ..LeaseSpec::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read_and_the_rest_of_the_lease_stays() {
        let now: Timestamp = "2027-01-31T12:00:00.123456Z".parse().unwrap();
        let before = "2027-01-31T11:30:00Z".parse().unwrap();
        let mut found = Lease::default();
        found.metadata.resource_version = Some("7".to_owned());
        let request = Request {
            uid: "0a".to_owned(),
            since: before,
            client: "192.0.2.7".to_owned(),
        };
        let lease = renewed(found, &request, now, &[before, now]);
        assert_eq!(lease.metadata.name.as_deref(), Some("wake-0a"));
        assert_eq!(lease.metadata.resource_version.as_deref(), Some("7"));
        let spec = lease.spec.clone().unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some("192.0.2.7"));
        assert_eq!(spec.lease_transitions, Some(1));
        let read = asked(&lease);
        assert_eq!(
            read,
            Asked {
                renewed: Some(now),
                wakes: vec![before, now]
            }
        );
        assert_eq!(plan::wake(&read, before, now), Wake::Asked);
    }

    #[test]
    fn an_annotation_that_is_nonsense_counts_as_nothing() {
        let mut lease = Lease::default();
        lease.metadata.annotations = Some(
            [(
                ANNOTATION_WAKES.to_owned(),
                "soon,,2027-01-31T11:30:00Z".to_owned(),
            )]
            .into(),
        );
        assert_eq!(asked(&lease).wakes.len(), 1);
        assert_eq!(asked(&Lease::default()), Asked::default());
    }
}
