//! The alerts, but for those of the error budget.
//!
//! Those of a tenant cluster's own parts (`etcd_…`, `apiserver_…`, `konnectivity_…`), and of what stands between both
//! clusters (`covey_ccm_…`, `covey_csi_…`, `covey_autoscaler_…`), say nothing where these are not scraped. Source of the
//! thresholds of the first: etcd-mixin and kubernetes-mixin.
//! Invariant: each has a section of its own in docs/runbooks/alerts.md.

use crate::rule::{Alert, RuleGroup, Severity};

/// Nothing is expected of a tenant cluster that is this.
const AT_REST: &str = "unless on (tenant) covey_tenant_state{state=~\"asleep|paused|deleting\"}";
const DAY: u32 = 24 * 3600;

/// All of them.
pub(crate) fn groups() -> Vec<RuleGroup> {
    let group = |name, alerts| RuleGroup {
        name,
        recordings: Vec::new(),
        alerts,
    };
    vec![
        group("covey-tenants", tenants()),
        group("covey-certificates", certificates()),
        group("covey-etcd", etcd()),
        group("covey-api", api()),
        group("covey-nodes", nodes()),
        group("covey-adapters", adapters()),
        group("covey-operator", operator()),
    ]
}

/// An expression by `tenant`, with the user's namespace and the name of the TenantCluster. The value stays.
pub(crate) fn named(expression: &str) -> String {
    format!("(\n{expression}\n) * on (tenant) group_left (namespace, name) covey:tenant_info")
}

fn alert(name: &'static str, severity: Severity, pending: &'static str, expression: &str) -> Alert {
    Alert {
        name,
        expression: expression.to_owned(),
        pending,
        severity,
        labels: Vec::new(),
        summary: "",
        description: "",
    }
}

impl Alert {
    fn says(self, summary: &'static str, description: &'static str) -> Self {
        Self {
            summary,
            description,
            ..self
        }
    }
}

/// One of a tenant cluster.
fn of_one(
    name: &'static str,
    severity: Severity,
    pending: &'static str,
    expression: &str,
) -> Alert {
    alert(name, severity, pending, &named(expression))
}

fn tenants() -> Vec<Alert> {
    let down = "sum by (tenant) (increase(covey_tenant_probe_requests_total{result=\"ok\"}[3m])) == 0\n\
                and on (tenant) sum by (tenant) (increase(covey_tenant_probe_requests_total[3m])) > 0";
    let unreachable = format!(
        "max by (tenant) (covey_tenant_condition{{type=\"Ready\"}}) == 1\n\
         unless on (tenant) covey_tenant_condition{{type=\"EndpointReachable\"}} == 1\n{AT_REST}"
    );
    let late = "max by (tenant) (covey_tenant_state{state=\"starting\"}) == 1";
    vec![
        of_one("CoveyTenantDown", Severity::Page, "1m", down).says(
            "{{ $labels.namespace }}/{{ $labels.name }} does not answer",
            "No probe of its API was answered for three minutes.",
        ),
        of_one(
            "CoveyEndpointUnreachable",
            Severity::Ticket,
            "5m",
            &unreachable,
        )
        .says(
            "{{ $labels.namespace }}/{{ $labels.name }} is not reached at its endpoint",
            "The operator reaches its API at its Service, and not where it is published.",
        ),
        of_one("CoveyTenantNotReadyInTime", Severity::Ticket, "10m", late).says(
            "{{ $labels.namespace }}/{{ $labels.name }} does not become Ready",
            "It was made ten minutes ago, and its API has not answered yet.",
        ),
    ]
}

fn certificates() -> Vec<Alert> {
    let ends = |kind: &str, days: u32| {
        let seconds = days * DAY;
        format!(
            "min by (tenant) (covey_tenant_certificate_not_after_timestamp_seconds{{kind=\"{kind}\"}}) - time() < \
             {seconds}"
        )
    };
    let leaf = |severity, days| {
        of_one("CoveyCertificateExpires", severity, "10m", &ends("leaf", days)).says(
            "A certificate of {{ $labels.namespace }}/{{ $labels.name }} ends",
            "The first of its certificates ends in {{ $value | humanizeDuration }}; it should have been renewed when a \
             third of its life was left.",
        )
    };
    let authority = ends("authority", 180);
    vec![
        leaf(Severity::Ticket, 14),
        leaf(Severity::Page, 3),
        of_one("CoveyAuthorityExpires", Severity::Ticket, "10m", &authority).says(
            "An authority of {{ $labels.namespace }}/{{ $labels.name }} ends",
            "The first of its authorities ends in {{ $value | humanizeDuration }}, and is not turned by itself.",
        ),
    ]
}

fn etcd() -> Vec<Alert> {
    let missing =
        format!("max by (tenant) (covey_tenant_condition{{type=\"EtcdReady\"}}) == 0\n{AT_REST}");
    let used = "max by (tenant) (etcd_mvcc_db_total_size_in_bytes{tenant!=\"\"} / \
                etcd_server_quota_backend_bytes{tenant!=\"\"})";
    let fsync = "histogram_quantile(0.99, sum by (tenant, le) \
                 (rate(etcd_disk_wal_fsync_duration_seconds_bucket{tenant!=\"\"}[5m])))";
    let grows = "max by (tenant) (predict_linear(etcd_mvcc_db_total_size_in_bytes{tenant!=\"\"}[4h], 4 * 3600))\n\
                 > on (tenant) max by (tenant) (etcd_server_quota_backend_bytes{tenant!=\"\"})";
    let space = |severity, above: &str| {
        of_one("CoveyEtcdSpace", severity, "5m", &format!("{used} > {above}")).says(
            "etcd of {{ $labels.namespace }}/{{ $labels.name }} is nearly full",
            "{{ $value | humanizePercentage }} of its quota are used; it refuses writes when all is.",
        )
    };
    let disk = |severity, above: &str| {
        of_one(
            "CoveyEtcdSlowDisk",
            severity,
            "10m",
            &format!("{fsync} > {above}"),
        )
        .says(
            "A disk of etcd of {{ $labels.namespace }}/{{ $labels.name }} is slow",
            "One in a hundred of its syncs takes longer than {{ $value | humanizeDuration }}.",
        )
    };
    vec![
        of_one(
            "CoveyEtcdNoLeader",
            Severity::Page,
            "1m",
            "min by (tenant) (etcd_server_has_leader{tenant!=\"\"}) == 0",
        )
        .says(
            "etcd of {{ $labels.namespace }}/{{ $labels.name }} has no leader",
            "A member of its etcd knows of no leader, so that nothing can be written.",
        ),
        of_one("CoveyEtcdMemberMissing", Severity::Ticket, "20m", &missing).says(
            "etcd of {{ $labels.namespace }}/{{ $labels.name }} lacks a member",
            "A member of its etcd has not been ready for twenty minutes.",
        ),
        space(Severity::Ticket, "0.8"),
        space(Severity::Page, "0.95"),
        disk(Severity::Ticket, "0.5"),
        disk(Severity::Page, "1"),
        of_one("CoveyEtcdGrows", Severity::Ticket, "10m", grows).says(
            "etcd of {{ $labels.namespace }}/{{ $labels.name }} will be full soon",
            "If it grows as in the last four hours, its quota is used up in four more.",
        ),
    ]
}

fn api() -> Vec<Alert> {
    let errors = "sum by (tenant) (rate(apiserver_request_total{tenant!=\"\",code=~\"5..\"}[5m]))\n\
                  / sum by (tenant) (rate(apiserver_request_total{tenant!=\"\"}[5m])) > 0.03";
    let slow = "histogram_quantile(0.99, sum by (tenant, le) \
                (rate(apiserver_request_sli_duration_seconds_bucket{tenant!=\"\",verb!~\"CONNECT|LIST|WATCH\"}[5m]))) > 1";
    let cut = "sum by (tenant) (konnectivity_network_proxy_server_ready_backend_connections{tenant!=\"\"}) == 0\n\
               and on (tenant) max by (tenant) (covey_tenant_nodes{state=\"ready\"}) > 0";
    vec![
        of_one("CoveyApiErrors", Severity::Ticket, "10m", errors).says(
            "The API of {{ $labels.namespace }}/{{ $labels.name }} fails",
            "{{ $value | humanizePercentage }} of its answers are errors of the server.",
        ),
        of_one("CoveyApiSlow", Severity::Ticket, "10m", slow).says(
            "The API of {{ $labels.namespace }}/{{ $labels.name }} is slow",
            "One in a hundred of its answers takes longer than {{ $value | humanizeDuration }}; one second is the \
             target.",
        ),
        of_one("CoveyKonnectivityDown", Severity::Page, "5m", cut).says(
            "The API of {{ $labels.namespace }}/{{ $labels.name }} reaches no node",
            "It has ready nodes, and no agent on them is connected: logs, exec and webhooks of its own fail.",
        ),
    ]
}

fn nodes() -> Vec<Alert> {
    let missing = format!(
        "max by (tenant) (covey_tenant_nodes{{state=\"ready\"}})\n\
         < on (tenant) max by (tenant) (covey_tenant_nodes{{state=\"desired\"}})\n{AT_REST}"
    );
    let stuck = "sum by (tenant) (covey_tenant_machines{phase=~\"Booting|Joining\"}) > 0";
    let full = "max by (tenant) (covey_tenant_pools{state=\"no_room\"}) > 0";
    vec![
        of_one("CoveyNodesMissing", Severity::Ticket, "30m", &missing).says(
            "{{ $labels.namespace }}/{{ $labels.name }} lacks nodes",
            "Its node pools have had fewer ready nodes than they are to have for half an hour.",
        ),
        of_one("CoveyMachinesStuck", Severity::Ticket, "30m", stuck).says(
            "Machines of {{ $labels.namespace }}/{{ $labels.name }} do not join",
            "{{ $value }} of its machines boot or join; some have for half an hour, or are made anew again and again.",
        ),
        of_one("CoveyPoolNoRoom", Severity::Ticket, "15m", full).says(
            "There is no room for machines of {{ $labels.namespace }}/{{ $labels.name }}",
            "{{ $value }} of its node pools lack room in the management cluster, or quota.",
        ),
    ]
}

/// Of what stands between both clusters. How long each has to be so is more than a start takes.
fn adapters() -> Vec<Alert> {
    let behind = format!(
        "max by (tenant, object) (covey_ccm_oldest_pending_seconds{{tenant!=\"\"}}) > 60\n{AT_REST}"
    );
    let headless = format!("max by (tenant) (covey_ccm_leader{{tenant!=\"\"}}) == 0\n{AT_REST}");
    let stuck = format!(
        "max by (tenant) (covey_csi_oldest_attach_seconds{{tenant!=\"\"}}) > 120\n{AT_REST}"
    );
    let stands = format!(
        "(time() - max by (tenant) (covey_autoscaler_last_call_timestamp_seconds{{tenant!=\"\"}}) > 120\n\
         or max by (tenant) (covey_autoscaler_world_age_seconds{{tenant!=\"\"}}) > 120)\n{AT_REST}"
    );
    vec![
        of_one("CoveyCcmBehind", Severity::Ticket, "5m", &behind).says(
            "Load balancers or nodes of {{ $labels.namespace }}/{{ $labels.name }} lag",
            "What its cloud controller manager is to do for a {{ $labels.object }} has not been done for \
             {{ $value | humanizeDuration }}.",
        ),
        of_one("CoveyCcmNoLeader", Severity::Ticket, "5m", &headless).says(
            "Nobody sees to load balancers and nodes of {{ $labels.namespace }}/{{ $labels.name }}",
            "No pod of its cloud controller manager leads: new load balancers get no address, and dead machines stay \
             in those that there are.",
        ),
        of_one("CoveyCsiAttachStuck", Severity::Ticket, "3m", &stuck).says(
            "A volume of {{ $labels.namespace }}/{{ $labels.name }} is stuck",
            "One of its volumes has been on its way to or from a machine for {{ $value | humanizeDuration }}.",
        ),
        of_one("CoveyAutoscalerStands", Severity::Ticket, "2m", &stands).says(
            "Node pools of {{ $labels.namespace }}/{{ $labels.name }} are not sized",
            "Its Cluster Autoscaler has not called the adapter, or the adapter heard nothing of node pools, for \
             {{ $value | humanizeDuration }}.",
        ),
    ]
}

fn operator() -> Vec<Alert> {
    let leaders = "sum(covey_leader) != on () clamp_min(max(covey_shard_members), 1)";
    let bugs = "sum by (controller) (increase(covey_reconcile_errors_total{tenant=\"\",class=\"bug\"}[10m])) > 0";
    let slow = "histogram_quantile(0.95, sum by (controller, le) (rate(covey_queue_wait_seconds_bucket{tenant=\"\"}[10m]))) > 10";
    let webhook = "sum by (kind) (rate(covey_admission_requests_total{result=\"error\"}[5m])) > 0";
    vec![
        alert("CoveyOperatorDown", Severity::Page, "5m", "absent(covey_leader)").says(
            "No operator of Covey's is there",
            "No pod of covey-operator was scraped for five minutes: tenant clusters run on, and nothing is changed or \
             mended.",
        ),
        alert("CoveyNoLeader", Severity::Page, "2m", leaders).says(
            "Not as many operators lead as should",
            "{{ $value }} operators lead; one should, or as many as share the work.",
        ),
        alert("CoveyOperatorErrors", Severity::Ticket, "", bugs).says(
            "The operator found an error of its own",
            "Reconciles of {{ $labels.controller }} failed by errors of class bug, which are to be reported.",
        ),
        alert("CoveyQueueSlow", Severity::Ticket, "10m", slow).says(
            "The operator does not keep up",
            "One in twenty objects of {{ $labels.controller }} waits for {{ $value | humanizeDuration }} before it is \
             reconciled.",
        ),
        alert("CoveyWebhookFails", Severity::Ticket, "5m", webhook).says(
            "The webhook is sent what it cannot read",
            "Requests about {{ $labels.kind }} are no reviews, are too large, or do not come to an end.",
        ),
    ]
}
