//! How the operator talks to a tenant's API: one short visit at a time, no cache. Watches there are
//! [`crate::tenant_watch`].
//!
//! Invariant: every visit ends within its time-out, so a dead tenant cluster costs the operator a
//! bounded wait; what the tenant answers is untrusted and read as typed, bounded data only.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use futures::{StreamExt, TryStreamExt, stream};
use kit::apply;
use kit::client::deadline::DeadlineLayer;
use kit::client::{Transport, multiplexed};
use kit::errors::{Class, Classify};
use kube::api::{DynamicObject, ListParams};
use kube::{Client, Config, ResourceExt};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value, json};
use tenant_cp::object::Key;
use tenant_cp::{Object, desired};
use tower::Layer;

/// One request may take so long.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Namespace of requests that name none; there are no such.
const NAMESPACE: &str = "default";
/// Objects written at the same time.
const PARALLEL_WRITES: usize = 8;

/// Where a tenant's API is reached from the operator: tenant namespace and the address of its
/// Service, mapped to the address to dial. Tests put their own here; in a cluster it is identity.
pub type Dial = Arc<dyn Fn(&str, SocketAddr) -> SocketAddr + Send + Sync>;

/// Who visits a tenant's API, and where that is.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// Where to dial.
    pub address: SocketAddr,
    /// The tenant's certificate authority, PEM.
    pub authority: String,
    /// Client certificate and key.
    pub identity: pki::KeyPair,
}

/// Why a visit failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Certificates or address do not make a client.
    #[error("build a client for the tenant's API; look at the Secrets ca and operator-client")]
    BuildClient(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No answer, or a refusal.
    #[error("ask the tenant's API for its version")]
    AskVersion(#[source] Box<kube::Error>),
    /// A bootstrap object was refused.
    #[error("apply an object inside the tenant cluster")]
    ApplyObject(#[source] apply::Error),
    /// What an addon left could not be deleted.
    #[error("delete an object inside the tenant cluster")]
    DeleteObject(#[source] apply::Error),
    /// A Service kept what the cloud controller manager left on it.
    #[error("release a Service inside the tenant cluster from its load balancer")]
    ReleaseService(#[source] Box<kube::Error>),
    /// The objects inside could not be read.
    #[error("look at the objects inside the tenant cluster")]
    LookInside(#[source] Box<kube::Error>),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::BuildClient(_) => Class::Bug,
            Self::AskVersion(e) | Self::LookInside(e) | Self::ReleaseService(e) => e.class(),
            Self::ApplyObject(e) | Self::DeleteObject(e) => e.class(),
        }
    }
}

impl Visit {
    /// A client that is dropped after the visit.
    ///
    /// # Errors
    /// [`Error::BuildClient`].
    pub fn client(&self) -> Result<Client, Error> {
        let timed = DeadlineLayer::new(REQUEST_TIMEOUT).layer(self.transport()?);
        Ok(Client::new(timed, NAMESPACE))
    }

    /// A client that stays, for watches too: plain requests end in time all the same, and none is
    /// held back by what other tenants do.
    ///
    /// # Errors
    /// [`Error::BuildClient`].
    pub fn lasting_client(&self) -> Result<Client, Error> {
        let requests = kit::client::RequestCounter::new();
        let args = kit::args::ClientArgs::default();
        let transport = self.transport()?;
        Ok(kit::client::assemble(
            transport, NAMESPACE, &args, &requests,
        ))
    }

    fn transport(&self) -> Result<Transport, Error> {
        multiplexed::transport(&self.config()?).map_err(|e| Error::BuildClient(Box::new(e)))
    }

    fn config(&self) -> Result<Config, Error> {
        let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let url = match self.address.ip() {
            IpAddr::V4(ip) => format!("https://{ip}:{}", self.address.port()),
            IpAddr::V6(ip) => format!("https://[{ip}]:{}", self.address.port()),
        };
        let url = url.parse().map_err(|e| Error::BuildClient(Box::new(e)))?;
        let mut config = Config::new(url);
        let root = CertificateDer::from_pem_slice(self.authority.as_bytes())
            .map_err(|e| Error::BuildClient(Box::new(e)))?;
        config.root_cert = Some(vec![root.to_vec()]);
        config.auth_info.client_certificate_data = Some(base64(&self.identity.certificate));
        config.auth_info.client_key_data = Some(base64(self.identity.key.reveal()).into());
        // The Service's address is in the certificate, but a test dials another one.
        config.tls_server_name = Some("kubernetes".to_owned());
        config.connect_timeout = Some(Duration::from_secs(1));
        Ok(config)
    }
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

/// What could not be applied, and the first reason.
pub struct Left<'a> {
    /// Objects that are still to be applied.
    pub objects: Vec<&'a Object>,
    /// Why the first of them failed.
    pub error: Error,
}

/// Everything inside the tenant cluster that is labelled as ours, with the names of its field
/// managers; none when we have no right to look.
///
/// # Errors
/// [`Error::LookInside`].
pub async fn look(client: &Client) -> Result<Option<BTreeMap<Key, Value>>, Error> {
    let label = format!(
        "{}={}",
        api::names::LABEL_MANAGED_BY,
        api::names::MANAGED_BY
    );
    let params = ListParams::default().labels(&label);
    let kinds = desired::KINDS
        .iter()
        .filter_map(|(version, kind)| apply::kinds::find(version, kind));
    let lists: Vec<_> = kinds
        .map(|kind| {
            let (api, params) = (kind.api(client, None), params.clone());
            async move {
                match api.list(&params).await {
                    Ok(list) => Ok((kind, list.items)),
                    // A kind that is defined only where an addon is.
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok((kind, Vec::new())),
                    Err(error) => Err(error),
                }
            }
        })
        .collect();
    let lists: Result<Vec<_>, kube::Error> = stream::iter(lists)
        .buffer_unordered(PARALLEL_WRITES)
        .try_collect()
        .await;
    match lists {
        Ok(lists) => {
            let all = lists.into_iter();
            Ok(Some(
                all.flat_map(|(kind, items)| items.into_iter().map(move |o| seen(kind, o)))
                    .collect(),
            ))
        }
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
        Err(error) => Err(Error::LookInside(Box::new(error))),
    }
}

fn seen(kind: apply::Kind, mut object: DynamicObject) -> (Key, Value) {
    let managers = object.metadata.managed_fields.take().unwrap_or_default();
    let names: Vec<_> = managers
        .into_iter()
        .map(|m| json!({ "manager": m.manager }))
        .collect();
    let key = Key::new(
        kind.kind,
        &object.namespace().unwrap_or_default(),
        &object.name_any(),
    );
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = json!(kind.api_version());
    value["kind"] = json!(kind.kind);
    value["metadata"]["managedFields"] = Value::Array(names);
    (key, value)
}

/// These Deployments and DaemonSets, where they are there.
///
/// # Errors
/// [`Error::LookInside`].
pub async fn workloads(client: &Client, keys: &[Key]) -> Result<BTreeMap<Key, Value>, Error> {
    let gets: Vec<_> = keys
        .iter()
        .filter_map(|key| Some((key, apply::kinds::find("apps/v1", &key.kind)?)))
        .map(|(key, kind)| async move {
            let found = kind
                .api(client, Some(&key.namespace))
                .get_opt(&key.name)
                .await;
            found.map(|found| found.map(|object| seen(kind, object)))
        })
        .collect();
    let found: Result<Vec<_>, kube::Error> = stream::iter(gets)
        .buffer_unordered(PARALLEL_WRITES)
        .try_collect()
        .await;
    let found = found.map_err(|error| Error::LookInside(Box::new(error)))?;
    Ok(found.into_iter().flatten().collect())
}

/// Applies objects inside the tenant cluster side by side: namespaces before what is in them,
/// definitions of kinds before objects of those, and bindings after everything else, because the API
/// server looks at the role that a binding names.
/// What one failure leaves is what is tried again.
///
/// # Errors
/// [`Left`].
pub async fn bootstrap<'a>(client: &Client, objects: &[&'a Object]) -> Result<(), Left<'a>> {
    let rank = |object: &Object| match object.kind.as_str() {
        "CustomResourceDefinition" | "Namespace" => 0,
        kind if kind.ends_with("Binding") || kind == "VolumeSnapshotClass" => 2,
        _ => 1,
    };
    for turn in 0..3 {
        let now = objects
            .iter()
            .copied()
            .filter(|o| rank(o) == turn)
            .collect();
        if let Err(mut left) = apply_all(client, now).await {
            left.objects
                .extend(objects.iter().filter(|o| rank(o) > turn));
            return Err(left);
        }
    }
    Ok(())
}

async fn apply_all<'a>(client: &Client, objects: Vec<&'a Object>) -> Result<(), Left<'a>> {
    let writes: Vec<_> = objects.iter().map(|o| apply_one(client, o)).collect();
    let results: Vec<_> = stream::iter(writes)
        .buffered(PARALLEL_WRITES)
        .collect()
        .await;
    let mut failed = objects
        .into_iter()
        .zip(results)
        .filter_map(|(o, r)| Some((o, r.err()?)));
    let Some((first, error)) = failed.next() else {
        return Ok(());
    };
    let mut objects = vec![first];
    objects.extend(failed.map(|(object, _)| object));
    Err(Left { objects, error })
}

async fn apply_one(client: &Client, object: &Object) -> Result<(), Error> {
    apply::apply(client, &object.value, crate::FIELD_MANAGER, true)
        .await
        .map(|_| ())
        .map_err(Error::ApplyObject)
}
