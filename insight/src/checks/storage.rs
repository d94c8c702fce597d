//! StorageClasses for volumes of etcd.
//!
//! Invariant: a class is missed only where a volume is still to be made.

use api::condition::is_true;
use api::{ConditionType, TenantCluster};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use kit_objects::known::Known;
use kube::ResourceExt as _;

use super::cluster::is_of_etcd;
use super::management::unknown;
use crate::check::Check;
use crate::facts::Facts;
use crate::finding::{Finding, Level, Scope, Subject};

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Only where a tenant cluster needs it: others bring no volumes.
pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let here = Subject::management();
    let classes = match &facts.management.storage_classes {
        Known::Known(classes) => classes,
        Known::Absent => return Vec::new(),
        Known::Unknown { why } => {
            return unknown(
                Check::StorageClass,
                here,
                "which StorageClasses there are",
                why,
            );
        }
    };
    let default = classes.iter().any(is_default);
    let clusters = facts.clusters.as_ref().there();
    let found = clusters.into_iter().flatten().filter_map(|cluster: &TenantCluster| {
        if !needs_volumes(cluster, facts) {
            return None;
        }
        let named = cluster.spec.etcd.storage.storage_class_name.as_deref();
        let is_there = match named {
            None | Some("") => default,
            Some(name) => classes.iter().any(|class| class.name_any() == name),
        };
        if is_there {
            return None;
        }
        let (cause, mend) = match named {
            Some(name) if !name.is_empty() => (
                format!("there is no StorageClass {name}, which spec.etcd.storage.storageClassName names"),
                "create it, or name one of `kubectl get storageclass` when you create the tenant cluster anew".to_owned(),
            ),
            _ => (
                "there is no default StorageClass, and the tenant cluster names none".to_owned(),
                format!("mark one: `kubectl annotate storageclass NAME {DEFAULT_CLASS}=true`, or set `spec.etcd.storage.storageClassName`"),
            ),
        };
        let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
        let subject = Subject::new("TenantCluster", &namespace, &name);
        let scope = Scope { cluster: Some((namespace, name)), pool: None };
        Some(Finding::new(Check::StorageClass, Level::Warning, subject, &cause, &mend).within(&scope))
    });
    found.collect()
}

/// Whether claims that name no class get this one.
pub(super) fn is_default(class: &StorageClass) -> bool {
    let marked = class.annotations().get(DEFAULT_CLASS);
    marked.is_some_and(|value| value == "true")
}

/// Whether volumes of etcd are still to be made. Those that are bound stay so, whatever becomes of their class.
fn needs_volumes(cluster: &TenantCluster, facts: &Facts) -> bool {
    let Some(status) = &cluster.status else {
        return true;
    };
    let read = status.namespace.as_ref();
    let read = read.and_then(|namespace| facts.tenant_namespaces.get(namespace));
    match read.map(|read| &read.claims) {
        Some(Known::Known(claims)) => {
            let mut claims = claims
                .iter()
                .filter(|claim| is_of_etcd(&claim.name_any()))
                .peekable();
            claims.peek().is_none() || claims.any(|claim| !is_bound(claim))
        }
        _ => !is_true(&status.conditions, ConditionType::EtcdReady),
    }
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let status = claim.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Bound")
}
