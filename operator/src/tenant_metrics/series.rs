//! From TenantClusters, NodePools and Machines to the series of each tenant cluster. No I/O, no clock.
//!
//! Invariant: what is not known has no series; names and help are those of `monitoring`'s catalogue.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use api::condition::is_true;
use api::machine::MachinePhase;
use api::{ConditionType, Machine, NodePool, TenantCluster};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, MetricEncoder,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use tenant_cp::Settings;
use tenant_cp::amounts::{Amounts, Resource};
use tenant_cp::quota::takes;

use crate::hibernation;
use crate::prober::counts::Probes;
use crate::prober::outcome::Outcome;

/// Conditions of TenantClusters, which is all that there can be.
const CONDITIONS: [ConditionType; 20] = [
    ConditionType::Ready,
    ConditionType::Progressing,
    ConditionType::Degraded,
    ConditionType::EtcdReady,
    ConditionType::ControlPlaneReady,
    ConditionType::ControllersReady,
    ConditionType::EndpointReady,
    ConditionType::EndpointReachable,
    ConditionType::CertificatesReady,
    ConditionType::BootstrapReady,
    ConditionType::CoreDNSReady,
    ConditionType::KubeProxyReady,
    ConditionType::NetworkReady,
    ConditionType::OverlayReady,
    ConditionType::KonnectivityReady,
    ConditionType::CloudControllerReady,
    ConditionType::CSIReady,
    ConditionType::AutoscalerReady,
    ConditionType::BackupReady,
    ConditionType::VersionOutdated,
];
/// The share of probes that are to be answered where etcd has one member: a node may be drained.
const ONE_MEMBER: f64 = 0.995;
/// The same where it has three.
const THREE_MEMBERS: f64 = 0.999;
/// More of a version than this is not shown.
const VERSION: usize = 32;
/// Amounts are counted in billionths.
const ONE: f64 = 1e9;

/// What a replica shows.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Whether it may write.
    pub leads: bool,
    /// Control planes that start or are rolled out.
    pub running: usize,
    /// Those that wait for it.
    pub waiting: usize,
    /// How many objects wait for their turn, by controller.
    pub queues: Vec<(&'static str, usize)>,
    /// Tenant clusters that are too many to be shown.
    pub dropped: usize,
    /// The others.
    pub tenants: Vec<Tenant>,
}

/// What is shown of one tenant cluster.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// The tenant namespace.
    pub tenant: String,
    namespace: String,
    name: String,
    version: String,
    exposure: &'static str,
    /// What its etcd began with.
    start: &'static str,
    state: &'static str,
    conditions: Vec<(&'static str, bool)>,
    /// When the first leaf and the first authority end, in seconds.
    ends: [Option<i64>; 2],
    desired: i64,
    machines: BTreeMap<&'static str, i64>,
    pools: Option<Pools>,
    takes: Amounts,
    objective: f64,
    /// What came of its probes.
    pub probes: Option<Probes>,
}

/// Pools of which something is so.
#[derive(Clone, Copy, Debug, Default)]
struct Pools {
    ready: i64,
    at_limit: i64,
    no_room: i64,
    degraded: i64,
    ready_nodes: i64,
}

impl Tenant {
    /// What is shown of these, of which `pools` and `machines` may be others', too.
    #[must_use]
    pub fn all(
        clusters: &[Arc<TenantCluster>],
        pools: &[Arc<NodePool>],
        machines: &[Arc<Machine>],
        settings: &Settings,
    ) -> Vec<Self> {
        let mut pools_of = HashMap::<_, Vec<&NodePool>>::new();
        for pool in pools {
            let namespace = pool.namespace().unwrap_or_default();
            let key = (namespace, pool.spec.cluster_name.as_str());
            pools_of.entry(key).or_default().push(pool);
        }
        let mut phases_of = HashMap::<_, BTreeMap<_, i64>>::new();
        for machine in machines {
            let phase = machine.status.as_ref().and_then(|status| status.phase);
            let phases = phases_of.entry(machine.spec.cluster_uid.as_str());
            let phase = phase.unwrap_or(MachinePhase::Pending).as_str();
            *phases.or_default().entry(phase).or_default() += 1;
        }
        let of = |cluster: &Arc<TenantCluster>| {
            let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
            let pools = pools_of.get(&(namespace, name.as_str()));
            let machines = phases_of.get(cluster.identity_uid());
            let pools = pools.map_or(&[][..], Vec::as_slice);
            Self::of(
                cluster,
                pools,
                machines.cloned().unwrap_or_default(),
                settings,
            )
        };
        clusters.iter().map(of).collect()
    }

    fn of(
        cluster: &TenantCluster,
        pools: &[&NodePool],
        machines: BTreeMap<&'static str, i64>,
        settings: &Settings,
    ) -> Self {
        let name = cluster.name_any();
        let status = cluster.status.as_ref();
        let is_there = |pool: &&&NodePool| pool.metadata.deletion_timestamp.is_none();
        let desired = pools.iter().filter(is_there);
        let desired: i64 = desired.map(|pool| i64::from(pool.spec.replicas)).sum();
        let taken = pools.iter().map(|pool| takes::pool(pool));
        let version = status
            .and_then(|s| s.version.as_deref())
            .unwrap_or_default();
        // Whoever may write the status may write anything there.
        let is_of_a_version = |c: &char| c.is_ascii_alphanumeric() || ['.', '-', '+'].contains(c);
        Self {
            tenant: cluster.tenant_namespace(),
            namespace: cluster.namespace().unwrap_or_default(),
            name,
            version: version
                .chars()
                .filter(is_of_a_version)
                .take(VERSION)
                .collect(),
            exposure: cluster.spec.control_plane.endpoint.type_.as_str(),
            start: match status.and_then(|s| s.etcd.as_ref()?.golden_file.as_ref()) {
                Some(_) => "golden",
                None => "empty",
            },
            state: state(cluster),
            conditions: conditions(cluster),
            ends: ends(cluster),
            desired: match hibernation::holds_machines(cluster) {
                true => 0,
                false => desired,
            },
            machines,
            pools: (!pools.is_empty()).then(|| Pools::of(pools)),
            takes: taken.fold(takes::cluster(cluster, settings), |all, pool| {
                all.plus(&pool)
            }),
            objective: match cluster.spec.etcd.replicas {
                ..3 => ONE_MEMBER,
                3.. => THREE_MEMBERS,
            },
            probes: None,
        }
    }

    fn label(&self) -> (&'static str, &str) {
        ("tenant", self.tenant.as_str())
    }

    fn info(&self) -> [(&'static str, &str); 6] {
        [
            self.label(),
            ("namespace", self.namespace.as_str()),
            ("name", self.name.as_str()),
            ("version", self.version.as_str()),
            ("exposure", self.exposure),
            ("start", self.start),
        ]
    }
}

impl Pools {
    fn of(pools: &[&NodePool]) -> Self {
        let mut all = Self::default();
        for pool in pools {
            let status = pool.status.as_ref();
            let conditions = status.map_or(&[][..], |status| &status.conditions);
            let ready = status.map_or(0, |status| status.ready_replicas);
            let is_full =
                |c: &Condition| c.type_ == ConditionType::Capacity.as_str() && c.status == "False";
            let count = |is_so: bool| i64::from(is_so);
            all.ready_nodes += i64::from(ready);
            all.ready += count(ready >= pool.spec.replicas);
            all.at_limit += count(is_true(conditions, ConditionType::AutoscalingRefused));
            all.no_room += count(conditions.iter().any(is_full));
            all.degraded += count(is_true(conditions, ConditionType::Degraded));
        }
        all
    }
}

/// What becomes of it.
fn state(cluster: &TenantCluster) -> &'static str {
    let status = cluster.status.as_ref();
    let was_ready = status.is_some_and(|status| status.bootstrap_hash.is_some());
    if cluster.metadata.deletion_timestamp.is_some() {
        "deleting"
    } else if cluster.spec.paused {
        "paused"
    } else if hibernation::holds_machines(cluster) {
        "asleep"
    } else if was_ready {
        "serving"
    } else {
        "starting"
    }
}

/// Conditions that are known.
fn conditions(cluster: &TenantCluster) -> Vec<(&'static str, bool)> {
    let status = cluster.status.as_ref();
    let all = status.map_or(&[][..], |status| &status.conditions);
    let known = |type_: ConditionType| {
        let type_ = type_.as_str();
        let found = all.iter().find(|condition| condition.type_ == type_)?;
        match found.status.as_str() {
            "True" => Some((type_, true)),
            "False" => Some((type_, false)),
            _ => None,
        }
    };
    CONDITIONS.into_iter().filter_map(known).collect()
}

/// When the first leaf and the first authority end.
fn ends(cluster: &TenantCluster) -> [Option<i64>; 2] {
    let mut ends = [None, None];
    for certificate in cluster
        .status
        .iter()
        .flat_map(|status| &status.certificates)
    {
        let Ok(end) = certificate.not_after.parse::<Timestamp>() else {
            continue;
        };
        let [leaf, authority] = &mut ends;
        let first = match is_authority(&certificate.name) {
            true => authority,
            false => leaf,
        };
        let end = end.as_second();
        *first = Some(first.map_or(end, |earlier: i64| earlier.min(end)));
    }
    ends
}

/// As docs/certificates.md calls them: `ca`, `client-ca`, `client-ca-g2`.
fn is_authority(name: &str) -> bool {
    let first = name.rsplit_once("-g").filter(|(_, generation)| {
        !generation.is_empty() && generation.chars().all(|c| c.is_ascii_digit())
    });
    let name = first.map_or(name, |(name, _)| name);
    name == "ca" || name.ends_with("-ca")
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let leads = i64::from(self.leads);
        gauge(
            &mut encoder,
            "covey_leader",
            "1 where this replica may write, else 0",
            leads,
        )?;
        let help = "Control planes that start or are rolled out, and those that wait for it";
        let mut starts = Gauges::new(&mut encoder, "covey_starts", help, None)?;
        starts.set(&[("state", "running")], count(self.running))?;
        starts.set(&[("state", "waiting")], count(self.waiting))?;
        let help = "Objects that are due and wait for their turn";
        let mut queues = Gauges::new(&mut encoder, "covey_queue_depth", help, None)?;
        for (controller, depth) in &self.queues {
            queues.set(&[("controller", *controller)], count(*depth))?;
        }
        let help = "Tenant clusters that are not shown here, because there are more than --metrics-tenants";
        let dropped = count(self.dropped);
        gauge(&mut encoder, "covey_metrics_tenants_dropped", help, dropped)?;
        self.encode_status(&mut encoder)?;
        self.encode_probes(&mut encoder)?;
        self.encode_nodes(&mut encoder)?;
        self.encode_amounts(&mut encoder)
    }
}

impl Snapshot {
    fn encode_status(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "1, with what a tenant cluster is called";
        let mut info = Gauges::new(encoder, "covey_tenant_info", help, None)?;
        for tenant in &self.tenants {
            info.set(&tenant.info(), 1)?;
        }
        let help = "1, with what becomes of a tenant cluster";
        let mut states = Gauges::new(encoder, "covey_tenant_state", help, None)?;
        for tenant in &self.tenants {
            states.set(&[tenant.label(), ("state", tenant.state)], 1)?;
        }
        let help =
            "1 where a condition of the TenantCluster is True, 0 where False, absent where Unknown";
        let mut conditions = Gauges::new(encoder, "covey_tenant_condition", help, None)?;
        for tenant in &self.tenants {
            for (type_, value) in &tenant.conditions {
                conditions.set(&[tenant.label(), ("type", *type_)], i64::from(*value))?;
            }
        }
        let help = "When the first certificate of a kind ends";
        let name = "covey_tenant_certificate_not_after_timestamp";
        let mut ends = Gauges::new(encoder, name, help, Some(&Unit::Seconds))?;
        for tenant in &self.tenants {
            for (kind, end) in ["leaf", "authority"].into_iter().zip(tenant.ends) {
                if let Some(end) = end {
                    ends.set(&[tenant.label(), ("kind", kind)], end)?;
                }
            }
        }
        Ok(())
    }

    fn encode_probes(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "The share of probes that are to be answered: 0.999 with three members of etcd, 0.995 with one";
        let name = "covey_tenant_availability_objective_ratio";
        let mut objectives = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for tenant in &self.tenants {
            let objective = ConstGauge::new(tenant.objective);
            objective.encode(objectives.encode_family(&[tenant.label()])?)?;
        }
        let probed = || {
            let tenants = self.tenants.iter();
            tenants.filter_map(|tenant| Some((tenant, tenant.probes.as_ref()?)))
        };
        let help = "Reads of one object from a tenant cluster's API, by what came of them";
        let name = "covey_tenant_probe_requests";
        let mut requests = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (tenant, probes) in probed() {
            for (outcome, count) in Outcome::ALL.into_iter().zip(probes.outcomes) {
                let labels = [
                    tenant.label(),
                    ("via", "service"),
                    ("result", outcome.label()),
                ];
                ConstCounter::new(count).encode(requests.encode_family(&labels)?)?;
            }
        }
        let help = "How long such a read took";
        let (name, unit) = ("covey_tenant_probe_duration", Unit::Seconds);
        let kind = MetricType::Histogram;
        let mut took = encoder.encode_descriptor(name, help, Some(&unit), kind)?;
        for (tenant, probes) in probed() {
            probes.took.encode(took.encode_family(&[tenant.label()])?)?;
        }
        Ok(())
    }

    fn encode_nodes(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let with_pools = || {
            let tenants = self.tenants.iter();
            tenants.filter_map(|tenant| Some((tenant, tenant.pools?)))
        };
        let help = "Nodes that node pools are to have, and those that are ready";
        let mut nodes = Gauges::new(encoder, "covey_tenant_nodes", help, None)?;
        for (tenant, pools) in with_pools() {
            for (state, count) in [("desired", tenant.desired), ("ready", pools.ready_nodes)] {
                nodes.set(&[tenant.label(), ("state", state)], count)?;
            }
        }
        let help = "Machines by phase, absent where there is none";
        let mut machines = Gauges::new(encoder, "covey_tenant_machines", help, None)?;
        for tenant in &self.tenants {
            for (phase, count) in &tenant.machines {
                machines.set(&[tenant.label(), ("phase", *phase)], *count)?;
            }
        }
        let help = "Node pools of which something is so, absent where there is no pool";
        let mut states = Gauges::new(encoder, "covey_tenant_pools", help, None)?;
        for (tenant, pools) in with_pools() {
            for (state, count) in [
                ("ready", pools.ready),
                ("at_limit", pools.at_limit),
                ("no_room", pools.no_room),
                ("degraded", pools.degraded),
            ] {
                states.set(&[tenant.label(), ("state", state)], count)?;
            }
        }
        Ok(())
    }

    fn encode_amounts(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, unit, help, resource) in [
            (
                "covey_tenant_requests_cores",
                None,
                "Cores that a tenant cluster takes of quotas",
                Resource::Cores,
            ),
            (
                "covey_tenant_requests_memory",
                Some(&Unit::Bytes),
                "Memory that a tenant cluster takes of quotas",
                Resource::Memory,
            ),
            (
                "covey_tenant_requests_storage",
                Some(&Unit::Bytes),
                "Storage of etcd that a tenant cluster takes of quotas",
                Resource::Storage,
            ),
        ] {
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            for tenant in &self.tenants {
                let amount = ConstGauge::new(tenant.takes.get(resource) as f64 / ONE);
                amount.encode(family.encode_family(&[tenant.label()])?)?;
            }
        }
        Ok(())
    }
}

/// Gauges of one name.
struct Gauges<'a>(MetricEncoder<'a>);

impl<'a> Gauges<'a> {
    fn new(
        encoder: &'a mut DescriptorEncoder<'_>,
        name: &'a str,
        help: &str,
        unit: Option<&'a Unit>,
    ) -> Result<Self, fmt::Error> {
        let family = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        Ok(Self(family))
    }

    fn set(&mut self, labels: &impl EncodeLabelSet, value: i64) -> Result<(), fmt::Error> {
        ConstGauge::new(value).encode(self.0.encode_family(labels)?)
    }
}

/// A gauge without labels.
fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: i64,
) -> Result<(), fmt::Error> {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}
