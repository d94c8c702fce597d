//! Deployment `control-plane`: kube-apiserver, kube-controller-manager and kube-scheduler in one pod.
//!
//! A renewed certificate changes a Secret and not the pod: every program here reads its files again
//! by itself. What is read only at the start is hashed into an annotation of the pod.
//! Invariant: the number of replicas does not show in the pod template, so scaling restarts nobody.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{PodSpec, PodTemplateSpec},
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use serde_json::json;

use super::{apiserver, controller_manager, labels, meta, names, pod, scheduler, selector};
use crate::{Addresses, Object, Validated, certificates::files, object};

/// Annotation of the pod: hash of the files that the kube-apiserver reads only when it starts.
const ANNOTATION_FILES: &str = "covey.dev/files-hash";
/// Seconds to end: the delay before connections are refused (5), the longest request (60), spare.
const GRACE_SECONDS: i64 = 75;

pub(super) fn deployment(v: &Validated, addresses: &Addresses) -> Object {
    let files_hash = object::hash(&json!([files::AUDIT_POLICY, files::ADMISSION]));
    Object::new(&Deployment {
        metadata: meta(v, names::CONTROL_PLANE, names::CONTROL_PLANE),
        spec: Some(DeploymentSpec {
            replicas: Some(v.replicas),
            revision_history_limit: Some(2),
            selector: LabelSelector {
                match_labels: Some(selector(names::CONTROL_PLANE)),
                ..LabelSelector::default()
            },
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: Some(IntOrString::Int(1)),
                    max_unavailable: Some(IntOrString::Int(0)),
                }),
            }),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels(v, names::CONTROL_PLANE)),
                    annotations: Some([(ANNOTATION_FILES.to_owned(), files_hash)].into()),
                    ..ObjectMeta::default()
                }),
                spec: Some(PodSpec {
                    init_containers: Some(vec![apiserver::container(v, addresses)]),
                    containers: vec![controller_manager::container(v), scheduler::container(v)],
                    termination_grace_period_seconds: Some(GRACE_SECONDS),
                    volumes: Some(vec![
                        pod::secret_volume(names::API_SERVER),
                        pod::secret_volume(names::CONTROLLER_MANAGER),
                        pod::secret_volume(names::SCHEDULER),
                        // Eleven files of 100 MB (the flags audit-log-*), and spare.
                        pod::empty_dir("audit", "1500Mi"),
                        pod::empty_dir("tmp", "64Mi"),
                    ]),
                    ..pod::spec(names::CONTROL_PLANE)
                }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    })
}
