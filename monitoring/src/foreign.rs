//! Metrics of others that rules and dashboards ask for: those of a tenant cluster's own parts, where they are scraped.
//!
//! Sources: kube-apiserver and kubelet, `kubernetes/kubernetes` `test/instrumentation/documentation`; etcd,
//! `etcd.io/docs/latest/metrics`; konnectivity, `apiserver-network-proxy` `pkg/server/metrics`.
//! Invariant: each has the label `tenant` by relabelling, the tenant namespace, or a rule would mix tenant clusters.

/// Names of series.
pub const SERIES: &[&str] = &[
    "apiserver_current_inflight_requests",
    "apiserver_request_sli_duration_seconds_bucket",
    "apiserver_request_total",
    "etcd_disk_backend_commit_duration_seconds_bucket",
    "etcd_disk_wal_fsync_duration_seconds_bucket",
    "etcd_mvcc_db_total_size_in_bytes",
    "etcd_server_has_leader",
    "etcd_server_leader_changes_seen_total",
    "etcd_server_quota_backend_bytes",
    "konnectivity_network_proxy_server_ready_backend_connections",
];
