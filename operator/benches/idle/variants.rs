//! Variants: names, and what each of them changes of what the operator renders.
//!
//! Invariant: a change that cannot be read is an error; one that is read is carried out or the program does not start.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tenant_cp::names;

/// What the operator renders, as it is.
pub(crate) const DEFAULT: &str = "default";

/// What was tried, one thing at a time, and some of it together. What each is for stands in docs/adr/0026.
const KNOWN: &[(&str, &[&str])] = &[
    ("small", &[r#"spec:{"controlPlane":{"profile":"Small"}}"#]),
    ("large", &[r#"spec:{"controlPlane":{"profile":"Large"}}"#]),
    (
        "one-thread",
        &["apiserver:GOMAXPROCS=1", "etcd:GOMAXPROCS=1"],
    ),
    ("gogc-75", &["all:GOGC=75"]),
    ("gogc-50", &["all:GOGC=50"]),
    ("gogc-25", &["all:GOGC=25"]),
    (
        "slow-ticks",
        &[
            "etcd:--heartbeat-interval=500",
            "etcd:--election-timeout=5000",
        ],
    ),
    ("slow-commits", &["etcd:--backend-batch-interval=1s"]),
    (
        "slow-progress",
        &["etcd:--watch-progress-notify-interval=60s"],
    ),
    (
        "few-counts",
        &["apiserver:--etcd-count-metric-poll-period=10m"],
    ),
    (
        "no-identity",
        &["apiserver:--feature-gates=APIServerIdentity=false"],
    ),
    (
        "no-size-estimate",
        &["apiserver:--feature-gates=SizeBasedListCostEstimate=false"],
    ),
    ("no-watch-cache", &["apiserver:--watch-cache=false"]),
    (
        "few-caches",
        &[
            "apiserver:--watch-cache-sizes=limitranges#0,podtemplates#0,replicationcontrollers#0,resourcequotas#0,endpoints#0,\
             persistentvolumes#0,persistentvolumeclaims#0,controllerrevisions.apps#0,statefulsets.apps#0,\
             cronjobs.batch#0,jobs.batch#0,horizontalpodautoscalers.autoscaling#0,poddisruptionbudgets.policy#0,\
             networkpolicies.networking.k8s.io#0,ingresses.networking.k8s.io#0,\
             ingressclasses.networking.k8s.io#0,ipaddresses.networking.k8s.io#0,servicecidrs.networking.k8s.io#0,\
             runtimeclasses.node.k8s.io#0,priorityclasses.scheduling.k8s.io#0,storageclasses.storage.k8s.io#0,\
             volumeattachments.storage.k8s.io#0,csidrivers.storage.k8s.io#0,csinodes.storage.k8s.io#0,\
             csistoragecapacities.storage.k8s.io#0,volumeattributesclasses.storage.k8s.io#0,\
             deviceclasses.resource.k8s.io#0,resourceclaims.resource.k8s.io#0,\
             resourceclaimtemplates.resource.k8s.io#0,resourceslices.resource.k8s.io#0,\
             mutatingwebhookconfigurations.admissionregistration.k8s.io#0,\
             validatingwebhookconfigurations.admissionregistration.k8s.io#0,\
             validatingadmissionpolicies.admissionregistration.k8s.io#0,\
             validatingadmissionpolicybindings.admissionregistration.k8s.io#0,\
             certificatesigningrequests.certificates.k8s.io#0,flowschemas.flowcontrol.apiserver.k8s.io#0,\
             prioritylevelconfigurations.flowcontrol.apiserver.k8s.io#0",
        ],
    ),
    (
        "no-priorities",
        &["apiserver:--enable-priority-and-fairness=false"],
    ),
    (
        "no-election",
        &[
            "controller-manager:--leader-elect=false",
            "scheduler:--leader-elect=false",
        ],
    ),
    (
        "slow-election",
        &[
            "controller-manager:--leader-elect-retry-period=10s",
            "controller-manager:--leader-elect-renew-deadline=30s",
            "controller-manager:--leader-elect-lease-duration=40s",
            "scheduler:--leader-elect-retry-period=10s",
            "scheduler:--leader-elect-renew-deadline=30s",
            "scheduler:--leader-elect-lease-duration=40s",
        ],
    ),
    (
        "no-attach",
        &[
            "controller-manager:--controllers=*,bootstrapsigner,tokencleaner,-persistentvolume-attach-detach-controller",
        ],
    ),
    (
        "few-controllers",
        &[
            "controller-manager:--controllers=*,bootstrapsigner,tokencleaner,-persistentvolume-attach-detach-controller,-horizontal-pod-autoscaler-controller,-cronjob-controller,-ephemeral-volume-controller,-resourceclaim-controller,-validatingadmissionpolicy-status-controller,-endpointslice-mirroring-controller,-replicationcontroller-controller",
        ],
    ),
    ("no-probes", &["probes:0"]),
    ("slow-probes", &["probes:3"]),
];

/// Containers whose flags and variables can be changed.
const PROGRAMS: [&str; 6] = [
    "all",
    names::API_SERVER,
    names::CONTROLLER_MANAGER,
    names::ETCD,
    names::KONNECTIVITY_SERVER,
    names::SCHEDULER,
];

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) changes: Vec<String>,
}

/// What a change is.
#[derive(Debug, PartialEq)]
pub(crate) enum Change<'a> {
    /// Of the spec.
    Spec(Value),
    /// Periods of probes, times so much; none at all for 0.
    Probes(u32),
    /// A flag of a program; without a value it is left out.
    Flag(&'a str, &'a str, Option<&'a str>),
    /// A variable of a program.
    Variable(&'a str, &'a str, &'a str),
}

impl Variant {
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            changes: Vec::new(),
        }
    }

    /// Its changes, read.
    pub(crate) fn read(&self) -> Result<Vec<Change<'_>>> {
        let changes = self.changes.iter();
        changes
            .map(|change| {
                read(change).with_context(|| format!("{change} is no change of {}", self.name))
            })
            .collect()
    }
}

fn read(change: &str) -> Result<Change<'_>> {
    let (program, what) = change.split_once(':').context("there is no colon")?;
    match (program, what.strip_prefix("--")) {
        ("spec", _) => Ok(Change::Spec(serde_json::from_str(what)?)),
        ("probes", _) => Ok(Change::Probes(what.parse()?)),
        (program, _) if !PROGRAMS.contains(&program) => {
            bail!("{program} is none of {}", PROGRAMS.join(", "))
        }
        (_, Some(flag)) => Ok(match flag.split_once('=') {
            Some((flag, value)) => Change::Flag(program, flag, Some(value)),
            None => Change::Flag(program, flag, None),
        }),
        (_, None) => {
            let (name, value) = what.split_once('=').context("there is no =")?;
            Ok(Change::Variable(program, name, value))
        }
    }
}

/// Those that are asked for.
pub(crate) fn chosen(names: &[String], own: &[String]) -> Result<Vec<Variant>> {
    let known = |(name, changes): &(&str, &[&str])| Variant {
        name: (*name).to_owned(),
        changes: changes.iter().map(|change| (*change).to_owned()).collect(),
    };
    let mut chosen = Vec::new();
    for name in names.iter().filter(|name| *name != DEFAULT) {
        match KNOWN.iter().find(|(known, _)| known == name) {
            Some(variant) => chosen.push(known(variant)),
            None => {
                let known: Vec<_> = KNOWN.iter().map(|(name, _)| *name).collect();
                bail!("there is no variant {name}; choose of {}", known.join(", "));
            }
        }
    }
    let mut mine: Vec<Variant> = Vec::new();
    for text in own {
        let (name, change) = text
            .split_once('=')
            .with_context(|| format!("{text} is not NAME=CHANGE"))?;
        ensure!(!name.is_empty(), "{text} has no name");
        match mine.iter_mut().find(|variant| variant.name == name) {
            Some(variant) => variant.changes.push(change.to_owned()),
            None => mine.push(Variant {
                name: name.to_owned(),
                changes: vec![change.to_owned()],
            }),
        }
    }
    chosen.extend(mine);
    if names.is_empty() && own.is_empty() {
        chosen = KNOWN.iter().map(known).collect();
    }
    for variant in &chosen {
        variant.read()?;
    }
    Ok(chosen)
}
