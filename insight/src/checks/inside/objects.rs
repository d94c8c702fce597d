//! Names, load balancers and volumes inside.
//!
//! Invariant: what waits for a pod, as a claim may, is nothing that is wrong.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use kube::ResourceExt as _;

use super::{NAMED, Seen};
use crate::check::Check;
use crate::finding::{Finding, Level};
use crate::text;

/// Whose slice of endpoints it is (the API's own label).
pub(super) const SERVICE: &str = "kubernetes.io/service-name";
/// The Service of CoreDNS (kubelets know it by this name's address).
const DNS: (&str, &str) = ("kube-system", "kube-dns");
/// A claim's node, once a pod was given one.
const SELECTED: &str = "volume.kubernetes.io/selected-node";
/// When a volume is taken from a node that does not answer (`--attach-detach-reconcile-max-wait-unmount-duration`).
const GOING: SignedDuration = SignedDuration::from_mins(6);

pub(super) fn check(look: &Seen<'_>) -> Vec<Finding> {
    let mut found = dns(look);
    found.extend(load_balancers(look));
    found.extend(claims(look));
    found.extend(attachments(look));
    found
}

/// Whether a Service leads to somebody who is ready.
pub(super) fn is_served(slices: &[EndpointSlice], namespace: &str, name: &str) -> bool {
    let mut slices = slices.iter().filter(|slice| {
        slice.namespace().as_deref() == Some(namespace)
            && slice.labels().get(SERVICE).is_some_and(|of| of == name)
    });
    slices.any(|slice| {
        let mut ends = slice.endpoints.iter();
        // Not said is ready (the API's own word).
        ends.any(|end| {
            end.conditions
                .as_ref()
                .is_none_or(|is| is.ready != Some(false))
        })
    })
}

fn dns(look: &Seen<'_>) -> Vec<Finding> {
    let is_wanted = look.cluster.spec.addons.core_dns.enabled;
    let nodes = look.inside.nodes.as_ref().there();
    if !is_wanted || nodes.is_none_or(Vec::is_empty) {
        return Vec::new();
    }
    let slices = match look.list(&look.inside.slices, Check::Dns, "where Services lead to") {
        Ok(slices) => slices,
        Err(found) => return found,
    };
    if is_served(slices, DNS.0, DNS.1) {
        return Vec::new();
    }
    let cause = "no pod of CoreDNS is ready, so no name is resolved inside";
    let mend = format!(
        "`covey connect {} -- kubectl -n kube-system logs -l k8s-app=kube-dns` says what keeps it: a loop, or nobody who answers it",
        look.subject.name
    );
    vec![look.told(Check::Dns, Level::Error, cause, &mend)]
}

fn load_balancers(look: &Seen<'_>) -> Vec<Finding> {
    let services = &look.inside.services;
    let services = match look.list(services, Check::LoadBalancers, "which Services there are") {
        Ok(services) => services,
        Err(found) => return found,
    };
    let waits = |service: &&Service| {
        let type_ = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
        let status = service.status.as_ref();
        let balancer = status.and_then(|status| status.load_balancer.as_ref());
        let addresses = balancer.and_then(|balancer| balancer.ingress.as_ref());
        type_ == Some("LoadBalancer")
            && addresses.is_none_or(Vec::is_empty)
            && look.is_old(service.creation_timestamp().as_ref())
    };
    let waiting: Vec<_> = services.iter().filter(waits).collect();
    let Some(first) = waiting.first() else {
        return Vec::new();
    };
    let names = waiting.iter().map(|service| {
        let namespace = service.namespace().unwrap_or_default();
        format!("{namespace}/{}", service.name_any())
    });
    let names: Vec<_> = names.collect();
    let cause = format!(
        "{} Services of type LoadBalancer have no address: {}",
        names.len(),
        text::names(names.iter().map(String::as_str), NAMED)
    );
    let name = &look.subject.name;
    let mend = match look.cluster.spec.addons.cloud_controller.enabled {
        true => format!("as its Events say, or `covey logs {name} ccm`"),
        false => "switch on what gives addresses: `spec.addons.cloudController.enabled`".to_owned(),
    };
    let namespace = first.namespace().unwrap_or_default();
    let finding = look.told(Check::LoadBalancers, Level::Warning, &cause, &mend);
    let said = look.warning("Service", &namespace, &first.name_any());
    vec![finding.told_by(&said.unwrap_or_default())]
}

fn claims(look: &Seen<'_>) -> Vec<Finding> {
    let claims = match look.list(
        &look.inside.claims,
        Check::Volumes,
        "which claims there are",
    ) {
        Ok(claims) => claims,
        Err(found) => return found,
    };
    let classes = look.inside.classes.as_ref().there();
    let classes = classes.map(Vec::as_slice).unwrap_or_default();
    let waits = |claim: &&PersistentVolumeClaim| {
        let status = claim.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        phase == Some("Pending")
            && look.is_old(claim.creation_timestamp().as_ref())
            && !waits_for_pod(claim, classes)
    };
    let waiting: Vec<_> = claims.iter().filter(waits).collect();
    let Some(first) = waiting.first() else {
        return Vec::new();
    };
    let names = waiting.iter().map(|claim| {
        let namespace = claim.namespace().unwrap_or_default();
        format!("{namespace}/{}", claim.name_any())
    });
    let names: Vec<_> = names.collect();
    let cause = format!(
        "{} claims have no volume: {}",
        names.len(),
        text::names(names.iter().map(String::as_str), NAMED)
    );
    let class = first
        .spec
        .as_ref()
        .and_then(|spec| spec.storage_class_name.clone());
    let is_there = |name: &String| classes.iter().any(|class| class.name_any() == *name);
    let (name, csi) = (&look.subject.name, look.cluster.spec.addons.csi.enabled);
    let mend = match class.filter(|class| !class.is_empty()) {
        Some(class) if !classes.is_empty() && !is_there(&class) => format!(
            "there is no StorageClass {class}: name one of `covey connect {name} -- kubectl get storageclass`"
        ),
        _ if !csi => "switch on what makes volumes, `spec.addons.csi.enabled`, or install a driver"
            .to_owned(),
        _ => format!("`covey logs {name} csi` says what keeps it"),
    };
    let namespace = first.namespace().unwrap_or_default();
    let finding = look.told(Check::Volumes, Level::Warning, &cause, &mend);
    let said = look.warning("PersistentVolumeClaim", &namespace, &first.name_any());
    vec![finding.told_by(&said.unwrap_or_default())]
}

/// Whether a claim gets its volume only once a pod has a node.
fn waits_for_pod(claim: &PersistentVolumeClaim, classes: &[StorageClass]) -> bool {
    let named = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.storage_class_name.as_deref());
    let mut classes = classes.iter();
    let class = classes.find(|class| named == Some(class.name_any().as_str()));
    let mode = class.and_then(|class| class.volume_binding_mode.as_deref());
    mode == Some("WaitForFirstConsumer") && !claim.annotations().contains_key(SELECTED)
}

fn attachments(look: &Seen<'_>) -> Vec<Finding> {
    let all = match look.list(
        &look.inside.attachments,
        Check::Volumes,
        "which volumes are at nodes",
    ) {
        Ok(all) => all,
        Err(found) => return found,
    };
    let found = all.iter().filter_map(|one| {
        let why = trouble(look, one)?;
        let volume = one.spec.source.persistent_volume_name.as_deref().unwrap_or("?");
        let node = &one.spec.node_name;
        let cause = format!("the volume {volume} and the node {node}: {why}");
        let mend = match one.metadata.deletion_timestamp {
            Some(_) => format!(
                "if the node is dead for certain: `kubectl taint node {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`; else `covey logs {} csi`",
                look.subject.name
            ),
            None => format!("`covey logs {} csi` says what keeps it", look.subject.name),
        };
        Some(look.told(Check::Volumes, Level::Warning, &cause, &mend))
    });
    found.collect()
}

fn trouble(look: &Seen<'_>, one: &VolumeAttachment) -> Option<String> {
    let status = one.status.as_ref();
    let errors = status.map(|status| [&status.attach_error, &status.detach_error]);
    let error = errors
        .into_iter()
        .flatten()
        .find_map(|error| error.as_ref());
    if let Some(error) = error {
        return Some(
            error
                .message
                .clone()
                .unwrap_or_else(|| "it failed".to_owned()),
        );
    }
    let going = one.metadata.deletion_timestamp.as_ref()?;
    let age = look.age(going.0);
    (age > GOING).then(|| format!("it has been leaving for {} minutes", age.as_mins()))
}
