//! All metrics that Covey's programs show, by where they are registered.
//!
//! Long because everything is listed in one place.
//! Invariant: every name begins with `covey_`, but for `process_…`, which everybody calls so; no label is of a pod, a
//! machine, a person, a message or a path.

use crate::metric::{Group, Kind, Metric};

use self::adapters::{AUTOSCALER, CLOUD_CONTROLLER, CSI};

pub mod adapters;

/// Series that one tenant cluster may have of all that the operator shows.
pub const BUDGET: usize = 60;

/// Who has an admin port.
const ALL: &[&str] = &[
    "operator",
    "webhook",
    "ccm",
    "csi-proxy",
    "autoscaler",
    "activator",
    "dashboard",
    "link-node",
];

const CONTROLLER: (&str, &str) = ("controller", "what is reconciled, such as `tenant_cluster`");
const TENANT: (&str, &str) = ("tenant", "the tenant namespace");

/// Of every process.
pub const PROCESS: Group = Group {
    title: "Processes",
    programs: ALL,
    metrics: &[
        Metric {
            name: "covey_build_info",
            kind: Kind::Gauge,
            help: "1, with the version of the program",
            labels: &[("version", "the release")],
            per_tenant: 0,
        },
        Metric {
            name: "process_resident_memory_bytes",
            kind: Kind::Gauge,
            help: "Resident memory",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "process_cpu_seconds_total",
            kind: Kind::Counter,
            help: "User and system CPU time",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "process_threads",
            kind: Kind::Gauge,
            help: "Threads",
            labels: &[],
            per_tenant: 0,
        },
    ],
};

/// Of clients of a Kubernetes API.
pub const REQUESTS: Group = Group {
    title: "Requests to Kubernetes",
    programs: &[
        "operator",
        "webhook",
        "ccm",
        "csi-proxy",
        "autoscaler",
        "activator",
        "link-node",
    ],
    metrics: &[
        Metric {
            name: "covey_kubernetes_requests_total",
            kind: Kind::Counter,
            help: "Requests sent to the Kubernetes API, every try counted",
            labels: &[
                ("api", "`management` or `tenant`"),
                ("verb", "as RBAC names it"),
                ("resource", "as RBAC names it; empty of paths that are none"),
                ("code", "the HTTP status, or `error` without an answer"),
            ],
            per_tenant: 0,
        },
        Metric {
            name: "covey_kubernetes_request_duration_seconds",
            kind: Kind::Histogram { buckets: 8 },
            help: "How long the Kubernetes API took to begin an answer, or not to",
            labels: &[
                ("api", "`management` or `tenant`"),
                ("verb", "as RBAC names it"),
            ],
            per_tenant: 0,
        },
    ],
};

/// Of whoever reconciles.
pub const CONTROLLERS: Group = Group {
    title: "Controllers",
    programs: &["operator", "ccm", "csi-proxy", "autoscaler"],
    metrics: &[
        Metric {
            name: "covey_reconcile_runs_total",
            kind: Kind::Counter,
            help: "Reconciles begun",
            labels: &[CONTROLLER],
            per_tenant: 0,
        },
        Metric {
            name: "covey_reconcile_errors_total",
            kind: Kind::Counter,
            help: "Reconciles failed, by class of error",
            labels: &[
                CONTROLLER,
                ("class", "`transient`, `invalid`, `conflict` or `bug`"),
            ],
            per_tenant: 0,
        },
        Metric {
            name: "covey_reconcile_duration_seconds",
            kind: Kind::Histogram { buckets: 10 },
            help: "How long a reconcile took",
            labels: &[CONTROLLER],
            per_tenant: 0,
        },
        Metric {
            name: "covey_queue_wait_seconds",
            kind: Kind::Histogram { buckets: 9 },
            help: "How long an object that was due waited for its turn",
            labels: &[CONTROLLER],
            per_tenant: 0,
        },
        Metric {
            name: "covey_waiting_objects",
            kind: Kind::Gauge,
            help: "Objects that wait, by what they wait for",
            labels: &[CONTROLLER, ("reason", "one of the [reasons](reasons.md)")],
            per_tenant: 0,
        },
        Metric {
            name: "covey_time_to_ready_seconds",
            kind: Kind::Histogram { buckets: 14 },
            help: "From an object's creation to its first Ready",
            labels: &[CONTROLLER],
            per_tenant: 0,
        },
    ],
};

/// Of queues whose length is shown.
pub const QUEUES: Group = Group {
    title: "Queues",
    programs: &["operator", "ccm"],
    metrics: &[Metric {
        name: "covey_queue_depth",
        kind: Kind::Gauge,
        help: "Objects that are due and wait for their turn",
        labels: &[CONTROLLER],
        per_tenant: 0,
    }],
};

/// Of operators that share the work.
pub const SHARES: Group = Group {
    title: "Shared work",
    programs: &["operator"],
    metrics: &[
        Metric {
            name: "covey_shard_members",
            kind: Kind::Gauge,
            help: "Replicas that share the work, as this one sees it",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "covey_shard_tenant_clusters",
            kind: Kind::Gauge,
            help: "TenantClusters that are this replica's work",
            labels: &[],
            per_tenant: 0,
        },
    ],
};

/// Of the operator that leads, and of its tenant clusters.
pub const TENANTS: Group = Group {
    title: "Tenant clusters",
    programs: &["operator"],
    metrics: &[
        Metric {
            name: "covey_leader",
            kind: Kind::Gauge,
            help: "1 where this replica may write, else 0",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "covey_starts",
            kind: Kind::Gauge,
            help: "Control planes that start or are rolled out, and those that wait for it",
            labels: &[("state", "`running` or `waiting`")],
            per_tenant: 0,
        },
        Metric {
            name: "covey_metrics_tenants_dropped",
            kind: Kind::Gauge,
            help: "Tenant clusters that are not shown here, because there are more than --metrics-tenants",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "covey_tenant_info",
            kind: Kind::Gauge,
            help: "1, with what a tenant cluster is called",
            labels: &[
                TENANT,
                ("namespace", "the user's namespace"),
                ("name", "the name of the TenantCluster"),
                ("version", "the Kubernetes version that serves"),
                ("exposure", "`ClusterIP`, `NodePort` or `LoadBalancer`"),
                (
                    "start",
                    "what its etcd began with: `golden`, or `empty`, also where nobody saw it",
                ),
            ],
            per_tenant: 1,
        },
        Metric {
            name: "covey_tenant_state",
            kind: Kind::Gauge,
            help: "1, with what becomes of a tenant cluster",
            labels: &[
                TENANT,
                (
                    "state",
                    "`starting` (never was Ready), `serving`, `asleep`, `paused` or `deleting`",
                ),
            ],
            per_tenant: 1,
        },
        Metric {
            name: "covey_tenant_condition",
            kind: Kind::Gauge,
            help: "1 where a condition of the TenantCluster is True, 0 where False, absent where Unknown",
            labels: &[
                TENANT,
                (
                    "type",
                    "a condition, see [operations.md](operations.md#conditions)",
                ),
            ],
            per_tenant: 19,
        },
        Metric {
            name: "covey_tenant_availability_objective_ratio",
            kind: Kind::Gauge,
            help: "The share of probes that are to be answered: 0.999 with three members of etcd, 0.995 with one",
            labels: &[TENANT],
            per_tenant: 1,
        },
        Metric {
            name: "covey_tenant_probe_requests_total",
            kind: Kind::Counter,
            help: "Reads of one object from a tenant cluster's API, by what came of them",
            labels: &[
                TENANT,
                ("via", "`service`"),
                (
                    "result",
                    "`ok`, `http_5xx`, `http_other`, `timeout`, `connect`, `tls` or `auth`",
                ),
            ],
            per_tenant: 7,
        },
        Metric {
            name: "covey_tenant_probe_duration_seconds",
            kind: Kind::Histogram { buckets: 6 },
            help: "How long such a read took",
            labels: &[TENANT],
            per_tenant: 1,
        },
        Metric {
            name: "covey_tenant_certificate_not_after_timestamp_seconds",
            kind: Kind::Gauge,
            help: "When the first certificate of a kind ends",
            labels: &[TENANT, ("kind", "`leaf` or `authority`")],
            per_tenant: 2,
        },
        Metric {
            name: "covey_tenant_nodes",
            kind: Kind::Gauge,
            help: "Nodes that node pools are to have, and those that are ready",
            labels: &[TENANT, ("state", "`desired` or `ready`")],
            per_tenant: 2,
        },
        Metric {
            name: "covey_tenant_machines",
            kind: Kind::Gauge,
            help: "Machines by phase, absent where there is none",
            labels: &[TENANT, ("phase", "a phase of Machines")],
            per_tenant: 8,
        },
        Metric {
            name: "covey_tenant_pools",
            kind: Kind::Gauge,
            help: "Node pools of which something is so, absent where there is no pool",
            labels: &[
                TENANT,
                ("state", "`ready`, `at_limit`, `no_room` or `degraded`"),
            ],
            per_tenant: 4,
        },
        Metric {
            name: "covey_tenant_requests_cores",
            kind: Kind::Gauge,
            help: "Cores that a tenant cluster takes of quotas",
            labels: &[TENANT],
            per_tenant: 1,
        },
        Metric {
            name: "covey_tenant_requests_memory_bytes",
            kind: Kind::Gauge,
            help: "Memory that a tenant cluster takes of quotas",
            labels: &[TENANT],
            per_tenant: 1,
        },
        Metric {
            name: "covey_tenant_requests_storage_bytes",
            kind: Kind::Gauge,
            help: "Storage of etcd that a tenant cluster takes of quotas",
            labels: &[TENANT],
            per_tenant: 1,
        },
    ],
};

/// Of the webhook.
pub const ADMISSION: Group = Group {
    title: "Admission",
    programs: &["webhook"],
    metrics: &[
        Metric {
            name: "covey_admission_requests_total",
            kind: Kind::Counter,
            help: "Reviews, by what was answered",
            labels: &[
                ("kind", "`TenantCluster` or `NodePool`"),
                (
                    "operation",
                    "`create`, `update`, `delete`, `connect` or `unknown`",
                ),
                (
                    "result",
                    "`allowed`, `denied`, or `error` where it was no review that could be read",
                ),
            ],
            per_tenant: 0,
        },
        Metric {
            name: "covey_admission_duration_seconds",
            kind: Kind::Histogram { buckets: 8 },
            help: "How long a review took, its body included",
            labels: &[("kind", "`TenantCluster` or `NodePool`")],
            per_tenant: 0,
        },
    ],
};

/// Of what waits in the place of control planes that sleep.
pub const ACTIVATOR: Group = Group {
    title: "Activator",
    programs: &["activator"],
    metrics: &[
        Metric {
            name: "covey_activator_connections_total",
            kind: Kind::Counter,
            help: "Connections, by what became of them",
            labels: &[(
                "end",
                "`spliced`, `refused`, `full`, `no_hello`, `timed_out`, `gone` or `left`",
            )],
            per_tenant: 0,
        },
        Metric {
            name: "covey_activator_wakes_total",
            kind: Kind::Counter,
            help: "Wakes that clients caused, by what came of it",
            labels: &[("result", "`asked`, `limited` or `failed`")],
            per_tenant: 0,
        },
        Metric {
            name: "covey_activator_held_connections",
            kind: Kind::Gauge,
            help: "Connections that wait for a control plane",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "covey_activator_spliced_connections",
            kind: Kind::Gauge,
            help: "Connections that are handed on",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "covey_activator_ports",
            kind: Kind::Gauge,
            help: "Ports on which somebody is waited for",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "covey_activator_wait_seconds",
            kind: Kind::Histogram { buckets: 12 },
            help: "From a whole ClientHello to the control plane",
            labels: &[],
            per_tenant: 0,
        },
    ],
};

/// Of the overlay, on each node of a tenant cluster.
pub const OVERLAY: Group = Group {
    title: "Overlay",
    programs: &["link-node"],
    metrics: &[
        Metric {
            name: "covey_overlay_peers",
            kind: Kind::Gauge,
            help: "Nodes that this one has a tunnel to",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "covey_overlay_sessions",
            kind: Kind::Gauge,
            help: "Peers that there is a session with",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "covey_overlay_unreachable",
            kind: Kind::Gauge,
            help: "Peers that neither end reaches",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "covey_overlay_waiting",
            kind: Kind::Gauge,
            help: "Members without a key yet",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "covey_overlay_refused",
            kind: Kind::Gauge,
            help: "Nodes, or parts of what they say, that were refused",
            labels: &[("reason", "what is wrong with it, in a word")],
            per_tenant: 0,
        },
        Metric {
            name: "covey_overlay_dropped_total",
            kind: Kind::Counter,
            help: "Packets that were let go",
            labels: &[(
                "reason",
                "`no_peer`, `no_endpoint`, `unknown`, `source` or `destination`",
            )],
            per_tenant: 0,
        },
    ],
};

/// Of the dashboard.
pub const DASHBOARD: Group = Group {
    title: "Dashboard",
    programs: &["dashboard"],
    metrics: &[Metric {
        name: "covey_dashboard_sessions",
        kind: Kind::Gauge,
        help: "People who are logged in",
        labels: &[],
        per_tenant: 0,
    }],
};

/// All of them.
pub const GROUPS: [Group; 13] = [
    TENANTS,
    CONTROLLERS,
    QUEUES,
    SHARES,
    ADMISSION,
    REQUESTS,
    PROCESS,
    CLOUD_CONTROLLER,
    CSI,
    AUTOSCALER,
    ACTIVATOR,
    OVERLAY,
    DASHBOARD,
];

/// The metrics of all groups.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    GROUPS.iter().flat_map(|group| group.metrics)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_one_tenant_cluster_may_have_is_within_the_budget() {
        let most: usize = metrics().map(Metric::series_per_tenant).sum();
        assert!(most <= BUDGET, "{most}");
        for metric in metrics() {
            let is_of_one = metric.labels.contains(&TENANT);
            assert_eq!(metric.per_tenant > 0, is_of_one, "{}", metric.name);
        }
    }

    #[test]
    fn names_follow_the_guidelines() {
        let mut names = BTreeSet::new();
        for Metric {
            name, kind, help, ..
        } in metrics()
        {
            assert!(names.insert(name), "{name} is there twice");
            let is_ours = name.starts_with("covey_") || name.starts_with("process_");
            assert!(is_ours, "{name}");
            let is_counter = *kind == Kind::Counter;
            assert_eq!(name.ends_with("_total"), is_counter, "{name}");
            assert!(!help.ends_with('.') && !help.is_empty(), "{name}");
            if let Kind::Histogram { buckets } = kind {
                assert!(*buckets <= 14, "{name}");
                assert!(name.ends_with("_seconds"), "{name}");
            }
        }
    }

    #[test]
    fn no_label_is_of_what_there_may_be_any_number_of() {
        let refused = ["pod", "machine", "node", "user", "message", "path", "uid"];
        for metric in metrics() {
            for (label, values) in metric.labels {
                assert!(!refused.contains(label), "{}: {label}", metric.name);
                assert!(!values.is_empty(), "{}: {label}", metric.name);
            }
        }
    }
}
