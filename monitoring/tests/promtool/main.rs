//! Prometheus' own tool reads the rules, and plays for each alert a case in which it fires and one in which it does not.
//!
//! Long because each alert has its cases here.
//! Invariant: no alert is without either.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use lab::programs::Program;
use monitoring::rule::Severity::{Page, Ticket};
use monitoring::rule::{self, Recording, RuleGroup};
use monitoring::rules;

use crate::case::{ASLEEP, Case, case};

mod adapters;
mod case;

const OK: &str = r#"covey_tenant_probe_requests_total{tenant="t",via="service",result="ok"}"#;
const FAILED: &str =
    r#"covey_tenant_probe_requests_total{tenant="t",via="service",result="connect"}"#;
const OBJECTIVE: (&str, &str) = (
    r#"covey_tenant_availability_objective_ratio{tenant="t"}"#,
    "0.999x400",
);
const LEAF: &str =
    r#"covey_tenant_certificate_not_after_timestamp_seconds{tenant="t",kind="leaf"}"#;
const AUTHORITY: &str =
    r#"covey_tenant_certificate_not_after_timestamp_seconds{tenant="t",kind="authority"}"#;
const SIZE: &str = r#"etcd_mvcc_db_total_size_in_bytes{tenant="t",pod="etcd-0"}"#;
const QUOTA: &str = r#"etcd_server_quota_backend_bytes{tenant="t",pod="etcd-0"}"#;

/// Cases of all but adapters.
const CASES: &[Case] = &[
    case(
        "CoveyTenantErrorBudgetBurn",
        Page,
        true,
        90,
        &[OBJECTIVE, (OK, "0+3x400"), (FAILED, "0+3x400")],
    ),
    case(
        "CoveyTenantErrorBudgetBurn",
        Page,
        false,
        90,
        &[OBJECTIVE, (OK, "0+6x400"), (FAILED, "0x400")],
    ),
    // One of two hundred fails: too few to be called for, too many for thirty days.
    case(
        "CoveyTenantErrorBudgetBurn",
        Ticket,
        true,
        300,
        &[OBJECTIVE, (OK, "0+199x400"), (FAILED, "0+1x400")],
    ),
    case(
        "CoveyTenantErrorBudgetBurn",
        Page,
        false,
        300,
        &[OBJECTIVE, (OK, "0+199x400"), (FAILED, "0+1x400")],
    ),
    case(
        "CoveyTenantErrorBudgetBurn",
        Ticket,
        false,
        300,
        &[OBJECTIVE, (OK, "0+6x400"), (FAILED, "0x400")],
    ),
    case(
        "CoveyTenantDown",
        Page,
        true,
        30,
        &[(OK, "0x60"), (FAILED, "0+6x60")],
    ),
    case(
        "CoveyTenantDown",
        Page,
        false,
        30,
        &[(OK, "0+6x60"), (FAILED, "0x60")],
    ),
    case(
        "CoveyEndpointUnreachable",
        Ticket,
        true,
        30,
        &[(r#"covey_tenant_condition{tenant="t",type="Ready"}"#, "1x60")],
    ),
    case(
        "CoveyEndpointUnreachable",
        Ticket,
        false,
        30,
        &[
            (r#"covey_tenant_condition{tenant="t",type="Ready"}"#, "1x60"),
            (
                r#"covey_tenant_condition{tenant="t",type="EndpointReachable"}"#,
                "1x60",
            ),
        ],
    ),
    case(
        "CoveyTenantNotReadyInTime",
        Ticket,
        true,
        30,
        &[(r#"covey_tenant_state{tenant="t",state="starting"}"#, "1x60")],
    ),
    case(
        "CoveyTenantNotReadyInTime",
        Ticket,
        false,
        30,
        &[(r#"covey_tenant_state{tenant="t",state="serving"}"#, "1x60")],
    ),
    // Time begins at zero: 13, 2 and 100 days.
    case(
        "CoveyCertificateExpires",
        Ticket,
        true,
        30,
        &[(LEAF, "1123200x60")],
    ),
    case(
        "CoveyCertificateExpires",
        Page,
        true,
        30,
        &[(LEAF, "172800x60")],
    ),
    case(
        "CoveyCertificateExpires",
        Page,
        false,
        30,
        &[(LEAF, "1123200x60")],
    ),
    case(
        "CoveyCertificateExpires",
        Ticket,
        false,
        30,
        &[(LEAF, "8640000x60")],
    ),
    case(
        "CoveyAuthorityExpires",
        Ticket,
        true,
        30,
        &[(AUTHORITY, "8640000x60")],
    ),
    case(
        "CoveyAuthorityExpires",
        Ticket,
        false,
        30,
        &[(AUTHORITY, "157680000x60")],
    ),
    case(
        "CoveyEtcdNoLeader",
        Page,
        true,
        30,
        &[(r#"etcd_server_has_leader{tenant="t",pod="etcd-0"}"#, "0x60")],
    ),
    case(
        "CoveyEtcdNoLeader",
        Page,
        false,
        30,
        &[(r#"etcd_server_has_leader{tenant="t",pod="etcd-0"}"#, "1x60")],
    ),
    case(
        "CoveyEtcdMemberMissing",
        Ticket,
        true,
        40,
        &[(
            r#"covey_tenant_condition{tenant="t",type="EtcdReady"}"#,
            "0x60",
        )],
    ),
    case(
        "CoveyEtcdMemberMissing",
        Ticket,
        false,
        40,
        &[
            (
                r#"covey_tenant_condition{tenant="t",type="EtcdReady"}"#,
                "0x60",
            ),
            ASLEEP,
        ],
    ),
    case(
        "CoveyEtcdSpace",
        Ticket,
        true,
        30,
        &[(SIZE, "85x60"), (QUOTA, "100x60")],
    ),
    case(
        "CoveyEtcdSpace",
        Ticket,
        false,
        30,
        &[(SIZE, "50x60"), (QUOTA, "100x60")],
    ),
    case(
        "CoveyEtcdSpace",
        Page,
        true,
        30,
        &[(SIZE, "97x60"), (QUOTA, "100x60")],
    ),
    case(
        "CoveyEtcdSpace",
        Page,
        false,
        30,
        &[(SIZE, "85x60"), (QUOTA, "100x60")],
    ),
    case(
        "CoveyEtcdSlowDisk",
        Ticket,
        true,
        30,
        &[
            (
                r#"etcd_disk_wal_fsync_duration_seconds_bucket{tenant="t",le="0.1"}"#,
                "0+1x60",
            ),
            (
                r#"etcd_disk_wal_fsync_duration_seconds_bucket{tenant="t",le="1"}"#,
                "0+10x60",
            ),
            (
                r#"etcd_disk_wal_fsync_duration_seconds_bucket{tenant="t",le="+Inf"}"#,
                "0+10x60",
            ),
        ],
    ),
    case(
        "CoveyEtcdSlowDisk",
        Page,
        true,
        30,
        &[
            (
                r#"etcd_disk_wal_fsync_duration_seconds_bucket{tenant="t",le="1"}"#,
                "0+1x60",
            ),
            (
                r#"etcd_disk_wal_fsync_duration_seconds_bucket{tenant="t",le="4"}"#,
                "0+10x60",
            ),
            (
                r#"etcd_disk_wal_fsync_duration_seconds_bucket{tenant="t",le="+Inf"}"#,
                "0+10x60",
            ),
        ],
    ),
    case(
        "CoveyEtcdSlowDisk",
        Ticket,
        false,
        30,
        &[
            (
                r#"etcd_disk_wal_fsync_duration_seconds_bucket{tenant="t",le="0.1"}"#,
                "0+10x60",
            ),
            (
                r#"etcd_disk_wal_fsync_duration_seconds_bucket{tenant="t",le="+Inf"}"#,
                "0+10x60",
            ),
        ],
    ),
    case(
        "CoveyEtcdSlowDisk",
        Page,
        false,
        30,
        &[
            (
                r#"etcd_disk_wal_fsync_duration_seconds_bucket{tenant="t",le="0.1"}"#,
                "0+1x60",
            ),
            (
                r#"etcd_disk_wal_fsync_duration_seconds_bucket{tenant="t",le="1"}"#,
                "0+10x60",
            ),
            (
                r#"etcd_disk_wal_fsync_duration_seconds_bucket{tenant="t",le="+Inf"}"#,
                "0+10x60",
            ),
        ],
    ),
    case(
        "CoveyEtcdGrows",
        Ticket,
        true,
        300,
        &[(SIZE, "0+1x400"), (QUOTA, "500x400")],
    ),
    case(
        "CoveyEtcdGrows",
        Ticket,
        false,
        300,
        &[(SIZE, "100x400"), (QUOTA, "500x400")],
    ),
    case(
        "CoveyApiErrors",
        Ticket,
        true,
        30,
        &[
            (
                r#"apiserver_request_total{tenant="t",code="500"}"#,
                "0+1x60",
            ),
            (
                r#"apiserver_request_total{tenant="t",code="200"}"#,
                "0+9x60",
            ),
        ],
    ),
    case(
        "CoveyApiErrors",
        Ticket,
        false,
        30,
        &[
            (r#"apiserver_request_total{tenant="t",code="500"}"#, "0x60"),
            (
                r#"apiserver_request_total{tenant="t",code="200"}"#,
                "0+9x60",
            ),
        ],
    ),
    case(
        "CoveyApiSlow",
        Ticket,
        true,
        30,
        &[
            (
                r#"apiserver_request_sli_duration_seconds_bucket{tenant="t",verb="GET",le="1"}"#,
                "0+1x60",
            ),
            (
                r#"apiserver_request_sli_duration_seconds_bucket{tenant="t",verb="GET",le="5"}"#,
                "0+10x60",
            ),
            (
                r#"apiserver_request_sli_duration_seconds_bucket{tenant="t",verb="GET",le="+Inf"}"#,
                "0+10x60",
            ),
        ],
    ),
    // Lists may take longer.
    case(
        "CoveyApiSlow",
        Ticket,
        false,
        30,
        &[
            (
                r#"apiserver_request_sli_duration_seconds_bucket{tenant="t",verb="LIST",le="1"}"#,
                "0+1x60",
            ),
            (
                r#"apiserver_request_sli_duration_seconds_bucket{tenant="t",verb="LIST",le="5"}"#,
                "0+10x60",
            ),
            (
                r#"apiserver_request_sli_duration_seconds_bucket{tenant="t",verb="LIST",le="+Inf"}"#,
                "0+10x60",
            ),
        ],
    ),
    case(
        "CoveyKonnectivityDown",
        Page,
        true,
        30,
        &[
            (
                r#"konnectivity_network_proxy_server_ready_backend_connections{tenant="t"}"#,
                "0x60",
            ),
            (r#"covey_tenant_nodes{tenant="t",state="ready"}"#, "2x60"),
        ],
    ),
    case(
        "CoveyKonnectivityDown",
        Page,
        false,
        30,
        &[
            (
                r#"konnectivity_network_proxy_server_ready_backend_connections{tenant="t"}"#,
                "0x60",
            ),
            (r#"covey_tenant_nodes{tenant="t",state="ready"}"#, "0x60"),
        ],
    ),
    case(
        "CoveyNodesMissing",
        Ticket,
        true,
        45,
        &[
            (r#"covey_tenant_nodes{tenant="t",state="ready"}"#, "1x60"),
            (r#"covey_tenant_nodes{tenant="t",state="desired"}"#, "3x60"),
        ],
    ),
    case(
        "CoveyNodesMissing",
        Ticket,
        false,
        45,
        &[
            (r#"covey_tenant_nodes{tenant="t",state="ready"}"#, "3x60"),
            (r#"covey_tenant_nodes{tenant="t",state="desired"}"#, "3x60"),
        ],
    ),
    case(
        "CoveyMachinesStuck",
        Ticket,
        true,
        45,
        &[(
            r#"covey_tenant_machines{tenant="t",phase="Joining"}"#,
            "1x60",
        )],
    ),
    case(
        "CoveyMachinesStuck",
        Ticket,
        false,
        45,
        &[(
            r#"covey_tenant_machines{tenant="t",phase="Running"}"#,
            "1x60",
        )],
    ),
    case(
        "CoveyPoolNoRoom",
        Ticket,
        true,
        30,
        &[(r#"covey_tenant_pools{tenant="t",state="no_room"}"#, "1x60")],
    ),
    case(
        "CoveyPoolNoRoom",
        Ticket,
        false,
        30,
        &[(r#"covey_tenant_pools{tenant="t",state="no_room"}"#, "0x60")],
    ),
    case("CoveyOperatorDown", Page, true, 30, &[]),
    case(
        "CoveyOperatorDown",
        Page,
        false,
        30,
        &[(r#"covey_leader{pod="a"}"#, "0x60")],
    ),
    case(
        "CoveyNoLeader",
        Page,
        true,
        30,
        &[
            (r#"covey_leader{pod="a"}"#, "0x60"),
            (r#"covey_shard_members{pod="a"}"#, "0x60"),
        ],
    ),
    case(
        "CoveyNoLeader",
        Page,
        false,
        30,
        &[
            (r#"covey_leader{pod="a"}"#, "0x60"),
            (r#"covey_leader{pod="b"}"#, "1x60"),
            (r#"covey_shard_members{pod="a"}"#, "0x60"),
        ],
    ),
    case(
        "CoveyOperatorErrors",
        Ticket,
        true,
        30,
        &[(
            r#"covey_reconcile_errors_total{controller="c",class="bug"}"#,
            "0+1x60",
        )],
    ),
    case(
        "CoveyOperatorErrors",
        Ticket,
        false,
        30,
        &[(
            r#"covey_reconcile_errors_total{controller="c",class="transient"}"#,
            "0+1x60",
        )],
    ),
    case(
        "CoveyQueueSlow",
        Ticket,
        true,
        30,
        &[
            (
                r#"covey_queue_wait_seconds_bucket{controller="c",le="10"}"#,
                "0+1x60",
            ),
            (
                r#"covey_queue_wait_seconds_bucket{controller="c",le="30"}"#,
                "0+10x60",
            ),
            (
                r#"covey_queue_wait_seconds_bucket{controller="c",le="+Inf"}"#,
                "0+10x60",
            ),
        ],
    ),
    case(
        "CoveyQueueSlow",
        Ticket,
        false,
        30,
        &[
            (
                r#"covey_queue_wait_seconds_bucket{controller="c",le="10"}"#,
                "0+10x60",
            ),
            (
                r#"covey_queue_wait_seconds_bucket{controller="c",le="+Inf"}"#,
                "0+10x60",
            ),
        ],
    ),
    case(
        "CoveyWebhookFails",
        Ticket,
        true,
        30,
        &[(
            r#"covey_admission_requests_total{kind="NodePool",result="error"}"#,
            "0+1x60",
        )],
    ),
    case(
        "CoveyWebhookFails",
        Ticket,
        false,
        30,
        &[(
            r#"covey_admission_requests_total{kind="NodePool",result="denied"}"#,
            "0+1x60",
        )],
    ),
];

/// All cases.
fn all() -> impl Iterator<Item = &'static Case> {
    CASES.iter().chain(adapters::CASES)
}

#[test]
fn every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() {
    let groups = rules::groups();
    let alerts = groups.iter().flat_map(|group| &group.alerts);
    let wanted: BTreeSet<_> = alerts.map(|alert| (alert.name, alert.severity)).collect();
    for fires in [true, false] {
        let cases = all().filter(|case| case.fires == fires);
        let played: BTreeSet<_> = cases.map(|case| (case.alert, case.severity)).collect();
        assert_eq!(played, wanted, "fires: {fires}");
    }
}

#[test]
fn rules_are_read_and_do_what_they_are_for() {
    let found = testkit::programs::reference_or_skip(Program::PROMETHEUS, "promtool");
    let Some(promtool) = found.unwrap() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("rules.yaml"),
        rule::file(&rules::groups()),
    )
    .unwrap();
    std::fs::write(folder.path().join("cases.yaml"), written(all())).unwrap();
    run(
        &promtool,
        folder.path(),
        &["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"],
    );
    run(&promtool, folder.path(), &["test", "rules", "cases.yaml"]);
}

#[test]
fn expressions_of_dashboards_are_read() {
    let found = testkit::programs::reference_or_skip(Program::PROMETHEUS, "promtool");
    let Some(promtool) = found.unwrap() else {
        return;
    };
    let mut recordings = Vec::new();
    for dashboard in monitoring::dashboards::all() {
        for (expression, _) in dashboard.panels.iter().flat_map(|panel| &panel.targets) {
            // As Grafana fills them in.
            let expression = expression
                .replace("$__rate_interval", "5m")
                .replace("$tenant", "covey-demo-0a1b2c3d11")
                .replace("$job", "covey-metrics|other");
            recordings.push(Recording {
                name: format!("panel:{}:{}", dashboard.name, recordings.len()),
                expression,
            });
        }
    }
    let group = RuleGroup {
        name: "panels",
        recordings,
        alerts: Vec::new(),
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("panels.yaml"), rule::file(&[group])).unwrap();
    let check = [
        "check",
        "rules",
        "--lint=all",
        "--lint-fatal",
        "panels.yaml",
    ];
    run(&promtool, folder.path(), &check);
}

fn run(promtool: &Path, folder: &Path, args: &[&str]) {
    let output = Command::new(promtool)
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "promtool {}:\n{}{}",
        args.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The cases as promtool reads them. It is asked for the series `ALERTS`, which Prometheus has for whatever fires, because
/// of alerts themselves it compares every annotation.
fn written(cases: impl Iterator<Item = &'static Case>) -> String {
    let mut text = "rule_files: [rules.yaml]\nevaluation_interval: 1m\ntests:\n".to_owned();
    for case in cases {
        let info = [(
            r#"covey_tenant_info{tenant="t",namespace="a",name="demo",pod="p"}"#,
            "1x400",
        )];
        let _ = writeln!(text, "  - interval: 1m\n    input_series:");
        for (series, values) in info.iter().chain(case.series) {
            let _ = writeln!(
                text,
                "      - series: '{series}'\n        values: '{values}'"
            );
        }
        let Case {
            alert,
            at,
            severity,
            fires,
            ..
        } = case;
        let severity = severity.as_str();
        let of = format!(r#"alertname="{alert}",alertstate="firing",severity="{severity}""#);
        let _ = writeln!(
            text,
            "    promql_expr_test:\n      - expr: 'group by (alertname) (ALERTS{{{of}}})'\n        eval_time: {at}m"
        );
        match fires {
            true => {
                let labels = format!(r#"{{alertname="{alert}"}}"#);
                let _ = writeln!(
                    text,
                    "        exp_samples:\n          - labels: '{labels}'\n            value: 1"
                );
            }
            false => text.push_str("        exp_samples: []\n"),
        }
    }
    text
}
