//! One tenant cluster: what its conditions say, its tenant namespace with claims and pods, its certificates.
//!
//! Invariant: pods and claims come before conditions, because they say more; a namespace counts as gone only when the
//! API said so.

use api::names::{LABEL_COMPONENT, LABEL_TENANT_UID};
use api::{ConditionType, TenantCluster};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kit_objects::known::Known;
use kube::ResourceExt as _;

use super::conditions::{self, About, GRACE};
use super::pods;
use crate::check::Check;
use crate::facts::{Facts, NOT_READ, TenantNamespace};
use crate::finding::{Finding, Level, Scope, Subject};

/// A certificate with less is worth a warning: it should have been renewed.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);
/// With less it is an error.
const NOW: SignedDuration = SignedDuration::from_hours(7 * 24);
/// An authority with less is worth a warning: it is not renewed by itself.
const AUTHORITY: SignedDuration = SignedDuration::from_hours(180 * 24);
/// How long a change of a spec may wait for the operator.
const UNSEEN: SignedDuration = SignedDuration::from_secs(60);

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let clusters = facts.clusters.as_ref().there();
    let found = clusters
        .into_iter()
        .flatten()
        .flat_map(|cluster| one(cluster, facts));
    found.collect()
}

fn one(cluster: &TenantCluster, facts: &Facts) -> Vec<Finding> {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let subject = Subject::new("TenantCluster", &namespace, &name);
    let scope = Scope {
        cluster: Some((namespace, name)),
        pool: None,
    };
    let status = cluster.status.clone().unwrap_or_default();
    let mut found = Vec::new();
    if let Some(ns) = &status.namespace
        && let Some(read) = facts.tenant_namespaces.get(ns)
    {
        found.extend(tenant_namespace(cluster, ns, read, &subject));
        found.extend(claims(ns, &read.claims, &subject, facts.now));
        found.extend(parts(ns, &read.pods, &subject));
    }
    let about = About {
        subject: &subject,
        scope: &scope,
        now: facts.now,
        grace: GRACE,
    };
    found.extend(conditions::check(&status.conditions, &about));
    found.extend(certificates(cluster, &subject, facts.now));
    found.extend(unseen(
        cluster,
        status.observed_generation,
        &subject,
        facts.now,
    ));
    if cluster.spec.paused && !found.iter().any(|f| f.check == Check::Paused) {
        let mend = format!(
            "`covey resume {}` sets `spec.paused` to false",
            subject.name
        );
        let cause = "spec.paused is true: nothing of this tenant cluster is changed";
        found.push(Finding::new(
            Check::Paused,
            Level::Warning,
            subject.clone(),
            cause,
            &mend,
        ));
    }
    found
        .into_iter()
        .map(|finding| finding.within(&scope))
        .collect()
}

fn unknown(check: Check, subject: &Subject, what: &str, why: &str) -> Vec<Finding> {
    if why == NOT_READ {
        return Vec::new();
    }
    vec![Finding::unknown(check, subject.clone(), what, why)]
}

fn tenant_namespace(
    cluster: &TenantCluster,
    name: &str,
    read: &TenantNamespace,
    subject: &Subject,
) -> Vec<Finding> {
    let is_going = cluster.metadata.deletion_timestamp.is_some();
    let error = |cause: &str, mend: &str| {
        vec![Finding::new(
            Check::TenantNamespace,
            Level::Error,
            subject.clone(),
            cause,
            mend,
        )]
    };
    match &read.object {
        Known::Unknown { why } => unknown(
            Check::TenantNamespace,
            subject,
            &format!("the namespace {name}"),
            why,
        ),
        _ if is_going => Vec::new(),
        Known::Absent => error(
            &format!("the tenant namespace {name} is gone, with etcd's data and all keys"),
            "restore it from a backup, or `covey delete cluster` and create it anew",
        ),
        Known::Known(namespace) => {
            let uid = namespace.labels().get(LABEL_TENANT_UID);
            if namespace.metadata.deletion_timestamp.is_some() {
                error(
                    &format!(
                        "the tenant namespace {name} is being deleted, and etcd's data with it"
                    ),
                    &format!(
                        "save what is needed at once; `kubectl get namespace {name} -o yaml` says what still holds it"
                    ),
                )
            } else if uid.map(String::as_str) != Some(cluster.identity_uid()) {
                error(
                    &format!(
                        "the namespace {name} is not this tenant cluster's: its label {LABEL_TENANT_UID} is another"
                    ),
                    &format!("`kubectl get namespace {name} --show-labels` says whose it is"),
                )
            } else {
                Vec::new()
            }
        }
    }
}

fn claims(
    namespace: &str,
    claims: &Known<Vec<PersistentVolumeClaim>>,
    subject: &Subject,
    now: Timestamp,
) -> Vec<Finding> {
    let claims = match claims {
        Known::Known(claims) => claims,
        Known::Absent => return Vec::new(),
        Known::Unknown { why } => {
            return unknown(
                Check::Etcd,
                subject,
                &format!("which claims are in {namespace}"),
                why,
            );
        }
    };
    let is_old = |claim: &PersistentVolumeClaim| {
        claim
            .creation_timestamp()
            .is_some_and(|at| now.duration_since(at.0) > UNSEEN)
    };
    let phase = |claim: &PersistentVolumeClaim| claim.status.as_ref()?.phase.clone();
    let found = claims
        .iter()
        .filter(|claim| is_of_etcd(&claim.name_any()))
        .filter_map(|claim| {
            let name = claim.name_any();
            let what = match phase(claim)?.as_str() {
                "Pending" if is_old(claim) => {
                    format!("the claim {name} of an etcd member has no volume")
                }
                "Lost" => format!("the volume of the claim {name} of an etcd member is gone"),
                _ => return None,
            };
            let mend = format!(
                "`kubectl -n {namespace} describe pvc {name}` says what its StorageClass lacks"
            );
            Some(Finding::new(
                Check::Etcd,
                Level::Error,
                subject.clone(),
                &what,
                &mend,
            ))
        });
    found.collect()
}

/// Claims of the StatefulSet `etcd` are called `<template>-etcd-<n>`.
pub(super) fn is_of_etcd(claim: &str) -> bool {
    claim.contains("etcd-")
}

fn parts(namespace: &str, read: &Known<Vec<Pod>>, subject: &Subject) -> Vec<Finding> {
    let all = match read {
        Known::Known(all) => all,
        Known::Absent => return Vec::new(),
        Known::Unknown { why } => {
            return unknown(
                Check::ControlPlanePods,
                subject,
                &format!("which pods are in {namespace}"),
                why,
            );
        }
    };
    let found = all.iter().filter_map(|pod| {
        let trouble = pods::trouble(pod)?;
        let part = pod.labels().get(LABEL_COMPONENT).map(String::as_str).unwrap_or_default();
        let check = match part {
            _ if trouble.is_place => Check::Capacity,
            "etcd" => Check::Etcd,
            "control-plane" | "controllers" => Check::ControlPlanePods,
            "autoscaler" | "cluster-autoscaler" => Check::Autoscaler,
            _ => Check::Addons,
        };
        let mend = if trouble.is_place {
            "add nodes to the management cluster, free some, or ask for less in `resources` of the spec".to_owned()
        } else if trouble.is_memory {
            format!("raise the memory limit: {}", limit(part))
        } else if trouble.is_image {
            "check `spec.version`, `spec.images.registry` and the registry's credentials".to_owned()
        } else {
            format!("`kubectl -n {namespace} logs {} --all-containers --previous` says why", trouble.pod)
        };
        let level = if check == Check::Addons { Level::Warning } else { Level::Error };
        let finding = Finding::new(check, level, subject.clone(), &trouble.what, &mend);
        Some(finding.told_by(&format!("pod {namespace}/{}", trouble.pod)))
    });
    found.collect()
}

/// The field with the memory limit of a part.
fn limit(part: &str) -> &'static str {
    match part {
        "etcd" => "`spec.etcd.resources.limits`",
        "control-plane" => "`spec.controlPlane.apiServer.resources.limits`",
        "controllers" => "`spec.controlPlane.controllerManager.resources.limits`",
        _ => "`config` of the chart has it for addons",
    }
}

fn certificates(cluster: &TenantCluster, subject: &Subject, now: Timestamp) -> Vec<Finding> {
    let status = cluster.status.as_ref();
    let all = status
        .map(|status| status.certificates.as_slice())
        .unwrap_or_default();
    let found = all.iter().filter_map(|certificate| {
        // What cannot be read is not known, and not expired.
        let end: Timestamp = certificate.not_after.parse().ok()?;
        let left = end.duration_since(now);
        let name = &certificate.name;
        let is_authority = name == "ca" || name.ends_with("-ca");
        let days = left.as_hours() / 24;
        let level = match is_authority {
            _ if left <= SignedDuration::ZERO => Level::Error,
            true if left < AUTHORITY => Level::Warning,
            false if left < NOW => Level::Error,
            false if left < SOON => Level::Warning,
            _ => return None,
        };
        let cause = match left <= SignedDuration::ZERO {
            true => format!("the certificate {name} ended at {end}"),
            false => format!("the certificate {name} ends in {days} days, at {end}"),
        };
        let mend = match is_authority {
            true => "authorities are not renewed by themselves: plan a new tenant cluster, see docs/certificates.md".to_owned(),
            false => "the operator renews it at a third of its life: the condition `CertificatesReady` says what keeps it".to_owned(),
        };
        Some((left, Finding::new(Check::Certificates, level, subject.clone(), &cause, &mend)))
    });
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|(left, _)| *left);
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// A change of the spec that the operator has not followed for a while.
fn unseen(
    cluster: &TenantCluster,
    observed: Option<i64>,
    subject: &Subject,
    now: Timestamp,
) -> Vec<Finding> {
    let generation = cluster.metadata.generation.unwrap_or_default();
    if observed.unwrap_or_default() >= generation {
        return Vec::new();
    }
    let fields = cluster.metadata.managed_fields.iter().flatten();
    let specs = fields.filter(|entry| entry.subresource.is_none());
    let changed = specs
        .filter_map(|entry| entry.time.as_ref())
        .map(|time| time.0)
        .max();
    // Without it nobody can say since when.
    let Some(changed) = changed.filter(|at| now.duration_since(*at) > UNSEEN) else {
        return Vec::new();
    };
    let cause = format!("the operator has not followed the change of the spec of {changed}");
    let mend = "`covey doctor` without a name says whether the operator runs; else read its log, `kubectl -n covey-system logs deployment/covey-operator`";
    let mut finding = Finding::new(
        Check::OperatorMoves,
        Level::Error,
        subject.clone(),
        &cause,
        mend,
    );
    finding.since = Some(changed);
    vec![finding.told_by(&format!(
        "{} is of an older generation",
        ConditionType::Ready.as_str()
    ))]
}
