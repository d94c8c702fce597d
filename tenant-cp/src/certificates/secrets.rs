//! The Secrets of the tenant namespace that hold keys and certificates, and reading them back.
//!
//! An authority in its own Secret is `ca.crt` and `ca.key`.
//! Invariant: each container mounts exactly one Secret with everything it needs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use pki::{Key, KeyPair};
use serde_json::Value;

use crate::addons::{autoscaler, cloud_controller, csi};
use crate::certificates::etcd_identity::EtcdIdentity;
use crate::certificates::files::Files;
use crate::certificates::kubeconfig;
use crate::certificates::material::{Material, ServiceAccountKeys};
use crate::desired::control_plane::apiserver;
use crate::desired::services;
use crate::names;
use crate::object::Object;
use crate::validate::validated::Validated;

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

/// Secrets `ca`, `front-proxy-ca`, `etcd-ca`, `service-account` and `encryption`. They are created
/// once and never overwritten; what the material lacks is left out.
#[must_use]
pub fn authority_secrets(v: &Validated, material: &Material) -> Vec<Object> {
    let mut secrets = Vec::new();
    for name in names::AUTHORITIES {
        if let Some(pair) = material.store.get(name) {
            let mut files = Files::default();
            files.pair("ca", pair);
            secrets.push(files.into_secret(v, name));
        }
    }
    if let Some(keys) = &material.service_account {
        let mut files = Files::default();
        files.service_account(keys);
        secrets.push(files.into_secret(v, names::SERVICE_ACCOUNT));
    }
    if let Some(encryption) = &material.encryption {
        let mut files = Files::default();
        files.put("encryption.yaml", encryption.reveal());
        secrets.push(files.into_secret(v, names::ENCRYPTION));
    }
    secrets
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
pub(super) fn companions(certificate: &str) -> &'static [&'static str] {
    match certificate {
        "apiserver"
        | "apiserver-kubelet-client"
        | "front-proxy-client"
        | "apiserver-etcd-client" => &[
            "ca",
            "front-proxy-ca",
            "etcd-ca",
            names::SERVICE_ACCOUNT,
            names::ENCRYPTION,
        ],
        "controller-manager" => &["front-proxy-ca", names::SERVICE_ACCOUNT],
        "konnectivity-server" => &["ca"],
        _ => &[],
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
            for authority in names::AUTHORITIES {
                files.certificate(authority, store)?;
            }
            files.service_account(material.service_account.as_ref()?);
            files.put("encryption.yaml", material.encryption.as_ref()?.reveal());
            files.put("audit-policy.yaml", apiserver::files::AUDIT_POLICY);
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
            files.pair("ca", store.get("ca")?);
            files.certificate("front-proxy-ca", store)?;
            files.put(
                "sa.key",
                material.service_account.as_ref()?.private.reveal(),
            );
            files.put(
                "kubeconfig",
                &kubeconfig::of_component("controller-manager"),
            );
        }
        names::SCHEDULER => {
            files.pair("scheduler", store.get("scheduler")?);
            files.certificate("ca", store)?;
            files.put("kubeconfig", &kubeconfig::of_component("scheduler"));
        }
        names::KONNECTIVITY_SERVER if v.addons.konnectivity => {
            files.pair("konnectivity-server", store.get("konnectivity-server")?);
            files.pair("konnectivity-client", store.get("konnectivity-client")?);
            files.certificate("ca", store)?;
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
            files.certificate("etcd-ca", store)?;
        }
        names::ETCD_HEALTHCHECK_CLIENT => {
            files.pair(
                "etcd-healthcheck-client",
                store.get("etcd-healthcheck-client")?,
            );
            files.certificate("etcd-ca", store)?;
        }
        names::OPERATOR_CLIENT => {
            files.pair("operator", store.get("operator")?);
            files.certificate("ca", store)?;
        }
        cloud_controller::NAME if v.addons.cloud_controller => files.client(v, store, name)?,
        autoscaler::names::NAME | autoscaler::names::STOCK if v.autoscaler.is_some() => {
            files.client(v, store, name)?;
        }
        autoscaler::names::SERVER | autoscaler::names::CLIENT if v.autoscaler.is_some() => {
            files.pair(TLS, store.get(name)?);
            files.put(
                "ca.crt",
                &store.get(autoscaler::names::AUTHORITY)?.certificate,
            );
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
            files.certificate("ca", store)?;
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
            material.service_account = read_service_account(data);
            material.encryption = text(data, "encryption.yaml").map(Key::new);
        }
    }
    for name in names::AUTHORITIES.into_iter().chain(SMALL_AUTHORITIES) {
        if let Some(data) = secrets.get(name) {
            match read_pair(data, "ca") {
                Some(pair) => material.store.insert(name.to_owned(), pair),
                None => material.store.remove(name),
            };
        }
    }
    if let Some(data) = secrets.get(names::SERVICE_ACCOUNT) {
        material.service_account = read_service_account(data);
    }
    if let Some(data) = secrets.get(names::ENCRYPTION) {
        material.encryption = text(data, "encryption.yaml").map(Key::new);
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

fn read_service_account(data: &BTreeMap<String, Vec<u8>>) -> Option<ServiceAccountKeys> {
    Some(ServiceAccountKeys {
        public: text(data, "sa.pub")?,
        private: Key::new(text(data, "sa.key")?),
    })
}

fn text(data: &BTreeMap<String, Vec<u8>>, key: &str) -> Option<String> {
    String::from_utf8(data.get(key)?.clone()).ok()
}
