//! The same of telling a kubelet in place: a pod and a Secret by their names, and the request of a certificate.
//!
//! Invariant: as of all of it; what the pod says is cut to size, and is words for people alone.

use api::{Machine, names};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kit_client::write;
use kit_objects::kinds;
use kit_objects::known::Known;
use kit_objects::object::Object;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};
use tenant_cp::node::renewal::{self, NAMESPACE};

use super::{Error, MOST, delete, timely};
use crate::FIELD_MANAGER;
use crate::controllers::machine::observed::{RenewalPod, RenewalSeen};

const NOT_ASKED: &str = "it is asked for while its kubelet is told in place";

/// What came of making the pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Started {
    /// It is there.
    Is(RenewalPod),
    /// There is one of that name; it is looked at next time.
    Taken,
    /// Admission in the tenant cluster, or a right that is not there yet, refused it.
    Refused(String),
}

pub(super) async fn read(
    client: &Client,
    machine: &Machine,
    is_wanted: bool,
) -> Result<Known<RenewalSeen>, Error> {
    if !is_wanted {
        return Ok(Known::Unknown { why: NOT_ASKED });
    }
    let name = renewal::name(&machine.uid().unwrap_or_default());
    let status = machine.status.as_ref();
    let request = status.and_then(|status| status.renewal.as_ref()?.request.clone());
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    let pod = async {
        let found = pods.get_opt(&name).await;
        found.map_err(Error::of(format!("read Pod {name}")))
    };
    let secrets = Api::<Secret>::namespaced(client.clone(), NAMESPACE);
    let secret = async {
        let found = secrets.get_opt(&name).await;
        found.map_err(Error::of(format!("read Secret {name}")))
    };
    let requests = Api::<CertificateSigningRequest>::all(client.clone());
    let signed = async {
        let Some(request) = request else {
            return Ok(None);
        };
        let found = requests.get_opt(&request).await;
        let found = found.map_err(Error::of(format!("read request {request}")))?;
        let certificate = found.and_then(|found| found.status?.certificate);
        Ok(certificate.and_then(|pem| String::from_utf8(pem.0).ok()))
    };
    let (pod, secret, signed) = futures::try_join!(pod, secret, signed)?;
    Ok(Known::Known(RenewalSeen {
        pod: pod.as_ref().map(reduced),
        secret: secret.map(|secret| {
            let begun = secret.annotations().get(names::ANNOTATION_RENEWAL);
            (
                secret.uid().unwrap_or_default(),
                begun.cloned().unwrap_or_default(),
            )
        }),
        signed,
        refused: None,
    }))
}

/// What matters of the pod.
fn reduced(pod: &Pod) -> RenewalPod {
    let status = pod.status.as_ref();
    let succeeded = match status.and_then(|status| status.phase.as_deref()) {
        Some("Succeeded") => Some(true),
        Some("Failed") => Some(false),
        _ => None,
    };
    let begun = pod.annotations().get(names::ANNOTATION_RENEWAL);
    RenewalPod {
        uid: pod.uid().unwrap_or_default(),
        begun: begun.cloned().unwrap_or_default(),
        succeeded,
        message: said(pod).chars().take(MOST).collect(),
        going: pod.metadata.deletion_timestamp.is_some(),
    }
}

/// What its container said last, or why it does not run.
fn said(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_ref());
    let state = containers.and_then(|all| all.first()?.state.as_ref());
    let ended = state.and_then(|state| state.terminated.as_ref()?.message.clone());
    let waits = || {
        let waiting = state?.waiting.as_ref()?;
        let why = waiting.message.as_ref().or(waiting.reason.as_ref())?;
        Some(why.clone())
    };
    let own = || status?.message.clone().or_else(|| status?.reason.clone());
    let said = ended.filter(|said| !said.trim().is_empty());
    said.or_else(waits)
        .or_else(own)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Writes the Secret; gives its UID.
///
/// # Errors
/// [`Error`].
pub async fn store(client: &Client, object: &Object) -> Result<String, Error> {
    let work = async {
        let live = write::apply(client, &object.value, FIELD_MANAGER, true).await;
        live.map_err(Error::Write)
    };
    let live = timely(work).await?;
    Ok(live.metadata.uid.unwrap_or_default())
}

/// Makes the pod.
///
/// # Errors
/// [`Error`], but for a refusal, which is an answer.
pub async fn start(client: &Client, object: &Object) -> Result<Started, Error> {
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    let failed = || Error::of(format!("make Pod {}", object.name));
    let pod = serde_json::from_value::<Pod>(object.value.clone());
    let pod = pod.map_err(kube::Error::SerdeError).map_err(failed())?;
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let work = async {
        match pods.create(&params, &pod).await {
            Ok(pod) => Ok(Started::Is(reduced(&pod))),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Started::Taken),
            Err(kube::Error::Api(status)) if is_refusal(status.code, &status.message) => Ok(
                Started::Refused(status.message.chars().take(MOST).collect()),
            ),
            Err(error) => Err(failed()(error)),
        }
    };
    timely(work).await
}

/// A webhook that cannot be called is an internal error to the kube-apiserver.
fn is_refusal(code: u16, message: &str) -> bool {
    matches!(code, 400 | 403 | 422) || code >= 500 && message.contains("webhook")
}

/// Deletes the pod.
///
/// # Errors
/// [`Error`].
pub async fn end_pod(client: &Client, name: &str, uid: &str) -> Result<(), Error> {
    delete(client, kinds::POD, Some(NAMESPACE), name, uid).await
}

/// Deletes the Secret.
///
/// # Errors
/// [`Error`].
pub async fn delete_secret(client: &Client, name: &str, uid: &str) -> Result<(), Error> {
    delete(client, kinds::SECRET, Some(NAMESPACE), name, uid).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_is_judged_by_its_phase_and_what_it_said_last_is_told() {
        let pod = |status: serde_json::Value| -> RenewalPod {
            let pod = json!({
                "metadata": { "uid": "u", "annotations": { names::ANNOTATION_RENEWAL: "b" } },
                "status": status,
            });
            reduced(&serde_json::from_value(pod).unwrap())
        };
        let ended = |phase: &str, message: &str| {
            let state = json!({ "terminated": { "exitCode": 1, "message": message } });
            pod(json!({ "phase": phase, "containerStatuses": [{
                "name": "renew", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": state,
            }] }))
        };
        let failed = ended("Failed", "no kubelet runs\n");
        assert_eq!(
            (failed.succeeded, failed.message.as_str()),
            (Some(false), "no kubelet runs")
        );
        assert_eq!(ended("Succeeded", "").succeeded, Some(true));
        let late = pod(json!({ "phase": "Failed", "reason": "DeadlineExceeded" }));
        assert_eq!(late.message, "DeadlineExceeded");
        let pending = pod(json!({ "phase": "Pending" }));
        assert_eq!((pending.succeeded, pending.begun.as_str()), (None, "b"));
    }

    #[test]
    fn what_admission_says_is_a_refusal_and_what_an_api_that_is_tired_says_is_not() {
        assert!(is_refusal(403, "violates PodSecurity") && is_refusal(422, ""));
        assert!(is_refusal(500, "failed calling webhook \"x\""));
        assert!(!is_refusal(500, "etcdserver: request timed out") && !is_refusal(429, "webhook"));
    }
}
