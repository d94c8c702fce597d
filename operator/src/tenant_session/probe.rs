//! Probe of a tenant's API: whether it serves what etcd has, whether it takes a write, and which version
//! it is.
//!
//! Invariant: the answer is untrusted and cut to size; a silent API costs one time-out.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kit_client::write;
use kube::{Api, Client};
use serde_json::json;
use tenant_cp::names;

use super::session::{Error, REQUEST_TIMEOUT};

const NAMESPACE: &str = "kube-system";

/// Asks whether somebody serves there: a refusal shows it as well, but not an answer that says "not now".
///
/// # Errors
/// [`Error::AskVersion`].
pub async fn serves(client: &Client) -> Result<(), Error> {
    match version(client).await {
        Err(Error::AskVersion(error)) if is_answer(&error) => Ok(()),
        result => result.map(drop),
    }
}

fn is_answer(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code < 500 && status.code != 429)
}

/// Asks an authenticated question; gives the version without the leading `v`.
///
/// # Errors
/// [`Error::AskVersion`], also when the credentials are refused.
pub async fn version(client: &Client) -> Result<String, Error> {
    let ask = tokio::time::timeout(REQUEST_TIMEOUT, client.apiserver_version());
    match ask.await {
        Ok(Ok(info)) => {
            let text: String = info
                .git_version
                .trim_start_matches('v')
                .chars()
                .take(64)
                .collect();
            Ok(text)
        }
        Ok(Err(error)) => Err(Error::AskVersion(Box::new(error))),
        Err(elapsed) => Err(Error::AskVersion(Box::new(kube::Error::Service(
            elapsed.into(),
        )))),
    }
}

/// Reads one object by its name: without a resourceVersion that is answered by a quorum of etcd
/// (<https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list>).
///
/// # Errors
/// [`Error::Read`]; that there is no such object is an answer.
pub async fn read(client: &Client) -> Result<(), Error> {
    let leases = Api::<Lease>::namespaced(client.clone(), NAMESPACE);
    let ask = tokio::time::timeout(REQUEST_TIMEOUT, leases.get_opt(names::OPERATOR_LEASE)).await;
    let answer = ask.map_err(|elapsed| kube::Error::Service(elapsed.into()));
    match answer.and_then(std::convert::identity) {
        Ok(_) => Ok(()),
        Err(error) if is_refusal(&error) => Ok(()),
        Err(error) => Err(Error::Read(Box::new(error))),
    }
}

/// Has one object written: at rest never, only where the API did not answer before.
///
/// # Errors
/// [`Error::ProveWrite`].
pub async fn write(client: &Client, now: Timestamp) -> Result<(), Error> {
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(names::OPERATOR_LEASE.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(crate::FIELD_MANAGER.to_owned()),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    };
    let mut object = json!(lease);
    object["apiVersion"] = json!("coordination.k8s.io/v1");
    object["kind"] = json!("Lease");
    match write::apply(client, &object, crate::FIELD_MANAGER, true).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(403) => Ok(()),
        Err(error) => Err(Error::ProveWrite(error)),
    }
}

/// Rights are given back by who sees that they are missing, after the API answered.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}
