//! The Secrets of the tenant namespace that hold keys and certificates, and reading them back.
//!
//! An authority in its own Secret is `ca.crt` and `ca.key`; a later generation of it has a Secret of its own
//! ([`generations`]), and so has a later generation of service account keys. These are `sa-k<generation>.pub` and
//! `.key`, those of encryption `k<generation>`: one that a rotation made has a Secret of its own, too.
//! Invariant: each container mounts exactly one Secret with everything it needs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kit_objects::object::Object;
use pki::{Key, KeyPair, Signer, Want};
use serde_json::Value;

use crate::addons::registry::{ALL, wanted};
use crate::certificates::etcd_identity::EtcdIdentity;
use crate::desired::control_plane::apiserver;
use crate::encrypted_kinds::EncryptedKinds;
use crate::generations::{self, Generations};
use crate::kubeconfig;
use crate::material::{
    Material, ServiceAccountKeys, encryption_configuration, encryption_generation, encryption_keys,
    encryption_name, service_account_generation,
};
use crate::names;
use crate::secret_files::{Files, TLS};
use crate::validate::validated::Validated;

/// What the Secrets hold: Secret name to key to bytes.
pub type SecretData = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// Key of the user's kubeconfig in its Secret, and the certificate in it.
const KUBECONFIG: &str = "value";
const ADMIN: &str = "admin";
/// The certificates that the authority of the cluster signs. Both are shown by kube-apiservers.
pub const OF_CLUSTER: [&str; 2] = ["apiserver", "apiserver-kubelet-client"];
/// What the file of a cross-certificate is called before who signed it, in the Secret of the authority that it is of.
const CROSSED: &str = "by-";
/// Those of the Secrets that [`leaf_secrets`] makes that are of no addon.
const OF_CONTROL_PLANE: [&str; 7] = [
    names::API_SERVER,
    names::CONTROLLER_MANAGER,
    names::SCHEDULER,
    names::ETCD,
    names::ETCD_EVENTS,
    names::ETCD_HEALTHCHECK_CLIENT,
    names::OPERATOR_CLIENT,
];

/// The Secrets that [`leaf_secrets`] makes, but for those of [`small_authorities`].
pub fn consumers() -> impl Iterator<Item = &'static str> {
    let of_addons = ALL.iter().flat_map(|addon| addon.secrets());
    OF_CONTROL_PLANE.into_iter().chain(of_addons.copied())
}

/// Authorities that only the two ends of one connection know, and their Secrets. They are made anew
/// when they are lost or end, and written as any leaf is.
pub fn small_authorities() -> impl Iterator<Item = &'static str> {
    let of_addons = ALL.iter().flat_map(|addon| addon.authorities());
    of_addons.copied()
}

/// Secrets of [`names::AUTHORITIES`], `service-account` and `encryption` (every generation its own). They
/// are created once and never overwritten; what the material lacks is left out.
#[must_use]
pub fn authority_secrets(v: &Validated, material: &Material) -> Vec<Object> {
    let mut secrets = Vec::new();
    for (name, pair) in &material.store {
        if generations::is_authority(name) {
            let mut files = Files::default();
            files.pair("ca", pair);
            for (signer, certificate) in material.crossed.get(name).into_iter().flatten() {
                files.put(&crossed_file(signer), certificate);
            }
            secrets.push(files.into_secret(v, name));
        }
    }
    let mut generations: Vec<_> = material.service_account.active_first().collect();
    generations.sort_by_key(|(generation, _)| *generation);
    for (generation, keys) in generations {
        let mut files = Files::default();
        let one = Generations::from_iter([(generation, keys.clone())]);
        if files.service_account(&one).is_some() {
            secrets.push(files.into_secret(v, &generations::service_account_secret(generation)));
        }
    }
    secrets.extend(encryption_secrets(v, material));
    secrets
}

/// One for all that no rotation made, and one for each that one made.
fn encryption_secrets(v: &Validated, material: &Material) -> Vec<Object> {
    let is_apart = |generation: &u32| material.encryption_apart.contains(generation);
    let (mut together, mut secrets) = (Files::default(), Vec::new());
    let mut has_some = false;
    for (generation, key) in material.encryption.active_first() {
        if is_apart(&generation) {
            let mut files = Files::default();
            files.put(&encryption_name(generation), key.reveal());
            secrets.push(files.into_secret(v, &generations::encryption_secret(generation)));
        } else {
            together.put(&encryption_name(generation), key.reveal());
            has_some = true;
        }
    }
    if has_some {
        secrets.push(together.into_secret(v, names::ENCRYPTION));
    }
    secrets
}

/// One Secret for each of [`consumers`], and those of [`small_authorities`]. One whose material is not
/// complete is left out; that never means that it should be deleted. `etcd`: what is known of the members;
/// without it their Secret is left out.
#[must_use]
pub fn leaf_secrets(
    v: &Validated,
    material: &Material,
    etcd: Option<&EtcdIdentity>,
) -> Vec<Object> {
    let store = &material.store;
    let of_control_plane = OF_CONTROL_PLANE.into_iter().filter_map(|name| {
        let mut files = consumer(v, material, name)?;
        if name == names::ETCD {
            let etcd = etcd?;
            files.put(names::INITIAL_CLUSTER_STATE, etcd.state.as_str());
            files.put(names::INITIAL_CLUSTER, &etcd.initial_cluster());
            files.put(names::ETCD_IDENTITY, &etcd.file());
        }
        Some(files.into_secret(v, name))
    });
    let of_addons = wanted(v).flat_map(|addon| {
        let secret = |name: &&str| Some(addon.secret(v, store, name)?.into_secret(v, name));
        addon.secrets().iter().filter_map(secret)
    });
    let authorities = wanted(v).flat_map(|addon| addon.authorities());
    let authorities = authorities.filter_map(|name| {
        let mut files = Files::default();
        files.pair("ca", store.get(*name)?);
        Some(files.into_secret(v, name))
    });
    of_control_plane
        .chain(of_addons)
        .chain(authorities)
        .collect()
}

/// What the Secret of a certificate needs besides its signer: names of authorities, and
/// [`names::SERVICE_ACCOUNT`] and [`names::ENCRYPTION`]. Without all of it the Secret cannot be written,
/// so the certificate is not worth making.
pub(super) fn companions(want: &Want) -> &'static [&'static str] {
    let of_addons = ALL.iter().map(|addon| addon.companions(&want.name));
    if let Some(companions) = of_addons.into_iter().find(|names| !names.is_empty()) {
        return companions;
    }
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
        // Whoever asks the tenant's API has to believe it.
        _ => match &want.signer {
            Signer::By(signer)
                if [names::CLIENT_CA, names::USERS_CA]
                    .iter()
                    .any(|of| generations::of_authority(signer, of).is_some()) =>
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
            let beside = material.shown_beside().unwrap_or_default();
            for leaf in OF_CLUSTER {
                files.chain(leaf, store.get(leaf)?, beside);
            }
            for leaf in ["front-proxy-client", "apiserver-etcd-client"] {
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
            files.service_account_dropped(&material.service_account_dropped);
            let encryption = encryption_configuration(&material.encryption, &material.encrypted)?;
            files.put("encryption.yaml", encryption.reveal());
            if let Some(record) = material.encrypted.record() {
                files.put(names::ENCRYPTED_KINDS, &record);
            }
            let policy = apiserver::files::choices::audit_policy(v.audit.as_ref());
            files.put("audit-policy.yaml", &policy);
            for (name, content) in apiserver::files::choices::files(v) {
                files.put(&name, &content);
            }
            // Without konnectivity a kube-apiserver with issuers does not start (`oidc: egress lookup
            // required`); `validate` lets nobody ask for that.
            let issuers = match v.addons.konnectivity.enabled {
                true => v.issuers.as_slice(),
                false => &[],
            };
            let authentication = apiserver::files::authentication(issuers);
            files.put("authentication.yaml", &authentication);
            let admission = apiserver::files::admission(&v.pod_security);
            files.put("admission.yaml", &admission);
            if v.addons.konnectivity.enabled {
                files.put("egress-selector.yaml", apiserver::files::EGRESS);
            }
        }
        names::CONTROLLER_MANAGER => {
            files.client(v, store, name)?;
            for authority in [names::KUBELET_SERVING_CA, names::CLIENT_CA, names::USERS_CA] {
                files.signers(authority, store)?;
            }
            files.trusted(names::FRONT_PROXY_CA, store)?;
            files.clients(store)?;
            files.service_account_signers(&material.service_account)?;
        }
        names::SCHEDULER => files.client(v, store, name)?,
        names::ETCD => {
            for member in 0..v.etcd.replicas {
                for role in ["server", "peer"] {
                    let leaf = format!("{}-{role}", names::etcd_member(member));
                    files.pair(&leaf, store.get(&leaf)?);
                }
            }
            files.trusted(names::ETCD_CA, store)?;
        }
        names::ETCD_EVENTS => {
            v.etcd.events.as_ref()?;
            let leaf = format!("{name}-server");
            files.pair(&leaf, store.get(&leaf)?);
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
    for name in consumers() {
        let Some(data) = secrets.get(name) else {
            continue;
        };
        for leaf in data.keys().filter_map(|key| key.strip_suffix(".crt")) {
            if let Some(mut pair) = read_pair(data, leaf) {
                let (first, beside) = pki::first_certificate(&pair.certificate);
                if !beside.is_empty() {
                    pair.certificate = first.to_owned();
                }
                let certificate = if leaf == TLS { name } else { leaf };
                material.store.insert(certificate.to_owned(), pair);
            }
        }
        if name == names::API_SERVER {
            let file = text(data, "encryption.yaml").unwrap_or_default();
            material.service_account = read_service_account(data);
            material.encryption = encryption_keys(&file);
            let record = text(data, names::ENCRYPTED_KINDS).unwrap_or_default();
            material.encrypted = EncryptedKinds::read_back(&file, &record);
        }
    }
    for (name, data) in secrets {
        if generations::is_authority(name) || small_authorities().any(|small| small == name) {
            match read_pair(data, "ca") {
                Some(pair) => material.store.insert(name.clone(), pair),
                None => material.store.remove(name),
            };
        }
        if generations::of_authority(name, names::CA).is_some() {
            let crossed = read_crossed(data);
            if !crossed.is_empty() {
                material.crossed.insert(name.clone(), crossed);
            }
        }
    }
    for (name, data) in secrets {
        if generations::of_service_account(name).is_some() {
            for (generation, keys) in read_service_account(data).active_first() {
                material.service_account.insert(generation, keys.clone());
            }
        }
    }
    read_encryption_keys(secrets, &mut material);
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
            // The same one signed it as before, so what stands beside it stays.
            let before = before.get(&format!("{file}.crt"));
            let before = before.and_then(|bytes| std::str::from_utf8(&bytes.0).ok());
            let (_, beside) = pki::first_certificate(before.unwrap_or_default());
            files.chain(file, material.store.get(certificate)?, beside);
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
    consumers().any(|name| secrets.contains_key(name))
}

fn read_pair(data: &BTreeMap<String, Vec<u8>>, name: &str) -> Option<KeyPair> {
    Some(KeyPair {
        certificate: text(data, &format!("{name}.crt"))?,
        key: Key::new(text(data, &format!("{name}.key"))?),
    })
}

fn crossed_file(signer: &str) -> String {
    format!("{CROSSED}{signer}.crt")
}

/// Cross-certificates in the Secret of an authority, by who signed them.
fn read_crossed(data: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, String> {
    let read = |file: &String| {
        let signer = file.strip_prefix(CROSSED)?.strip_suffix(".crt")?;
        generations::of_authority(signer, names::CA)?;
        Some((signer.to_owned(), text(data, file)?))
    };
    data.keys().filter_map(read).collect()
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

/// The keys of all Secrets that have some, and of the kube-apiserver's file those that have none: theirs is made again.
fn read_encryption_keys(secrets: &SecretData, material: &mut Material) {
    let own = secrets.iter();
    let own = own.filter(|(name, _)| generations::of_encryption(name).is_some());
    let mut apart: BTreeSet<u32> = BTreeSet::new();
    for (_, data) in own {
        for (generation, key) in read_encryption(data).active_first() {
            material.encryption.insert(generation, key.clone());
            apart.insert(generation);
        }
    }
    let together: BTreeSet<u32> = match secrets.get(names::ENCRYPTION) {
        Some(data) => {
            let keys = read_encryption(data);
            for (generation, key) in keys.active_first() {
                material.encryption.insert(generation, key.clone());
            }
            keys.numbers().collect()
        }
        // Every kube-apiserver has the oldest: the others may have been on their way to them.
        None => {
            let mut others = material.encryption.numbers();
            others
                .find(|number| !apart.contains(number))
                .into_iter()
                .collect()
        }
    };
    let all = material.encryption.numbers();
    material.encryption_apart = all.filter(|number| !together.contains(number)).collect();
}

fn text(data: &BTreeMap<String, Vec<u8>>, key: &str) -> Option<String> {
    String::from_utf8(data.get(key)?.clone()).ok()
}
