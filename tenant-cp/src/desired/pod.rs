//! Pieces that all pods of a tenant namespace share, but for those of machines.
//!
//! Invariant: whatever is built from these pieces satisfies Pod Security "restricted", has a
//! read-only root file system and, unless it says otherwise, no service account token.

use std::collections::BTreeMap;

use api::tenant_cluster::Spread;
use k8s_openapi::{
    api::{
        apps::v1::{DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{
            Affinity, Capabilities, EmptyDirVolumeSource, EnvVar, EnvVarSource, HTTPGetAction,
            KeyToPath, ObjectFieldSelector, PodAffinityTerm, PodAntiAffinity, PodSecurityContext,
            PodSpec, PodTemplateSpec, Probe, ResourceRequirements, SeccompProfile,
            SecretKeySelector, SecretVolumeSource, SecurityContext, Toleration,
            TopologySpreadConstraint, Volume, VolumeMount, WeightedPodAffinityTerm,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity, apis::meta::v1::LabelSelector, util::intstr::IntOrString,
    },
};

use crate::meta::selector;
use crate::settings::Settings;
use crate::validate::validated::{Scheduling, Validated};

/// The user and group "nonroot" of distroless images; any other than 0 would do.
const USER: i64 = 65532;

/// A variable with the pod's name.
pub(crate) fn own_name(variable: &str) -> EnvVar {
    EnvVar {
        name: variable.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: "metadata.name".to_owned(),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

/// A variable with what a Secret's key says when the container starts.
pub(super) fn of_secret(variable: &str, secret: &str, key: &str) -> EnvVar {
    EnvVar {
        name: variable.to_owned(),
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: secret.to_owned(),
                key: key.to_owned(),
                ..SecretKeySelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

/// An image that Kubernetes' registry does not have and `registry` has; a `mirror` is asked to have
/// it beside the others.
pub(crate) fn other_image(mirror: &str, registry: &str, image: &str) -> String {
    match mirror {
        "registry.k8s.io" => format!("{registry}/{image}"),
        mirror => format!("{mirror}/{image}"),
    }
}

/// An image of Kubernetes' that holds a token of the management cluster: from the operator's own
/// registry, whatever registry the tenant cluster names.
pub(crate) fn trusted_image(settings: &Settings, image: &str) -> String {
    format!("{}/{image}", settings.registry.trim_end_matches('/'))
}

/// An image of Covey's, which `registry` has: the tenant cluster's registry is not asked for it.
pub(crate) fn own_image(settings: &Settings, registry: &str, image: &str) -> String {
    other_image(settings.registry.trim_end_matches('/'), registry, image)
}

/// How many threads a Go program of an addon runs on at a time: one, unless the user limits its CPU; then it
/// reads the number from the limit itself (Go 1.25, Kubernetes 1.35). Left to itself it takes one
/// for each core of the node, and what rests spends more on waking threads than on its work
/// (docs/benchmarks.md).
pub(crate) fn go_threads(limits: &BTreeMap<String, String>) -> Option<Vec<EnvVar>> {
    let one = EnvVar {
        name: "GOMAXPROCS".to_owned(),
        value: Some("1".to_owned()),
        ..EnvVar::default()
    };
    (!limits.contains_key("cpu")).then(|| vec![one])
}

/// Variables of a container; none where there are none.
pub(super) fn variables(variables: Vec<EnvVar>) -> Option<Vec<EnvVar>> {
    (!variables.is_empty()).then_some(variables)
}

/// A container that fails leaves the end of its log in its pod's status, for whoever says why.
pub(super) fn last_lines() -> Option<String> {
    Some("FallbackToLogsOnError".to_owned())
}

/// As many pods of a component as the control plane has replicas, of which a new one is ready before an old
/// one ends.
pub(super) fn rolling(v: &Validated, component: &str, template: PodTemplateSpec) -> DeploymentSpec {
    DeploymentSpec {
        replicas: Some(v.replicas),
        revision_history_limit: Some(2),
        selector: LabelSelector {
            match_labels: Some(selector(component)),
            ..LabelSelector::default()
        },
        strategy: Some(DeploymentStrategy {
            type_: Some("RollingUpdate".to_owned()),
            rolling_update: Some(RollingUpdateDeployment {
                max_surge: Some(IntOrString::Int(1)),
                max_unavailable: Some(IntOrString::Int(0)),
            }),
        }),
        template,
        ..DeploymentSpec::default()
    }
}

/// What every pod has; the caller adds containers and volumes.
pub(crate) fn spec(component: &str, scheduling: &Scheduling) -> PodSpec {
    let required = scheduling.spread == Spread::Required;
    PodSpec {
        node_selector: Some(scheduling.node_selector.clone()).filter(|map| !map.is_empty()),
        tolerations: Some(scheduling.tolerations.clone()).filter(|list| !list.is_empty()),
        priority_class_name: scheduling.priority_class_name.clone(),
        runtime_class_name: scheduling.runtime_class_name.clone(),
        topology_spread_constraints: required.then(|| vec![one_per_node(component)]),
        service_account_name: Some(component.to_owned()),
        automount_service_account_token: Some(false),
        // Variables for every Service of the namespace are of no use to these programs.
        enable_service_links: Some(false),
        affinity: Some(spread(component)),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            fs_group: Some(USER),
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        ..PodSpec::default()
    }
}

/// How long a pod that is alone stays on a node that is not heard of, in seconds. Kubernetes' default is 300
/// (`DefaultTolerationSeconds`), which is five minutes in which no volume is attached and no node made; two
/// of these at the same time do no harm.
const LONE_STAYS: i64 = 15;

/// As [`spec`], for a component with one pod that another may replace while it still runs somewhere.
pub(crate) fn lone(component: &str, scheduling: &Scheduling) -> PodSpec {
    let mut spec = spec(component, scheduling);
    let taints = [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ];
    let tolerations = taints.map(|taint| Toleration {
        key: Some(taint.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        toleration_seconds: Some(LONE_STAYS),
        ..Toleration::default()
    });
    let own = spec.tolerations.get_or_insert_default();
    // What the user says of one of them holds.
    let is_said = |taint: &Toleration| own.iter().any(|said| said.key == taint.key);
    let added: Vec<_> = tolerations.into_iter().filter(|t| !is_said(t)).collect();
    own.extend(added);
    spec
}

/// More than any component has pods: with fewer nodes than this the emptiest one counts as empty, so
/// that no node gets a second pod (kubernetes.io/docs, "Pod Topology Spread Constraints", `minDomains`).
const MOST_PODS: i32 = 9;

/// At most one pod of the component on a node. Of one revision: a rollout starts the new pod before it
/// ends the old one, and with as many pods as nodes it would wait for ever.
fn one_per_node(component: &str) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        label_selector: Some(LabelSelector {
            match_labels: Some(selector(component)),
            ..LabelSelector::default()
        }),
        match_label_keys: Some(vec!["pod-template-hash".to_owned()]),
        max_skew: 1,
        min_domains: Some(MOST_PODS),
        topology_key: "kubernetes.io/hostname".to_owned(),
        when_unsatisfiable: "DoNotSchedule".to_owned(),
        ..TopologySpreadConstraint::default()
    }
}

/// Replicas on different nodes and zones where there are some. It stands there for a single replica
/// too, so that adding replicas does not restart the first.
fn spread(component: &str) -> Affinity {
    let term = |topology: &str, weight| WeightedPodAffinityTerm {
        weight,
        pod_affinity_term: PodAffinityTerm {
            topology_key: topology.to_owned(),
            label_selector: Some(LabelSelector {
                match_labels: Some(selector(component)),
                ..LabelSelector::default()
            }),
            ..PodAffinityTerm::default()
        },
    };
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![
                term("kubernetes.io/hostname", 100),
                term(api::names::LABEL_ZONE, 50),
            ]),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    }
}

pub(crate) fn container_security() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            ..Capabilities::default()
        }),
        read_only_root_filesystem: Some(true),
        ..SecurityContext::default()
    }
}

/// Requests and limits; the operator's defaults are in them already (`validate`).
pub(crate) fn resources(
    requests: &BTreeMap<String, String>,
    limits: &BTreeMap<String, String>,
) -> ResourceRequirements {
    let quantities = |map: &BTreeMap<String, String>| {
        let map: BTreeMap<_, _> = map
            .iter()
            .map(|(name, amount)| (name.clone(), Quantity(amount.clone())))
            .collect();
        (!map.is_empty()).then_some(map)
    };
    ResourceRequirements {
        requests: quantities(requests),
        limits: quantities(limits),
        ..ResourceRequirements::default()
    }
}

/// Seconds a probe waits for its answer: a busy server is not a dead one.
const PROBE_TIMEOUT: i32 = 15;
/// Seconds a start-up probe waits; it asks again so often that it need not wait long.
const STARTUP_TIMEOUT: i32 = 5;

/// Asks every second and waits for a quarter of an hour: a slow server must not be killed, because
/// that makes all others slower still.
pub(crate) fn startup_probe(path: &str, port: i32, scheme: &str) -> Probe {
    Probe {
        timeout_seconds: Some(STARTUP_TIMEOUT),
        ..probe(path, port, scheme, 1, 900)
    }
}

/// An HTTP probe: period in seconds, and how many failures in a row count.
pub(crate) fn probe(path: &str, port: i32, scheme: &str, period: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::Int(port),
            scheme: Some(scheme.to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        timeout_seconds: Some(PROBE_TIMEOUT),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

/// A probe that is first asked so many seconds after the container started.
pub(crate) fn delayed(probe: Probe, seconds: i32) -> Probe {
    Probe {
        initial_delay_seconds: Some(seconds),
        ..probe
    }
}

pub(crate) fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

/// A Secret as a volume of the same name, readable by the pod's group alone.
pub(crate) fn secret_volume(name: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(name.to_owned()),
            default_mode: Some(0o440),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// One key of a Secret as a volume with that one file, readable by the pod's group alone.
pub(crate) fn secret_key_volume(name: &str, secret: &str, key: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.to_owned()),
            default_mode: Some(0o440),
            items: Some(vec![KeyToPath {
                key: key.to_owned(),
                path: key.to_owned(),
                mode: None,
            }]),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

pub(crate) fn empty_dir(name: &str, size: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: Some(Quantity(size.to_owned())),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    }
}
