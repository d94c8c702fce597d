//! Reads everything that the plan of a backup may depend on. Decides nothing.
//!
//! Invariant: bodies are read live; of Secrets of the operator's own namespace the two are read that the target names,
//! and no list is asked for there.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use api::{BackupTarget, TenantCluster, names};
use backup_format::SealedIdentity;
use base64::Engine as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kit_client::untyped;
use kit_objects::kinds::{self, Kind};
use kit_objects::object::Key;
use kube::api::ListParams;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use pki::{KeyPair, Store};
use serde_json::Value;
use tenant_cp::backup::process;
use tenant_cp::certificates::SecretData;
use tenant_cp::{Settings, generations, validate};

use super::error::Error;
use super::identity::Sealed;
use super::plan::{DataKeys, Observed, Pod};
use super::report;
use super::restore_test;
use crate::context::Context;
use crate::pod_failures;
use crate::restoring::begin;

/// Kinds of which a backup has objects in the tenant namespace.
const KINDS: [Kind; 5] = [
    kinds::DEPLOYMENT,
    kinds::NETWORK_POLICY,
    kinds::PERSISTENT_VOLUME_CLAIM,
    kinds::SECRET,
    kinds::SERVICE_ACCOUNT,
];
/// Most objects of a kind that are looked at.
const MOST: u32 = 50;

/// Looks; none where the tenant namespace is not there yet.
///
/// # Errors
/// [`Error::Read`]; then nothing is known and nothing may be decided.
pub async fn observe(
    ctx: &Context,
    cluster: &Arc<TenantCluster>,
    settings: &Settings,
) -> Result<Option<Observed>, Error> {
    let status = cluster.status.as_ref();
    let Some(namespace) = status.and_then(|status| status.namespace.clone()) else {
        return Ok(None);
    };
    let mut objects = BTreeMap::new();
    for kind in KINDS {
        objects.extend(list(ctx, kind, &namespace, process::BACKUP).await?);
    }
    let target = cluster.spec.backup.as_ref().and_then(|backup| {
        let named = ObjectRef::<BackupTarget>::new(&backup.target);
        ctx.stores.targets.get(&named)
    });
    let (mut wrapping_key, mut credentials, mut secrets) = (None, None, SecretData::new());
    if let Some(target) = &target {
        (wrapping_key, credentials) = of_target(ctx, target, settings).await?;
        secrets = of_identity(ctx, &namespace).await?;
    }
    let mut store = authorities(&secrets);
    let secret = |name: &str| objects.get(&Key::new("Secret", &namespace, name));
    if let Some(pair) = secret(process::CERTIFICATE).and_then(certificate) {
        store.insert(process::CERTIFICATE.to_owned(), pair);
    }
    let keys = secret(process::KEYS).and_then(data_keys);
    let sealed = secret(process::IDENTITY).and_then(sealed);
    let mut observed = Observed {
        valid: validate::validate(cluster, settings).ok(),
        cluster: Arc::clone(cluster),
        target,
        wrapping_key,
        credentials,
        store,
        secrets,
        sealed,
        keys,
        pod: None,
        report: None,
        tests: None,
        may_test: false,
        awaited: begin::awaited(&ctx.stores.restores.state(), cluster),
        objects,
    };
    let deployment = Key::new("Deployment", &namespace, process::BACKUP);
    let has_etcd = status.is_some_and(|status| status.etcd.is_some());
    if has_etcd && cluster.spec.backup.is_some() && observed.objects.contains_key(&deployment) {
        ask(ctx, &namespace, &mut observed).await?;
    }
    look_for_tests(ctx, &namespace, &mut observed).await?;
    Ok(Some(observed))
}

/// Jobs that test a restore, and their pods: where one is due, and where there is to be none.
async fn look_for_tests(
    ctx: &Context,
    namespace: &str,
    observed: &mut Observed,
) -> Result<(), Error> {
    let cluster = Arc::clone(&observed.cluster);
    let report = observed.report.as_ref().and_then(|said| said.as_ref().ok());
    let is_due = report.is_some_and(|said| restore_test::is_due(&cluster, said, Timestamp::now()));
    let status = cluster.status.as_ref();
    let is_restoring = status.is_some_and(|status| status.restore.is_some());
    if !is_due && !is_restoring && cluster.spec.backup.is_some() {
        return Ok(());
    }
    let jobs = list(ctx, kinds::JOB, namespace, process::RESTORE_TEST).await?;
    let pods = list(ctx, kinds::POD, namespace, process::RESTORE_TEST).await?;
    observed.objects.extend(jobs);
    observed.tests = Some(pods.into_values().collect());
    observed.may_test = is_due && ctx.backups.begin_test(cluster.identity_uid());
    Ok(())
}

/// The newest pod, and what it says.
async fn ask(ctx: &Context, namespace: &str, observed: &mut Observed) -> Result<(), Error> {
    let Some((pod, address)) = newest_pod(ctx, namespace).await? else {
        return Ok(());
    };
    observed.pod = Some(pod);
    if let Some(address) = address {
        observed.report = Some(report::ask(address).await);
    }
    Ok(())
}

/// The newest pod of the process in a tenant namespace, and where it answers.
///
/// # Errors
/// [`Error::Read`].
pub async fn newest_pod(
    ctx: &Context,
    namespace: &str,
) -> Result<Option<(Pod, Option<SocketAddr>)>, Error> {
    let pods = list(ctx, kinds::POD, namespace, process::BACKUP).await?;
    let since = |pod: &Value| {
        let created = pod.pointer("/metadata/creationTimestamp")?.as_str()?;
        created.parse::<Timestamp>().ok()
    };
    let mut pods: Vec<_> = pods
        .values()
        .filter(|pod| pod.pointer("/metadata/deletionTimestamp").is_none())
        .filter_map(|pod| Some((since(pod)?, pod)))
        .collect();
    pods.sort_by_key(|(since, _)| *since);
    let Some((since, pod)) = pods.pop() else {
        return Ok(None);
    };
    let address = pod.pointer("/status/podIP").and_then(Value::as_str);
    let address = address.and_then(|address| address.parse::<IpAddr>().ok());
    let port = u16::try_from(process::STATUS_PORT).ok();
    let address = address.zip(port);
    let address = address.map(|(ip, port)| (ctx.dial)(namespace, SocketAddr::new(ip, port)));
    let pod = Pod {
        since,
        failure: pod_failures::of_object(pod).map(|failure| failure.message),
    };
    Ok(Some((pod, address)))
}

async fn list(
    ctx: &Context,
    kind: Kind,
    namespace: &str,
    component: &str,
) -> Result<BTreeMap<Key, Value>, Error> {
    let labelled = format!("{}={component}", names::LABEL_COMPONENT);
    let params = ListParams::default().labels(&labelled).limit(MOST);
    let found = untyped::of(kind, &ctx.client, Some(namespace))
        .list(&params)
        .await;
    let found = found.map_err(|source| read("what there is of the backup", source))?;
    let one = |object: &kube::api::DynamicObject| {
        let key = Key::new(kind.kind, namespace, &object.name_any());
        let mut body = serde_json::to_value(object).unwrap_or_default();
        body["apiVersion"] = kind.api_version().into();
        body["kind"] = kind.kind.into();
        (key, body)
    };
    Ok(found.items.iter().map(one).collect())
}

/// Key to wrap with, and credentials.
type OfTarget = (Option<Vec<u8>>, Option<BTreeMap<String, Vec<u8>>>);

async fn of_target(
    ctx: &Context,
    target: &BackupTarget,
    settings: &Settings,
) -> Result<OfTarget, Error> {
    let secrets = Api::<Secret>::namespaced(ctx.client.clone(), &settings.operator_namespace);
    let get = async |name: &str| {
        let found = secrets.get_opt(name).await;
        found
            .map(|secret| secret.and_then(|secret| secret.data).unwrap_or_default())
            .map_err(|source| read("a Secret that the BackupTarget names", source))
    };
    let key = get(&target.spec.encryption.key_secret).await?;
    let key = key.get(process::WRAPPING_KEY).map(|key| key.0.clone());
    let key = key.filter(|key| backup_format::keys::WrappingKey::read(key).is_ok());
    let Some(s3) = &target.spec.s3 else {
        return Ok((key, None));
    };
    let mut login = get(&s3.credentials_secret).await?;
    let field = |name: &str| Some((name.to_owned(), login.remove(name)?.0));
    let fields = process::CREDENTIAL_FIELDS.map(field);
    let credentials: Option<BTreeMap<_, _>> = fields.into_iter().collect();
    Ok((key, credentials))
}

/// The Secrets that are the tenant cluster's identity.
async fn of_identity(ctx: &Context, namespace: &str) -> Result<SecretData, Error> {
    let secrets = Api::<Secret>::namespaced(ctx.client.clone(), namespace);
    let params = ListParams::default().labels(names::NOT_OF_MACHINES);
    let found = secrets.list(&params).await;
    let found = found.map_err(|source| read("the tenant cluster's identity", source))?;
    let own = found.items.into_iter();
    let own = own.filter(|secret| tenant_cp::backup::identity::has(&secret.name_any()));
    // What nobody is to believe any more is not brought back either. Keys of encryption at rest are: what a backup has may
    // have been written with one that was dropped since.
    let own = own.filter(|secret| {
        generations::is_encryption(&secret.name_any())
            || !secret.annotations().contains_key(tenant_cp::names::DROPPED)
    });
    let fields = |secret: Secret| {
        let data = secret.data.clone().unwrap_or_default();
        let data = data.into_iter().map(|(field, value)| (field, value.0));
        (secret.name_any(), data.collect())
    };
    Ok(own.map(fields).collect())
}

/// Every generation of etcd's authority.
fn authorities(secrets: &SecretData) -> Store {
    let pair = |(name, data): (&String, &BTreeMap<String, Vec<u8>>)| {
        generations::of_authority(name, tenant_cp::names::ETCD_CA)?;
        let text = |field: &str| String::from_utf8(data.get(field)?.clone()).ok();
        let pair = KeyPair {
            certificate: text("ca.crt")?,
            key: pki::Key::new(text("ca.key")?),
        };
        Some((name.clone(), pair))
    };
    secrets.iter().filter_map(pair).collect()
}

fn field(secret: &Value, name: &str) -> Option<Vec<u8>> {
    let text = secret.get("data")?.get(name)?.as_str()?;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

fn certificate(secret: &Value) -> Option<KeyPair> {
    let text = |name: &str| String::from_utf8(field(secret, name)?).ok();
    Some(KeyPair {
        certificate: text("tls.crt")?,
        key: pki::Key::new(text("tls.key")?),
    })
}

fn sealed(secret: &Value) -> Option<Sealed> {
    let annotation = |name: &str| secret["metadata"]["annotations"][name].as_str();
    Some(Sealed {
        identity: SealedIdentity::read(&field(secret, process::IDENTITY_FIELD)?)?,
        keys: annotation(process::ANNOTATION_IDENTITY_KEYS)?.to_owned(),
        whole: annotation(process::ANNOTATION_IDENTITY_WHOLE)?.to_owned(),
    })
}

fn data_keys(secret: &Value) -> Option<DataKeys> {
    let wrapped_for = secret["metadata"]["annotations"][process::ANNOTATION_WRAPPED_FOR].as_str();
    let (data, wrapped) = (field(secret, "data-key")?, field(secret, "wrapped-key")?);
    let is_one = backup_format::keys::DataKey::read(&data).is_some();
    is_one.then(|| DataKeys {
        data,
        wrapped,
        wrapped_for: wrapped_for.unwrap_or_default().to_owned(),
    })
}

fn read(what: &'static str, source: kube::Error) -> Error {
    Error::Read {
        what,
        source: Box::new(source),
    }
}
