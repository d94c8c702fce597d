//! Questions about one Service of either cluster: what it asks for, and whose mirror it is.
//!
//! Invariant: a Service of the management cluster is a mirror only by the labels of this tenant
//! cluster, or, where that is wanted, by those of the KubeVirt CCM.

use api::names::LABEL_TENANT_UID;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;

use crate::cache::objects::version;
use crate::names;
use crate::settings::Settings;

/// Namespace and name of a Service of the tenant cluster.
pub type Place = (String, String);

/// What the management API made of a mirror that was applied, where that is something else than was
/// asked for: it is not asked for again while both stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Digest of what was applied.
    pub applied: String,
    /// Digest of the answer, as far as it is about what was applied.
    pub answer: String,
}

/// The load balancer that a Service asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DesiredLoadBalancer {
    /// One of ours.
    Ours,
    /// One of another class.
    Theirs(String),
    /// None yet: it came with the data of another tenant cluster, whose load balancer it was.
    Copied,
    /// None, or none any more.
    None,
}

/// What the Service asks for.
#[must_use]
pub fn desired_load_balancer(service: &Service, settings: &Settings) -> DesiredLoadBalancer {
    let Some(spec) = &service.spec else {
        return DesiredLoadBalancer::None;
    };
    if spec.type_.as_deref() != Some("LoadBalancer") {
        return DesiredLoadBalancer::None;
    }
    match spec.load_balancer_class.as_deref() {
        Some(class) if !settings.classes.contains(class) => {
            DesiredLoadBalancer::Theirs(class.to_owned())
        }
        _ if service.metadata.deletion_timestamp.is_some() => DesiredLoadBalancer::None,
        _ if service.annotations().contains_key(names::ANNOTATION_COPIED) => {
            DesiredLoadBalancer::Copied
        }
        _ => DesiredLoadBalancer::Ours,
    }
}

/// Whether a Service has, wants or may have a load balancer.
#[must_use]
pub fn is_of_concern(service: &Service) -> bool {
    let balanced = service.spec.as_ref().and_then(|s| s.type_.as_deref()) == Some("LoadBalancer");
    let finalizers = service.metadata.finalizers.iter().flatten();
    balanced || finalizers.into_iter().any(|f| f == names::FINALIZER)
}

/// Whether traffic from outside stays on the node where it arrives.
#[must_use]
pub fn keeps_traffic_local(service: &Service) -> bool {
    let policy = service.spec.as_ref();
    policy.and_then(|s| s.external_traffic_policy.as_deref()) == Some("Local")
}

/// Without what is never read, which is a good part of it.
#[must_use]
pub fn stripped(mut service: Service) -> Service {
    service.metadata.managed_fields = None;
    if let Some(annotations) = &mut service.metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    service
}

/// Where it is.
#[must_use]
pub fn place(service: &Service) -> Place {
    let meta = &service.metadata;
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

/// Whether `old` is to give way to `new`, when both are the same object.
#[must_use]
pub fn is_older(old: &Service, new: &Service) -> bool {
    old.metadata.uid != new.metadata.uid || version(&old.metadata) <= version(&new.metadata)
}

/// The UID of the tenant's Service that this one mirrors, if we made it or took it over.
#[must_use]
pub fn mirrored(mirror: &Service, settings: &Settings) -> Option<String> {
    let labels = mirror.metadata.labels.as_ref()?;
    let ours = labels.get(LABEL_TENANT_UID) == Some(&settings.cluster_uid);
    let uid = labels.get(names::LABEL_SERVICE_UID);
    uid.filter(|_| ours).cloned()
}

/// Whether the KubeVirt CCM made it, and we are to go on with it.
#[must_use]
pub fn is_legacy(mirror: &Service, settings: &Settings) -> bool {
    let labels = mirror.metadata.labels.as_ref();
    settings.adopt && labels.is_some_and(|l| l.contains_key(names::LEGACY_SERVICE))
}

/// Whether this Service of the management cluster is a mirror of that one.
#[must_use]
pub fn is_mirror_of(mirror: &Service, uid: &str, settings: &Settings) -> bool {
    mirrored(mirror, settings).as_deref() == Some(uid)
        || (is_legacy(mirror, settings)
            && mirror.metadata.name.as_deref() == Some(&names::legacy_mirror(uid)))
}
