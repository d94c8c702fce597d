//! Labels and metadata of wanted objects, in the tenant namespace and inside the tenant cluster.
//!
//! Invariant: everything that Covey makes has the label `app.kubernetes.io/managed-by: covey`; what is
//! selected by has labels of its own, which never change.

use std::collections::BTreeMap;

use api::tenant_cluster::{PodMetadata, TenantIdentity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::validate::validated::Validated;

/// Labels of an object in the tenant namespace.
pub(crate) fn labels(v: &Validated, component: &str) -> BTreeMap<String, String> {
    labels_by(&v.identity, component)
}

/// Labels of an object in the user's namespace: whoever took another identity over is called there as the user calls it.
pub(crate) fn users_labels(v: &Validated, component: &str) -> BTreeMap<String, String> {
    let identity = TenantIdentity {
        name: v.name.clone(),
        namespace: v.namespace.clone(),
        uid: v.identity.uid.clone(),
    };
    labels_by(&identity, component)
}

fn labels_by(identity: &TenantIdentity, component: &str) -> BTreeMap<String, String> {
    let mut labels = selector(component);
    labels.insert(
        api::names::LABEL_MANAGED_BY.to_owned(),
        api::names::MANAGED_BY.to_owned(),
    );
    labels.insert(
        api::names::LABEL_TENANT_UID.to_owned(),
        identity.uid.clone(),
    );
    labels.insert(
        api::names::LABEL_TENANT_NAME.to_owned(),
        identity.name.clone(),
    );
    labels.insert(
        api::names::LABEL_TENANT_NAMESPACE.to_owned(),
        identity.namespace.clone(),
    );
    labels
}

/// Labels by which pods are selected. They can never change: a Deployment's selector is immutable.
pub(crate) fn selector(component: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(api::names::LABEL_COMPONENT.to_owned(), component.to_owned())])
}

/// Metadata of a template of pods in the tenant namespace: Covey's own win over the user's.
pub(crate) fn pod_meta(
    v: &Validated,
    component: &str,
    annotations: BTreeMap<String, String>,
    asked: &PodMetadata,
) -> ObjectMeta {
    let with = |asked: &BTreeMap<String, String>, own: BTreeMap<String, String>| {
        let mut all = asked.clone();
        all.extend(own);
        Some(all)
    };
    ObjectMeta {
        labels: with(&asked.labels, labels(v, component)),
        annotations: with(&asked.annotations, annotations),
        ..ObjectMeta::default()
    }
}

/// Metadata of an object in the tenant namespace.
pub(crate) fn meta(v: &Validated, name: &str, component: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(v.tenant_namespace.clone()),
        labels: Some(labels(v, component)),
        ..ObjectMeta::default()
    }
}

/// Labels of everything that Covey puts into a tenant cluster.
pub(crate) fn tenant_labels() -> BTreeMap<String, String> {
    BTreeMap::from([(
        api::names::LABEL_MANAGED_BY.to_owned(),
        api::names::MANAGED_BY.to_owned(),
    )])
}

/// Metadata of an object without a namespace inside the tenant cluster.
pub(crate) fn tenant_meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(tenant_labels()),
        ..ObjectMeta::default()
    }
}
