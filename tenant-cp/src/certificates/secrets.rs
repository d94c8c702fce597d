//! The Secrets of the tenant namespace that hold keys and certificates, and reading them back.
//!
//! An authority in its own Secret is `ca.crt` and `ca.key`; a later generation of it has a Secret of its own
//! ([`generations`]). Service account keys are `sa-k<generation>.pub` and `.key`, those of encryption
//! `k<generation>`.
//! Invariant: each container mounts exactly one Secret with everything it needs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use pki::{Key, KeyPair, Signer, Want};
use serde_json::Value;

use crate::addons::{autoscaler, cloud_controller, csi};
use crate::certificates::etcd_identity::EtcdIdentity;
use crate::certificates::files::Files;
use crate::certificates::kubeconfig;
use crate::desired::control_plane::apiserver;
use crate::desired::services;
use crate::generations::{self, Generations};
use crate::material::{
    Material, ServiceAccountKeys, encryption_configuration, encryption_generation, encryption_keys,
    encryption_name, service_account_generation,
};
use crate::names;
use crate::validate::validated::Validated;
use kit_objects::object::Object;

/// What the Secrets hold: Secret name to key to bytes.
pub type SecretData = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// Authorities that only the two ends of one connection know, and their Secrets. They are made anew
/// when they are lost or end, and written as any leaf is.
pub const SMALL_AUTHORITIES: [&str; 2] =
    [names::KONNECTIVITY_AUTHORITY, autoscaler::names::AUTHORITY];
/// What a Secret with one certificate for a connection calls it (`kubernetes.io/tls`).
const TLS: &str = "tls";
/// Key of the user's kubeconfig in its Secret, and the certificate in it.
const KUBECONFIG: &str = "value";
const ADMIN: &str = "admin";
/// The Secrets that [`leaf_secrets`] makes.
pub const CONSUMERS: [&str; 13] = [
    names::API_SERVER,
    names::CONTROLLER_MANAGER,
    names::SCHEDULER,
    names::KONNECTIVITY_SERVER,
    names::ETCD,
    names::ETCD_HEALTHCHECK_CLIENT,
    names::OPERATOR_CLIENT,
    cloud_controller::NAME,
    csi::names::NAME,
    autoscaler::names::NAME,
    autoscaler::names::SERVER,
    autoscaler::names::STOCK,
    autoscaler::names::CLIENT,
];

/// Secrets of [`names::AUTHORITIES`] (every generation its own), `service-account` and `encryption`. They
/// are created once and never overwritten; what the material lacks is left out.
#[must_use]
pub fn authority_secrets(v: &Validated, material: &Material) -> Vec<Object> {
    let mut secrets = Vec::new();
    for (name, pair) in &material.store {
        if is_identity(name) {
            let mut files = Files::default();
            files.pair("ca", pair);
            secrets.push(files.into_secret(v, name));
        }
    }
    let mut files = Files::default();
    if files.service_account(&material.service_account).is_some() {
        secrets.push(files.into_secret(v, names::SERVICE_ACCOUNT));
    }
    if !material.encryption.is_empty() {
        let mut files = Files::default();
        for (generation, key) in material.encryption.active_first() {
            files.put(&encryption_name(generation), key.reveal());
        }
        secrets.push(files.into_secret(v, names::ENCRYPTION));
    }
    secrets
}

/// Whether it is a generation of one of [`names::AUTHORITIES`].
fn is_identity(name: &str) -> bool {
    let mut all = names::AUTHORITIES.iter();
    all.any(|authority| generations::of_authority(name, authority).is_some())
}

/// One Secret per consumer: `apiserver`, `controller-manager`, `scheduler`, `konnectivity-server`,
/// `etcd`, `etcd-healthcheck-client`, `operator-client`, `ccm`, `csi` and the autoscaler's four; and those
/// of [`SMALL_AUTHORITIES`]. One whose material is not complete is left out; that never means that it
/// should be deleted. `etcd`: what is known of the members; without it their Secret is left out.
#[must_use]
pub fn leaf_secrets(
    v: &Validated,
    material: &Material,
    etcd: Option<&EtcdIdentity>,
) -> Vec<Object> {
    let mut secrets: Vec<Object> = CONSUMERS
        .into_iter()
        .filter_map(|name| Some((name, consumer(v, material, name)?)))
        .filter_map(|(name, mut files)| {
            if name == names::ETCD {
                let etcd = etcd?;
                files.put(names::INITIAL_CLUSTER_STATE, etcd.state.as_str());
                files.put(names::ETCD_IDENTITY, &etcd.file());
            }
            Some(files.into_secret(v, name))
        })
        .collect();
    for name in SMALL_AUTHORITIES {
        let wanted = match name {
            autoscaler::names::AUTHORITY => v.autoscaler.is_some(),
            _ => v.addons.konnectivity,
        };
        if let Some(pair) = material.store.get(name).filter(|_| wanted) {
            let mut files = Files::default();
            files.pair("ca", pair);
            secrets.push(files.into_secret(v, name));
        }
    }
    secrets
}

/// What the Secret of a certificate needs besides its signer: names of authorities, and
/// [`names::SERVICE_ACCOUNT`] and [`names::ENCRYPTION`]. Without all of it the Secret cannot be written,
/// so the certificate is not worth making.
pub(super) fn companions(want: &Want) -> &'static [&'static str] {
    match want.name.as_str() {
        "apiserver"
        | "apiserver-kubelet-client"
        | "front-proxy-client"
        | "apiserver-etcd-client" => &[
            names::CA,
            names::KUBELET_SERVING_CA,
            names::CLIENT_CA,
            names::USERS_CA,
            names::FRONT_PROXY_CA,
            names::ETCD_CA,
            names::SERVICE_ACCOUNT,
            names::ENCRYPTION,
        ],
        "controller-manager" => &[
            names::CA,
            names::KUBELET_SERVING_CA,
            names::USERS_CA,
            names::FRONT_PROXY_CA,
            names::SERVICE_ACCOUNT,
        ],
        "konnectivity-server" => &[names::CA, names::CLIENT_CA],
        // Whoever asks the tenant's API has to believe it.
        _ => match &want.signer {
            Signer::By(signer)
                if [names::CLIENT_CA, names::USERS_CA].contains(&signer.as_str()) =>
            {
                &[names::CA]
            }
            _ => &[],
        },
    }
}

fn consumer(v: &Validated, material: &Material, name: &str) -> Option<Files> {
    let store = &material.store;
    let mut files = Files::default();
    match name {
        names::API_SERVER => {
            for leaf in [
                "apiserver",
                "apiserver-kubelet-client",
                "front-proxy-client",
                "apiserver-etcd-client",
            ] {
                files.pair(leaf, store.get(leaf)?);
            }
            for authority in [
                names::KUBELET_SERVING_CA,
                names::FRONT_PROXY_CA,
                names::ETCD_CA,
            ] {
                files.trusted(authority, store)?;
            }
            files.clients(store)?;
            files.service_account(&material.service_account)?;
            let encryption = encryption_configuration(&material.encryption)?;
            files.put("encryption.yaml", encryption.reveal());
            let policy = apiserver::files::choices::audit_policy(v.audit.as_ref());
            files.put("audit-policy.yaml", &policy);
            for (name, content) in apiserver::files::choices::files(v) {
                files.put(&name, &content);
            }
            // Without konnectivity a kube-apiserver with issuers does not start (`oidc: egress lookup
            // required`); `validate` lets nobody ask for that.
            let issuers = match v.addons.konnectivity {
                true => v.issuers.as_slice(),
                false => &[],
            };
            let authentication = apiserver::files::authentication(issuers);
            files.put("authentication.yaml", &authentication);
            let admission = apiserver::files::admission(&v.pod_security);
            files.put("admission.yaml", &admission);
            if v.addons.konnectivity {
                files.put("egress-selector.yaml", apiserver::files::EGRESS);
            }
        }
        names::CONTROLLER_MANAGER => {
            files.pair("controller-manager", store.get("controller-manager")?);
            for authority in [names::KUBELET_SERVING_CA, names::CLIENT_CA, names::USERS_CA] {
                files.signers(authority, store)?;
            }
            files.trusted(names::CA, store)?;
            files.trusted(names::FRONT_PROXY_CA, store)?;
            files.clients(store)?;
            files.service_account_signers(&material.service_account)?;
            files.put(
                "kubeconfig",
                &kubeconfig::of_component("controller-manager"),
            );
        }
        names::SCHEDULER => {
            files.pair("scheduler", store.get("scheduler")?);
            files.trusted(names::CA, store)?;
            files.put("kubeconfig", &kubeconfig::of_component("scheduler"));
        }
        names::KONNECTIVITY_SERVER if v.addons.konnectivity => {
            files.pair("konnectivity-server", store.get("konnectivity-server")?);
            files.pair("konnectivity-client", store.get("konnectivity-client")?);
            files.trusted(names::CA, store)?;
            // Through the Service: it can be told of agents, and take its Lease down, also while
            // the kube-apiserver beside it starts or has ended already.
            let server = format!("https://{}:{}", names::CONTROL_PLANE, services::port(v));
            files.put(
                "kubeconfig",
                &kubeconfig::of_client("konnectivity-client", &server),
            );
        }
        names::ETCD => {
            for member in 0..v.etcd.replicas {
                for role in ["server", "peer"] {
                    let leaf = format!("{}-{role}", names::etcd_member(member));
                    files.pair(&leaf, store.get(&leaf)?);
                }
            }
            files.trusted(names::ETCD_CA, store)?;
        }
        names::ETCD_HEALTHCHECK_CLIENT => {
            files.pair(
                "etcd-healthcheck-client",
                store.get("etcd-healthcheck-client")?,
            );
            files.trusted(names::ETCD_CA, store)?;
        }
        names::OPERATOR_CLIENT => {
            files.pair("operator", store.get("operator")?);
            files.trusted(names::CA, store)?;
        }
        cloud_controller::NAME if v.addons.cloud_controller => files.client(v, store, name)?,
        autoscaler::names::NAME | autoscaler::names::STOCK if v.autoscaler.is_some() => {
            files.client(v, store, name)?;
        }
        autoscaler::names::SERVER | autoscaler::names::CLIENT if v.autoscaler.is_some() => {
            files.pair(TLS, store.get(name)?);
            let trusted = generations::bundle(store, autoscaler::names::AUTHORITY)?;
            files.put("ca.crt", &trusted);
            if name == autoscaler::names::CLIENT {
                files.put(
                    autoscaler::certificates::CLOUD_CONFIG,
                    &autoscaler::certificates::cloud_config(v),
                );
            }
        }
        csi::names::NAME => {
            let server = format!("https://{}:{}", names::CONTROL_PLANE, services::port(v));
            for sidecar in csi::sidecars::sidecars(v.storage.as_ref()?) {
                files.pair(sidecar.name, store.get(sidecar.name)?);
                let kubeconfig = kubeconfig::of_client(sidecar.name, &server);
                files.put(&sidecar.kubeconfig(), &kubeconfig);
            }
            files.trusted(names::CA, store)?;
        }
        _ => return None,
    }
    Some(files)
}

/// The inverse: what the Secrets hold. Authorities and keys whose own Secret is gone are taken from
/// the copies in the consumers' Secrets. The user's Secret `<name>-kubeconfig` belongs to the input
/// too: `admin` is read from it. What cannot be read is left out.
#[must_use]
pub fn read_store(secrets: &SecretData) -> Material {
    let mut material = Material::default();
    for name in CONSUMERS {
        let Some(data) = secrets.get(name) else {
            continue;
        };
        for leaf in data.keys().filter_map(|key| key.strip_suffix(".crt")) {
            if let Some(pair) = read_pair(data, leaf) {
                let certificate = if leaf == TLS { name } else { leaf };
                material.store.insert(certificate.to_owned(), pair);
            }
        }
        if name == names::API_SERVER {
            let file = text(data, "encryption.yaml").unwrap_or_default();
            material.service_account = read_service_account(data);
            material.encryption = encryption_keys(&file);
        }
    }
    for (name, data) in secrets {
        if is_identity(name) || SMALL_AUTHORITIES.contains(&name.as_str()) {
            match read_pair(data, "ca") {
                Some(pair) => material.store.insert(name.clone(), pair),
                None => material.store.remove(name),
            };
        }
    }
    if let Some(data) = secrets.get(names::SERVICE_ACCOUNT) {
        material.service_account = read_service_account(data);
    }
    if let Some(data) = secrets.get(names::ENCRYPTION) {
        material.encryption = read_encryption(data);
    }
    let admin = secrets
        .values()
        .filter_map(|data| data.get(KUBECONFIG))
        .find_map(|value| kubeconfig::read(value));
    if let Some(admin) = admin {
        material.store.insert(ADMIN.to_owned(), admin);
    }
    material
}

/// A live Secret, the user's kubeconfig included, with the certificates that `renewed` names as the
/// material has them; none when nothing of it is renewed.
#[must_use]
pub fn renewed_secret(
    live: &Value,
    material: &Material,
    renewed: &BTreeSet<String>,
) -> Option<Object> {
    let secret: Secret = serde_json::from_value(live.clone()).ok()?;
    let name = secret.metadata.name.clone()?;
    let before: BTreeMap<String, ByteString> = secret.data.unwrap_or_default();
    let mut files = Files::from(before.clone());
    for file in before.keys().filter_map(|key| key.strip_suffix(".crt")) {
        let certificate = if file == TLS { name.as_str() } else { file };
        if renewed.contains(certificate) {
            files.pair(file, material.store.get(certificate)?);
        }
    }
    if let Some(value) = before.get(KUBECONFIG).filter(|_| renewed.contains(ADMIN)) {
        let value = kubeconfig::with_pair(&value.0, material.store.get(ADMIN)?)?;
        files.put(KUBECONFIG, &value);
    }
    let after = files.into_data();
    if after == before {
        return None;
    }
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: secret.metadata.namespace,
        labels: secret.metadata.labels,
        owner_references: secret.metadata.owner_references,
        ..ObjectMeta::default()
    };
    Some(Object::new(&Secret {
        metadata,
        data: Some(after),
        type_: secret.type_,
        ..Secret::default()
    }))
}

/// Whether this tenant cluster had its identity already: a consumer's Secret is there, which is
/// written only after all Secrets of [`authority_secrets`]. Pass it to [`super::plan`], together
/// with what else proves that etcd ever ran (its StatefulSet).
#[must_use]
pub fn established(secrets: &SecretData) -> bool {
    CONSUMERS.iter().any(|name| secrets.contains_key(*name))
}

fn read_pair(data: &BTreeMap<String, Vec<u8>>, name: &str) -> Option<KeyPair> {
    Some(KeyPair {
        certificate: text(data, &format!("{name}.crt"))?,
        key: Key::new(text(data, &format!("{name}.key"))?),
    })
}

fn read_service_account(data: &BTreeMap<String, Vec<u8>>) -> Generations<ServiceAccountKeys> {
    let files = data.keys().filter_map(|key| key.strip_suffix(".pub"));
    let read = |file: &str| {
        let keys = ServiceAccountKeys {
            public: text(data, &format!("{file}.pub"))?,
            private: Key::new(text(data, &format!("{file}.key"))?),
        };
        Some((service_account_generation(file)?, keys))
    };
    files.filter_map(read).collect()
}

fn read_encryption(data: &BTreeMap<String, Vec<u8>>) -> Generations<Key> {
    let read = |name: &String| Some((encryption_generation(name)?, Key::new(text(data, name)?)));
    data.keys().filter_map(read).collect()
}

fn text(data: &BTreeMap<String, Vec<u8>>, key: &str) -> Option<String> {
    String::from_utf8(data.get(key)?.clone()).ok()
}
