//! Metrics of the programs in a tenant namespace that stand between both clusters.
//!
//! Invariant: none of them has the label `tenant` by itself, which whoever scrapes them sets: a program of one tenant
//! cluster says nothing of another one.

use crate::metric::{Group, Kind, Metric};

/// Of the cloud controller manager.
pub const CLOUD_CONTROLLER: Group = Group {
    title: "Cloud controller manager",
    programs: &["ccm"],
    metrics: &[
        Metric {
            name: "covey_ccm_leader",
            kind: Kind::Gauge,
            help: "1 where this replica may write, else 0",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "covey_ccm_load_balancers",
            kind: Kind::Gauge,
            help: "Load balancers of Services of the tenant cluster",
            labels: &[(
                "state",
                "`ready`, `waiting` (without an address) or `leaving`",
            )],
            per_tenant: 0,
        },
        Metric {
            name: "covey_ccm_nodes",
            kind: Kind::Gauge,
            help: "Nodes of the tenant cluster",
            labels: &[("state", "`initialized` or `uninitialized`")],
            per_tenant: 0,
        },
        Metric {
            name: "covey_ccm_oldest_pending_seconds",
            kind: Kind::Gauge,
            help: "How long the first node, Service or address has been waited for that is not as it is to be",
            labels: &[(
                "object",
                "`node`, `service`, or `address` of a load balancer that was made; shown by the replica that leads",
            )],
            per_tenant: 0,
        },
    ],
};

/// Of the CSI driver.
pub const CSI: Group = Group {
    title: "CSI driver",
    programs: &["csi-proxy"],
    metrics: &[
        Metric {
            name: "covey_csi_calls_total",
            kind: Kind::Counter,
            help: "Calls of the sidecars, by what was answered",
            labels: &[
                (
                    "method",
                    "a call of the service Controller of CSI, such as `create_volume`",
                ),
                ("code", "as gRPC names it, such as `OK` or `ABORTED`"),
            ],
            per_tenant: 0,
        },
        Metric {
            name: "covey_csi_call_duration_seconds",
            kind: Kind::Histogram { buckets: 7 },
            help: "How long an answer to a sidecar took",
            labels: &[("method", "as of `covey_csi_calls_total`")],
            per_tenant: 0,
        },
        Metric {
            name: "covey_csi_attachments",
            kind: Kind::Gauge,
            help: "Volumes by what becomes of them on a machine",
            labels: &[("state", "`attached`, `attaching` or `detaching`")],
            per_tenant: 0,
        },
        Metric {
            name: "covey_csi_oldest_attach_seconds",
            kind: Kind::Gauge,
            help: "How long the first volume has been on its way to or from a machine, as this process has seen it",
            labels: &[],
            per_tenant: 0,
        },
    ],
};

/// Of the autoscaler's adapter.
pub const AUTOSCALER: Group = Group {
    title: "Autoscaler's adapter",
    programs: &["autoscaler"],
    metrics: &[
        Metric {
            name: "covey_autoscaler_calls_total",
            kind: Kind::Counter,
            help: "Calls of the Cluster Autoscaler, by what was answered",
            labels: &[
                ("method", "a call of externalgrpc, such as `refresh`"),
                ("code", "as gRPC names it, such as `OK` or `UNAVAILABLE`"),
            ],
            per_tenant: 0,
        },
        Metric {
            name: "covey_autoscaler_refused_total",
            kind: Kind::Counter,
            help: "Changes of the size of a node pool that were not made, by why",
            labels: &[
                (
                    "method",
                    "`IncreaseSize`, `DeleteNodes` or `DecreaseTargetSize`",
                ),
                (
                    "reason",
                    "`bounds`, `room`, `invalid`, `unknown`, `contended` or `request` (that to the API failed)",
                ),
            ],
            per_tenant: 0,
        },
        Metric {
            name: "covey_autoscaler_last_call_timestamp_seconds",
            kind: Kind::Gauge,
            help: "When the Cluster Autoscaler called last; before it did, when this process began",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "covey_autoscaler_world_age_seconds",
            kind: Kind::Gauge,
            help: "How long nothing has been heard of node pools or machines though a watch broke off, else 0",
            labels: &[],
            per_tenant: 0,
        },
        Metric {
            name: "covey_autoscaler_pools",
            kind: Kind::Gauge,
            help: "Node pools that the Cluster Autoscaler sizes",
            labels: &[("state", "`free`, `at_limit` or `no_room`")],
            per_tenant: 0,
        },
    ],
};
