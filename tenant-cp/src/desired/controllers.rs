//! Deployment `controllers`: kube-controller-manager and kube-scheduler in one pod, apart from the
//! kube-apiserver.
//!
//! A pod is ready when all its containers are, and the endpoint leads to pods that are ready: beside the
//! kube-apiserver a scheduler that crashes would take the API away with it (docs/adr/0013). They reach
//! the API through the Service, as whatever else works for a tenant cluster does, and wait for it by
//! themselves.
//! Invariant: neither is newer than any kube-apiserver that serves; the number of replicas does not show
//! in the pod template, so scaling restarts nobody.

mod controller_manager;
mod scheduler;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use kit_objects::object::{self, Object};
use serde_json::json;

use crate::desired::pod;
use crate::generations::bundle;
use crate::material::Material;
use crate::meta::{meta, pod_meta};
use crate::names;
use crate::validate::validated::Validated;

/// Annotation of the pod: hash of the keys that its programs read only when they start, and whom they trust.
const ANNOTATION_KEYS: &str = "covey.dev/keys-hash";
/// Seconds that a new pod has to run before an old one goes for it. Nobody can ask these programs (they
/// listen on loopback), and what ends at once, over a flag or for want of memory, does so within seconds.
const MIN_READY_SECONDS: i32 = 10;

pub(crate) fn deployment(v: &Validated, material: &Material) -> Object {
    let keys = object::hash(&json!(keys_at_start(material)));
    let template = PodTemplateSpec {
        metadata: Some(pod_meta(
            v,
            names::CONTROLLERS,
            BTreeMap::from([(ANNOTATION_KEYS.to_owned(), keys)]),
            &v.pod_metadata,
        )),
        spec: Some(PodSpec {
            containers: vec![
                controller_manager::container(v, material),
                scheduler::container(v),
            ],
            volumes: Some(vec![
                pod::secret_volume(names::CONTROLLER_MANAGER),
                pod::secret_volume(names::SCHEDULER),
            ]),
            ..pod::spec(names::CONTROLLERS, &v.scheduling)
        }),
    };
    Object::new(&Deployment {
        metadata: meta(v, names::CONTROLLERS, names::CONTROLLERS),
        spec: Some(DeploymentSpec {
            min_ready_seconds: Some(MIN_READY_SECONDS),
            ..pod::rolling(v, names::CONTROLLERS, template)
        }),
        ..Deployment::default()
    })
}

/// Whom both programs trust, and the key of tokens, that they read only when they start. Not among it,
/// because they read it again by themselves: their own pairs, who may sign clients and front proxies
/// (`DynamicFileCAContent`), and what the kube-controller-manager signs with
/// (`NewDynamicServingContentFromFiles`).
fn keys_at_start(material: &Material) -> Vec<String> {
    // `--root-ca-file`, and what the kubeconfigs believe, which client-go reads again from 1.36 on only.
    let trusted = bundle(&material.store, names::CA);
    let mut files: Vec<_> = trusted.into_iter().collect();
    // The public key stands for the pair that signs.
    let keys = material.service_account.active();
    files.extend(keys.map(|(_, keys)| keys.public.clone()));
    files
}
