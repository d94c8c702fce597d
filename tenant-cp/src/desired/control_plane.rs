//! Deployment `control-plane`: the kube-apiserver, and konnectivity's server beside it.
//!
//! Nothing else is in the pod but KMS plugins, where the user names one: the endpoint leads to pods all of whose containers are ready, so whatever
//! crashes beside the kube-apiserver takes the API away with it. Why konnectivity's server is there all
//! the same is in docs/adr/0013.
//!
//! A renewed certificate changes a Secret and not the pod: these programs read their files again by
//! themselves, but for konnectivity's server, which reads its serving certificate only when it
//! starts. That one, and other files that are read only at the start, are hashed into annotations of
//! the pod, so that their change makes one rollout ([`configured_at_start`] and [`keys_at_start`] name them).
//! Invariant: the number of replicas does not show in the pod template, so scaling restarts nobody.

pub(crate) mod apiserver;
mod kms;
pub(crate) mod konnectivity;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use kit_objects::object::{self, Object};
use serde_json::json;

use crate::desired::pod;
use crate::generations::{self, bundle};
use crate::material::{Material, encryption_configuration};
use crate::meta::{meta, pod_meta};
use crate::names;
use crate::network::addresses::Addresses;
use crate::settings::Settings;
use crate::validate::validated::Validated;
use apiserver::files::{self, choices};

/// Annotation of the pod: hash of the files that the kube-apiserver reads only when it starts.
const ANNOTATION_FILES: &str = "covey.dev/files-hash";
/// Annotation of the pod: hash of the keys that its programs read only when they start, and whom they trust.
const ANNOTATION_KEYS: &str = "covey.dev/keys-hash";
/// Seconds to end: the delay before connections are refused (5), the longest request (60), spare.
const GRACE_SECONDS: i64 = 75;

/// Annotation of the pod: hash of the certificate that konnectivity's server starts with.
const ANNOTATION_KONNECTIVITY: &str = "covey.dev/konnectivity-certificate-hash";

pub(crate) fn deployment(
    v: &Validated,
    settings: &Settings,
    addresses: &Addresses,
    material: &Material,
) -> Object {
    let mut init_containers = Vec::new();
    let mut volumes = vec![pod::secret_volume(names::API_SERVER)];
    volumes.extend(apiserver::directories(v).map(apiserver::Directory::volume));
    let mut annotations = BTreeMap::new();
    if v.addons.konnectivity.enabled {
        init_containers.push(konnectivity::container(v, settings));
        volumes.push(pod::secret_volume(names::KONNECTIVITY_SERVER));
        volumes.push(pod::empty_dir(names::KONNECTIVITY, "1Mi"));
        let certificate = material
            .store
            .get(names::KONNECTIVITY_SERVER)
            .map(|pair| &pair.certificate);
        annotations.insert(
            ANNOTATION_KONNECTIVITY.to_owned(),
            object::hash(&json!(certificate)),
        );
    }
    let configured = object::hash(&json!(configured_at_start(v)));
    annotations.insert(ANNOTATION_FILES.to_owned(), configured);
    let keys = object::hash(&json!(keys_at_start(v, material)));
    annotations.insert(ANNOTATION_KEYS.to_owned(), keys);
    let kms = &material.encrypted.kms;
    // One that never wrote leaves nothing behind: what was before is made again as it was, and nobody is replaced for it.
    let is_by_kms = kms.all().next().is_some() || !kms.ever.is_empty();
    if is_by_kms || !material.encryption_apart.is_empty() {
        let file = encryption_configuration(&material.encryption, &material.encrypted);
        let hash = object::hash(&json!(file.as_ref().map(pki::Key::reveal)));
        annotations.insert(names::ENCRYPTION_HASH.to_owned(), hash);
    }
    if generations::is_turned(&material.store, names::FRONT_PROXY_CA) {
        // The certificate itself may be renewed without a rollout.
        let trusted = bundle(&material.store, names::FRONT_PROXY_CA);
        let hash = object::hash(&json!([trusted, material.signer(names::FRONT_PROXY_CA)]));
        annotations.insert(names::FRONT_PROXY_HASH.to_owned(), hash);
    }
    if generations::is_turned(&material.store, names::CA) {
        // Pairs are read again without a start, and nobody can see when.
        let trusted = bundle(&material.store, names::CA);
        let hash = object::hash(&json!([trusted, material.signer(names::CA)]));
        annotations.insert(names::CLUSTER_CA_HASH.to_owned(), hash);
    }
    annotations.extend(turned_clients(material));
    let mut spec = PodSpec {
        init_containers: Some(init_containers).filter(|list| !list.is_empty()),
        containers: vec![apiserver::container(v, addresses, material)],
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        volumes: Some(volumes),
        ..pod::spec(names::CONTROL_PLANE, &v.scheduling)
    };
    kms::add(kms, settings, &mut spec);
    let template = PodTemplateSpec {
        metadata: Some(pod_meta(
            v,
            names::CONTROL_PLANE,
            annotations,
            &v.pod_metadata,
        )),
        spec: Some(spec),
    };
    Object::new(&Deployment {
        metadata: meta(v, names::CONTROL_PLANE, names::CONTROL_PLANE),
        spec: Some(pod::rolling(v, names::CONTROL_PLANE, template)),
        ..Deployment::default()
    })
}

/// What is configured that the kube-apiserver reads only when it starts.
fn configured_at_start(v: &Validated) -> Vec<String> {
    let mut files = vec![
        choices::audit_policy(v.audit.as_ref()),
        files::admission(&v.pod_security),
    ];
    if v.addons.konnectivity.enabled {
        files.push(files::EGRESS.to_owned());
    }
    files.extend(choices::files(v).into_values());
    files
}

/// Annotations of who may sign clients, once that was turned: it is read again without a start, and nobody can see when. A
/// rollout shows it, and that konnectivity's server has a certificate of whoever signs those of machinery. Each authority
/// has its own, so that a rotation of one looks like none of the other.
fn turned_clients(material: &Material) -> BTreeMap<String, String> {
    let store = &material.store;
    let of = |authority: &str, hashed: serde_json::Value| {
        let is_turned = generations::is_turned(store, authority);
        is_turned.then(|| object::hash(&hashed))
    };
    let machinery = json!([
        bundle(store, names::CLIENT_CA),
        material.signer(names::CLIENT_CA)
    ]);
    let people = json!(bundle(store, names::USERS_CA));
    let both = [
        (names::CLIENT_CA_HASH, of(names::CLIENT_CA, machinery)),
        (names::CLIENTS_HASH, of(names::USERS_CA, people)),
    ];
    let both = both.into_iter();
    both.filter_map(|(name, hash)| Some((name.to_owned(), hash?)))
        .collect()
}

/// Whom the programs of the pod trust, and keys, that they read only when they start. Not among it, because
/// they read it again by themselves: their own pairs, but for konnectivity's, and who may sign front proxies
/// (`DynamicFileCAContent`); nor who may sign clients ([`turned_clients`]).
fn keys_at_start(v: &Validated, material: &Material) -> Vec<String> {
    // `--etcd-cafile`; `--kubelet-certificate-authority`, which client-go reads again from 1.36 on only; and
    // what konnectivity's server believes.
    let trusted = [names::ETCD_CA, names::KUBELET_SERVING_CA];
    let trusted = trusted.iter();
    let trusted = trusted.chain(v.addons.konnectivity.enabled.then_some(&names::CA));
    let mut files: Vec<_> = trusted
        .filter_map(|name| bundle(&material.store, name))
        .collect();
    // The public key stands for the pair.
    let keys = material.service_account.active_first();
    files.extend(keys.map(|(_, keys)| keys.public.clone()));
    // It is read again every minute, but nobody can see when: a rollout can be seen, and no key may write
    // before every kube-apiserver can read it.
    let encryption = encryption_configuration(&material.encryption, &material.encrypted);
    files.extend(encryption.map(|file| file.reveal().to_owned()));
    files
}
