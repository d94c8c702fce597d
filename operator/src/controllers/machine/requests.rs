//! What is read and written inside the tenant cluster for one Machine: requests, and nothing that
//! decides.
//!
//! Invariant: every call ends within [`TIMEOUT`]; what comes back is cut to size, because whoever
//! administers the tenant cluster can write anything there.

use std::time::Duration;

use api::{Machine, Reason, names};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Node as LiveNode, Pod as LivePod, Secret};
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Preconditions};
use kit_client::errors::{Class, Classify};
use kit_client::write::{self, Deletion};
use kit_objects::kinds::{self, Kind};
use kit_objects::known::Known;
use kit_objects::object::Object;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::core::Status;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tenant_cp::names::KUBELET_CLIENT_SIGNER;
use tenant_cp::node::bootstrap_token;

use super::observed::{Node, Pod, Seen, TokenSeen};
use crate::FIELD_MANAGER;
use crate::overlay::members::is_key;
use crate::tenant_session::budget::{Budget, Exceeded, PAGE};
use crate::tenant_session::registry::TenantClient;

pub mod renewal;

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest text that is taken from the tenant, in characters.
const MOST: usize = 300;
/// Namespace of bootstrap tokens.
const TOKENS: &str = "kube-system";

/// Why something inside the tenant cluster failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API refused, or was not reached.
    #[error("{what} inside the tenant cluster")]
    Request {
        /// What was asked.
        what: String,
        /// What it said.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object could not be written or deleted.
    #[error("write inside the tenant cluster")]
    Write(#[source] write::Error),
    /// It took too long.
    #[error("the tenant's API did not answer within {} s", TIMEOUT.as_secs())]
    TimedOut,
    /// It took more than one reconcile has for it.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Request { source, .. } => source.class(),
            Self::Write(source) => source.class(),
            Self::TimedOut | Self::Exceeded(_) => Class::Transient,
        }
    }
}

impl Error {
    fn of(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        |source| Self::Request {
            what,
            source: Box::new(source),
        }
    }

    /// Whether it took more than one reconcile has for it.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        matches!(self, Self::Exceeded(_))
    }

    /// Whether the API answered, if only with a refusal.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        let code = match self {
            Self::Request { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            Self::Write(source) => source.code(),
            Self::TimedOut | Self::Exceeded(_) => None,
        };
        code.is_some_and(|code| code < 500 && code != 429)
    }
}

/// Ends in time.
async fn timely<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(result) => result,
        Err(_) => Err(Error::TimedOut),
    }
}

/// What is read of a machine besides its node and what its kubelet asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Its token.
    pub token: bool,
    /// The pods on its node.
    pub pods: bool,
    /// What there is of telling its kubelet in place.
    pub renewal: bool,
}

/// Reads what is there of a machine.
///
/// # Errors
/// [`Error`].
pub async fn read(
    tenant: &TenantClient,
    machine: &Machine,
    budget: &Budget,
    requests: &[String],
    wanted: Wanted,
) -> Result<Seen, Error> {
    let (client, name) = (&tenant.client, machine.name_any());
    let nodes = Api::<LiveNode>::all(client.clone());
    let node = async {
        let found = nodes.get_opt(&name).await;
        found.map_err(Error::of(format!("read Node {name}")))
    };
    let token = async {
        match wanted.token {
            true => token(client, machine).await,
            false => Ok(Known::Unknown {
                why: "it is not asked for once it was revoked",
            }),
        }
    };
    let work = async {
        let (node, token, requests, pods, renewal) = futures::try_join!(
            node,
            token,
            read_requests(client, requests),
            pods(client, budget, &name, wanted.pods),
            renewal::read(client, machine, wanted.renewal)
        )?;
        Ok(Seen {
            endpoint: tenant.endpoint.clone(),
            authority: tenant.authority.clone(),
            node: node.as_ref().map(reduced),
            token,
            requests,
            pods,
            renewal,
        })
    };
    // On the heap: so many requests at once are a large future.
    timely(Box::pin(work)).await
}

/// Absent where no token stands there that is this machine's: then it is made.
async fn token(client: &Client, machine: &Machine) -> Result<Known<TokenSeen>, Error> {
    let name = bootstrap_token::token_secret_name(&machine.uid().unwrap_or_default());
    let secrets = Api::<Secret>::namespaced(client.clone(), TOKENS);
    let found = secrets.get_opt(&name).await;
    let found = found.map_err(Error::of(format!("read Secret {name}")))?;
    let found = found.and_then(|secret| serde_json::to_value(secret).ok());
    let found = found.and_then(|value| read_token(&value, machine));
    Ok(Known::found(found))
}

/// The token in a Secret, if it is this machine's.
fn read_token(secret: &Value, machine: &Machine) -> Option<TokenSeen> {
    let typed: Secret = serde_json::from_value(secret.clone()).ok()?;
    let expiration = typed.data.as_ref()?.get("expiration");
    let expires = expiration.and_then(|bytes| std::str::from_utf8(&bytes.0).ok()?.parse().ok());
    Some(TokenSeen {
        uid: typed.uid().unwrap_or_default(),
        expires,
        token: bootstrap_token::read_token(secret, &machine.name_any())?,
    })
}

async fn read_requests(
    client: &Client,
    names: &[String],
) -> Result<Vec<CertificateSigningRequest>, Error> {
    let api = Api::<CertificateSigningRequest>::all(client.clone());
    let mut requests = Vec::new();
    for name in names {
        let found = api.get_opt(name).await;
        requests.extend(found.map_err(Error::of(format!("read request {name}")))?);
    }
    Ok(requests)
}

/// Pods that would have to leave the node.
async fn pods(
    client: &Client,
    budget: &Budget,
    node: &str,
    going: bool,
) -> Result<Known<Vec<Pod>>, Error> {
    if !going {
        return Ok(Known::Unknown {
            why: "pods are listed once the machine goes",
        });
    }
    let api = Api::<LivePod>::all(client.clone());
    let on_it = format!("spec.nodeName={node}");
    let mut on_it = ListParams::default().fields(&on_it).limit(PAGE);
    let mut pods = Vec::new();
    loop {
        let list = api.list(&on_it).await;
        let list = list.map_err(Error::of(format!("list pods on {node}")))?;
        budget.take_items("pods on one node", list.items.len())?;
        pods.extend(list.items.iter().filter(|p| has_to_leave(p)).map(pod));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => on_it.continue_token = Some(token),
            None => return Ok(Known::Known(pods)),
        }
    }
}

/// Neither a mirror of the kubelet's own pods, nor a DaemonSet's (which would come back at once), nor
/// one that has ended.
fn has_to_leave(pod: &LivePod) -> bool {
    let mirror = pod
        .annotations()
        .contains_key("kubernetes.io/config.mirror");
    let owners = pod.metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|owner| owner.controller == Some(true));
    let daemon = owners.any(|owner| owner.kind == "DaemonSet");
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    let ended = matches!(phase, Some("Succeeded" | "Failed"));
    !mirror && !daemon && !ended
}

fn pod(pod: &LivePod) -> Pod {
    Pod {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        going: pod.metadata.deletion_timestamp.is_some(),
    }
}

/// What matters of a Node.
fn reduced(node: &LiveNode) -> Node {
    let status = node.status.as_ref();
    let conditions = status
        .and_then(|s| s.conditions.as_deref())
        .unwrap_or_default();
    let ready = conditions.iter().find(|c| c.type_ == "Ready");
    let said = ready.and_then(|c| c.message.as_deref()).unwrap_or_default();
    let spec = node.spec.as_ref();
    let mut taints = spec.into_iter().flat_map(|s| s.taints.iter().flatten());
    Node {
        uid: node.uid().unwrap_or_default(),
        provider_id: spec.and_then(|s| s.provider_id.clone()).unwrap_or_default(),
        overlay_key: node
            .annotations()
            .get(names::ANNOTATION_OVERLAY_KEY)
            .filter(|key| is_key(key))
            .cloned(),
        labels: node.labels().clone(),
        unschedulable: spec.and_then(|s| s.unschedulable).unwrap_or_default(),
        excluded: node.labels().contains_key(names::LABEL_EXCLUDED),
        out_of_service: taints.any(|t| t.key == names::TAINT_OUT_OF_SERVICE),
        ready: ready.and_then(|c| match c.status.as_str() {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        }),
        message: said.chars().take(MOST).collect(),
        volumes_attached: status
            .and_then(|s| s.volumes_attached.as_ref())
            .is_some_and(|volumes| !volumes.is_empty()),
    }
}

/// Makes a token valid; gives it as it is then.
///
/// # Errors
/// [`Error`].
pub async fn apply_token(
    client: &Client,
    object: &Object,
    machine: &Machine,
) -> Result<Option<TokenSeen>, Error> {
    let work = async {
        let live = write::apply(client, &object.value, FIELD_MANAGER, true).await;
        live.map_err(Error::Write)
    };
    let live = timely(work).await?;
    let value = serde_json::to_value(live).ok();
    Ok(value.and_then(|value| read_token(&value, machine)))
}

/// Deletes a bootstrap token.
///
/// # Errors
/// [`Error`].
pub async fn revoke_token(client: &Client, name: &str, uid: &str) -> Result<(), Error> {
    delete(client, kinds::SECRET, Some(TOKENS), name, uid).await
}

/// Deletes the Node.
///
/// # Errors
/// [`Error`].
pub async fn delete_node(client: &Client, name: &str, uid: &str) -> Result<(), Error> {
    delete(client, kinds::NODE, None, name, uid).await
}

async fn delete(
    client: &Client,
    kind: Kind,
    namespace: Option<&str>,
    name: &str,
    uid: &str,
) -> Result<(), Error> {
    let deletion = Deletion {
        kind,
        namespace,
        name,
        uid,
        resource_version: None,
        propagation: PropagationPolicy::Background,
    };
    let work = async {
        let deleted = write::delete(client, &deletion).await;
        deleted.map(drop).map_err(Error::Write)
    };
    timely(work).await
}

/// Sets labels on the Node.
///
/// # Errors
/// [`Error`].
pub async fn label_node(client: &Client, patch: &Value) -> Result<(), Error> {
    let work = async {
        let applied = write::apply(client, patch, FIELD_MANAGER, true).await;
        applied.map(drop).map_err(Error::Write)
    };
    timely(work).await
}

/// Lets nothing new onto the node.
///
/// # Errors
/// [`Error`].
pub async fn cordon(client: &Client, name: &str, uid: &str) -> Result<(), Error> {
    let patch = json!({ "metadata": { "uid": uid }, "spec": { "unschedulable": true } });
    patch_node(client, name, &patch, "cordon").await
}

/// Writes down what machine a node is. The API takes that once.
///
/// # Errors
/// [`Error`].
pub async fn name_node(
    client: &Client,
    name: &str,
    uid: &str,
    provider_id: &str,
) -> Result<(), Error> {
    let patch = json!({ "metadata": { "uid": uid }, "spec": { "providerID": provider_id } });
    patch_node(client, name, &patch, "name").await
}

/// Has load balancers send nothing to the node (KEP-1143).
///
/// # Errors
/// [`Error`].
pub async fn exclude(client: &Client, name: &str, uid: &str) -> Result<(), Error> {
    let labels = json!({ names::LABEL_EXCLUDED: "true" });
    let patch = json!({ "metadata": { "uid": uid, "labels": labels } });
    patch_node(client, name, &patch, "take load balancers from").await
}

async fn patch_node(client: &Client, name: &str, patch: &Value, verb: &str) -> Result<(), Error> {
    let nodes = Api::<LiveNode>::all(client.clone());
    let work = async {
        let patched = nodes.patch(name, &params(), &Patch::Merge(patch)).await;
        patched
            .map(drop)
            .map_err(Error::of(format!("{verb} Node {name}")))
    };
    timely(work).await
}

/// What became of an eviction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Evicted {
    /// The pod is being deleted.
    Leaves,
    /// It is gone.
    Gone,
    /// A disruption budget is in the way.
    Blocked,
}

/// Asks one pod to leave. `grace` in seconds, its own by default; with 0 a pod that is being deleted
/// is gone at once, whether or not somebody ended it.
///
/// # Errors
/// [`Error`].
pub async fn evict(client: &Client, pod: &Pod, grace: Option<i64>) -> Result<Evicted, Error> {
    let pods = Api::<LivePod>::namespaced(client.clone(), &pod.namespace);
    // Not `Api::evict`: it calls the field `delete_options`, which the API server drops, UID and all.
    let eviction = Eviction {
        metadata: ObjectMeta {
            name: Some(pod.name.clone()),
            ..ObjectMeta::default()
        },
        delete_options: Some(DeleteOptions {
            preconditions: Some(Preconditions {
                uid: Some(pod.uid.clone()),
                resource_version: None,
            }),
            grace_period_seconds: grace,
            ..DeleteOptions::default()
        }),
    };
    let params = PostParams::default();
    let work = async {
        let asked = pods.create_subresource::<_, Status>("eviction", &pod.name, &params, &eviction);
        match asked.await {
            Ok(_) => Ok(Evicted::Leaves),
            Err(kube::Error::Api(status)) => match status.code {
                // 409: one of the same name, made since.
                404 | 409 => Ok(Evicted::Gone),
                429 => Ok(Evicted::Blocked),
                _ => Err(Error::of("evict a pod")(kube::Error::Api(status))),
            },
            Err(error) => Err(Error::of("evict a pod")(error)),
        }
    };
    timely(work).await
}

/// Approves or denies a request for a serving certificate, as it was read.
///
/// # Errors
/// [`Error`].
pub async fn decide(
    client: &Client,
    request: &CertificateSigningRequest,
    denied: Option<&(Reason, String)>,
) -> Result<(), Error> {
    let name = request.name_any();
    let (type_, reason, message) = match denied {
        None => (
            "Approved",
            Reason::CoveyApprove,
            match request.spec.signer_name.as_str() {
                KUBELET_CLIENT_SIGNER => "it is the machine's first key, by its own token",
                _ => "names and addresses are the machine's",
            },
        ),
        Some((reason, message)) => ("Denied", *reason, message.as_str()),
    };
    let condition = json!({
        "type": type_, "status": "True", "reason": reason, "message": message,
        "lastUpdateTime": jiff::Timestamp::now().to_string(),
    });
    let patch = json!({
        // As it was judged: whatever changed since is judged anew.
        "metadata": { "resourceVersion": request.resource_version() },
        "status": { "conditions": [condition] },
    });
    let api = Api::<CertificateSigningRequest>::all(client.clone());
    let work = async {
        let patched = api
            .patch_approval(&name, &params(), &Patch::Merge(&patch))
            .await;
        patched
            .map(drop)
            .map_err(Error::of(format!("answer request {name}")))
    };
    timely(work).await
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
