//! Pods of etcd, of the control plane and of its controllers: of which template they are, and when
//! they have to be looked at.
//!
//! Invariant: a pod that cannot be read as one counts as one that is not ready.

use std::collections::BTreeMap;

use api::TenantCluster;
use api::names::LABEL_COMPONENT;
use api::tenant_cluster::{RolledOut, RotationPhase};
use kit_objects::object::Key;
use serde_json::Value;
use tenant_cp::generations::of_authority;
use tenant_cp::names;
use tenant_cp::rollout::template;

use crate::pod_failures;
use crate::rotation::kubelets::CLUSTER;
use crate::upgrades::versions;

/// One pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ComponentPod {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Component that it belongs to.
    pub component: String,
    /// Hash of its template; none where it is not one of ours.
    pub template: Option<String>,
    /// Whether it serves.
    pub ready: bool,
    /// Whether it ends.
    pub terminating: bool,
    /// Whether it is a member of etcd that does not start, because etcd does not take its data for right.
    pub disowned: bool,
}

/// The pods among these objects.
#[must_use]
pub fn of(objects: &BTreeMap<Key, Value>) -> Vec<ComponentPod> {
    let pods = objects.iter().filter(|(key, _)| key.kind == "Pod");
    pods.map(|(key, pod)| {
        let meta = &pod["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        ComponentPod {
            name: key.name.clone(),
            uid: text(&meta["uid"]),
            component: text(&meta["labels"][LABEL_COMPONENT]),
            template: template::of_pod(pod).map(str::to_owned),
            ready: pod_failures::is_ready(pod),
            terminating: !meta["deletionTimestamp"].is_null(),
            disowned: pod_failures::is_disowned(pod),
        }
    })
    .collect()
}

/// Whether pods have to be listed: some are not ready and say why, it is not known that all of them are of the
/// newest template, certificates of machinery are replaced, an upgrade is wanted, or a member of etcd is being replaced or may have to be.
#[must_use]
pub fn are_needed(
    cluster: &TenantCluster,
    objects: &BTreeMap<Key, Value>,
    namespace: &str,
) -> bool {
    let status = cluster.status.as_ref();
    let rollout = status.and_then(|status| status.rollout.as_ref());
    let known = [
        (
            Key::new("StatefulSet", namespace, names::ETCD),
            rollout.and_then(|rollout| rollout.etcd.as_ref()),
        ),
        (
            Key::new("Deployment", namespace, names::CONTROL_PLANE),
            rollout.and_then(|rollout| rollout.control_plane.as_ref()),
        ),
        (
            Key::new("Deployment", namespace, names::CONTROLLERS),
            rollout.and_then(|rollout| rollout.controllers.as_ref()),
        ),
    ];
    let is_rolling = known.into_iter().any(|(key, known)| {
        let live = objects.get(&key);
        live.is_some_and(|live| !is_all_ready(live) || rolled_out(live).as_ref() != known)
    });
    let events = objects.get(&Key::new("Deployment", namespace, names::ETCD_EVENTS));
    let is_rolling = is_rolling || events.is_some_and(|live| !is_all_ready(live));
    let is_upgraded = versions::wanted(cluster).is_some();
    let is_rolling = is_rolling || are_certificates_replaced(objects, namespace);
    let is_rolling = is_rolling || is_trust_brought(cluster, objects, namespace);
    is_rolling || is_upgraded || is_a_member_lost(cluster, objects, namespace)
}

/// Whether several generations of who signs certificates of machinery are believed, and it is not noted of all but one that
/// nobody shows what they signed.
fn are_certificates_replaced(objects: &BTreeMap<Key, Value>, namespace: &str) -> bool {
    let secrets = objects.iter().filter(|(key, _)| {
        key.kind == "Secret"
            && key.namespace == namespace
            && of_authority(&key.name, names::CLIENT_CA).is_some()
    });
    let text = |secret: &Value, name: &str| {
        let text = secret["metadata"]["annotations"][name].as_str();
        text.is_some_and(|text| !text.is_empty())
    };
    let believed = secrets.filter(|(_, secret)| !text(secret, names::DROPPED));
    let noted = believed.map(|(_, secret)| text(secret, names::SIGNED_UNTIL));
    noted.filter(|is_noted| !is_noted).count() > 1
}

/// Whether another generation of the cluster's authority is brought to everybody, or taken from everybody: of the first it
/// is noted when it is over, and of the second told.
fn is_trust_brought(
    cluster: &TenantCluster,
    objects: &BTreeMap<Key, Value>,
    namespace: &str,
) -> bool {
    let secrets = objects.iter().filter(|(key, _)| {
        key.kind == "Secret"
            && key.namespace == namespace
            && of_authority(&key.name, names::CA).is_some()
    });
    let has = |secret: &Value, name: &str| secret["metadata"]["annotations"][name].is_string();
    let (dropped, believed): (Vec<_>, Vec<_>) =
        secrets.partition(|(_, secret)| has(secret, names::DROPPED));
    let is_noted = |secret: &Value| has(secret, names::BELIEVED_SINCE);
    let noted = believed.iter().filter(|(_, secret)| is_noted(secret));
    let is_brought = believed.len() > noted.count() + 1;
    let mut told = cluster.status.iter().flat_map(|status| &status.rotation);
    let is_over = told.any(|told| told.name == CLUSTER && told.phase == RotationPhase::Idle);
    is_brought || (!dropped.is_empty() && !is_over)
}

/// Whether a member of etcd is not, or not on its claim, what the status says.
fn is_a_member_lost(
    cluster: &TenantCluster,
    objects: &BTreeMap<Key, Value>,
    namespace: &str,
) -> bool {
    let etcd = cluster.status.as_ref().and_then(|s| s.etcd.as_ref());
    let wanted = usize::try_from(cluster.spec.etcd.replicas).unwrap_or(0);
    let is_replacing = etcd.is_some_and(|etcd| {
        etcd.replacing.is_some() || (!etcd.members.is_empty() && etcd.members.len() != wanted)
    });
    let mut members = etcd.into_iter().flat_map(|etcd| &etcd.members);
    is_replacing
        || is_a_claim_left(cluster, objects, namespace)
        || is_a_claim_misplaced(cluster, objects, namespace)
        || members.any(|member| {
            let claim = names::volume_of(&member.name);
            let claim = objects.get(&Key::new("PersistentVolumeClaim", namespace, &claim));
            member.learner
                || claim.is_none_or(|claim| {
                    claim["metadata"]["uid"] != member.volume_uid.as_str()
                        || !claim["metadata"]["deletionTimestamp"].is_null()
                })
        })
}

/// Whether there is the claim of a member that is not wanted, and it is not noted that it is only kept.
fn is_a_claim_left(
    cluster: &TenantCluster,
    objects: &BTreeMap<Key, Value>,
    namespace: &str,
) -> bool {
    (cluster.spec.etcd.replicas..3).any(|number| {
        let claim = names::etcd_volume(number);
        let claim = objects.get(&Key::new("PersistentVolumeClaim", namespace, &claim));
        claim.is_some_and(|claim| {
            let of = &claim["metadata"];
            of["deletionTimestamp"].is_null() && of["annotations"][names::KEEP_UNTIL].is_null()
        })
    })
}

/// Whether the claim of a member is of another class than is wanted.
fn is_a_claim_misplaced(
    cluster: &TenantCluster,
    objects: &BTreeMap<Key, Value>,
    namespace: &str,
) -> bool {
    let Some(class) = &cluster.spec.etcd.storage.storage_class_name else {
        return false;
    };
    (0..cluster.spec.etcd.replicas).any(|number| {
        let claim = names::etcd_volume(number);
        let claim = objects.get(&Key::new("PersistentVolumeClaim", namespace, &claim));
        let its = claim.and_then(|claim| claim["spec"]["storageClassName"].as_str());
        its.is_some_and(|its| its != class)
    })
}

/// What the status says of a workload all of whose pods are of its template; none where the template is not
/// one of ours.
#[must_use]
pub fn rolled_out(workload: &Value) -> Option<RolledOut> {
    Some(RolledOut {
        generation: number(workload, "/metadata/generation")?,
        hash: template::of_workload(workload)?.to_owned(),
    })
}

fn is_all_ready(workload: &Value) -> bool {
    number(workload, "/status/readyReplicas").unwrap_or(0)
        >= number(workload, "/spec/replicas").unwrap_or(1)
}

/// A number of a workload; none where it does not say it.
pub(in crate::controllers::tenant_cluster) fn number(
    workload: &Value,
    pointer: &str,
) -> Option<i64> {
    workload.pointer(pointer)?.as_i64()
}
