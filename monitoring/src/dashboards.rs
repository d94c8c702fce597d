//! The dashboards: all tenant clusters, one of them, and the operator.
//!
//! Long because each panel stands here with what it asks for.
//! Invariant: one of a tenant cluster asks for nothing of another; what is not scraped leaves a panel empty, and no more.

use crate::alerts::named;
use crate::dashboard::{Dashboard, Form, Panel};
use crate::rules::errors;

/// The tenant cluster that was chosen.
const TENANT: &str = "tenant=\"$tenant\"";
/// What a series of a tenant cluster is called.
const NAMED: &str = "{{namespace}}/{{name}}";

/// All of them.
#[must_use]
pub fn all() -> Vec<Dashboard> {
    vec![fleet(), tenant(), operator()]
}

fn panel(title: &'static str, unit: &'static str, targets: &[(&str, &'static str)]) -> Panel {
    Panel {
        title,
        description: "",
        form: Form::Lines,
        unit,
        targets: targets
            .iter()
            .map(|(expression, legend)| ((*expression).to_owned(), *legend))
            .collect(),
    }
}

impl Panel {
    fn of(self, form: Form) -> Self {
        Self { form, ..self }
    }

    fn saying(self, description: &'static str) -> Self {
        Self {
            description,
            ..self
        }
    }
}

/// The ten for which it is most.
fn most(expression: &str) -> String {
    format!("topk(10, {})", named(expression))
}

fn fleet() -> Dashboard {
    let budget = most(&format!(
        "{} / on (tenant) covey:error_budget",
        errors("3d")
    ));
    let cores = most("max by (tenant) (covey_tenant_requests_cores)");
    let memory = most("max by (tenant) (covey_tenant_requests_memory_bytes)");
    let ends = "min by (tenant) (covey_tenant_certificate_not_after_timestamp_seconds) - time()";
    let ends = format!("bottomk(10, {})", named(ends));
    let ready = "histogram_quantile(0.5, sum by (le) \
                 (rate(covey_time_to_ready_seconds_bucket{controller=\"tenant_cluster\"}[1h])))";
    let ready_95 = ready.replace("0.5", "0.95");
    Dashboard {
        name: "fleet",
        title: "Covey / Fleet",
        variable: None,
        is_multiple: false,
        panels: vec![
            panel("Tenant clusters", "short", &[("sum by (state) (covey_tenant_state)", "{{state}}")]),
            panel("Versions", "short", &[("count by (version) (covey_tenant_info)", "{{version}}")]),
            panel(
                "Not Ready",
                "short",
                &[("count(covey_tenant_condition{type=\"Ready\"} == 0) or vector(0)", "not Ready")],
            )
            .of(Form::Number)
            .saying("Those that sleep are among them."),
            panel("Worst ten by error budget", "percentunit", &[(&budget, NAMED)])
                .of(Form::Bars)
                .saying("What the last three days alone would use of thirty days' errors, in shares of what is allowed."),
            panel("Starts", "short", &[("sum by (state) (covey_starts)", "{{state}}")]),
            panel("Time to Ready", "s", &[(ready, "median"), (&ready_95, "95 %")])
                .saying("Of those that became Ready in the last hour."),
            panel("Nodes", "short", &[("sum by (state) (covey_tenant_nodes)", "{{state}}")]),
            panel("Machines", "short", &[("sum by (phase) (covey_tenant_machines)", "{{phase}}")]),
            panel("Node pools", "short", &[("sum by (state) (covey_tenant_pools)", "{{state}}")]),
            panel("Cores, most of ten", "short", &[(&cores, NAMED)]).of(Form::Bars),
            panel("Memory, most of ten", "bytes", &[(&memory, NAMED)]).of(Form::Bars),
            panel("Certificates that end first", "s", &[(&ends, NAMED)]).of(Form::Bars),
            panel(
                "Not shown",
                "short",
                &[("sum(covey_metrics_tenants_dropped)", "tenant clusters")],
            )
            .of(Form::Number)
            .saying("Above --metrics-tenants of the operator."),
        ],
    }
}

fn tenant() -> Dashboard {
    let mut panels = availability();
    panels.extend(control_plane());
    panels.extend(machines());
    panels.extend(adapters());
    Dashboard {
        name: "tenant",
        title: "Covey / Tenant cluster",
        variable: Some((
            "tenant",
            "Tenant",
            "label_values(covey_tenant_info, tenant)",
        )),
        is_multiple: false,
        panels,
    }
}

fn availability() -> Vec<Panel> {
    let available = format!("1 - avg_over_time({}{{{TENANT}}}[30d])", errors("5m"));
    let burns = |window: &str| {
        let errors = errors(window);
        format!("{errors}{{{TENANT}}} / on (tenant) covey:error_budget")
    };
    let results = format!(
        "sum by (result) (rate(covey_tenant_probe_requests_total{{{TENANT}}}[$__rate_interval]))"
    );
    let took = quantile(
        "0.99",
        "covey_tenant_probe_duration_seconds_bucket",
        "",
        "le",
    );
    vec![
        panel(
            "Availability, 30 days",
            "percentunit",
            &[(&available, "answered")],
        )
        .of(Form::Number),
        panel(
            "Error budget",
            "short",
            &[
                (&burns("1h"), "1 h"),
                (&burns("6h"), "6 h"),
                (&burns("1d"), "1 d"),
                (&burns("3d"), "3 d"),
            ],
        )
        .saying("How many times as fast as thirty days allow for."),
        panel("Probes", "reqps", &[(&results, "{{result}}")]),
        panel("Time of probes", "s", &[(&took, "99 %")]),
        panel(
            "Conditions",
            "short",
            &[(
                &format!("max by (type) (covey_tenant_condition{{{TENANT}}})"),
                "{{type}}",
            )],
        )
        .saying("1: True, 0: False."),
        panel(
            "Certificates",
            "s",
            &[(
                &format!(
                    "min by (kind) (covey_tenant_certificate_not_after_timestamp_seconds{{{TENANT}}}) - time()"
                ),
                "{{kind}}",
            )],
        ),
    ]
}

fn control_plane() -> Vec<Panel> {
    let rate = |by: &str, metric: &str, more: &str| {
        format!("sum by ({by}) (rate({metric}{{{TENANT}{more}}}[$__rate_interval]))")
    };
    let by_verb = rate("verb", "apiserver_request_total", "");
    let failing = rate("code", "apiserver_request_total", ",code!~\"2..\"");
    let slow = quantile(
        "0.99",
        "apiserver_request_sli_duration_seconds_bucket",
        ",verb!~\"CONNECT|WATCH\"",
        "verb, le",
    );
    let fsync = quantile(
        "0.99",
        "etcd_disk_wal_fsync_duration_seconds_bucket",
        "",
        "pod, le",
    );
    let commit = quantile(
        "0.99",
        "etcd_disk_backend_commit_duration_seconds_bucket",
        "",
        "pod, le",
    );
    let of = |metric: &str, by: &str| format!("max by ({by}) ({metric}{{{TENANT}}})");
    vec![
        panel("API: requests by verb", "reqps", &[(&by_verb, "{{verb}}")]),
        panel("API: answers but 2xx", "reqps", &[(&failing, "{{code}}")]),
        panel("API: time, 99 %", "s", &[(&slow, "{{verb}}")]),
        panel(
            "API: in flight",
            "short",
            &[(&of("apiserver_current_inflight_requests", "request_kind"), "{{request_kind}}")],
        ),
        panel(
            "etcd: size",
            "bytes",
            &[
                (&of("etcd_mvcc_db_total_size_in_bytes", "pod"), "{{pod}}"),
                (&of("etcd_server_quota_backend_bytes", "tenant"), "quota"),
            ],
        ),
        panel("etcd: disk, 99 %", "s", &[(&fsync, "{{pod}} fsync"), (&commit, "{{pod}} commit")]),
        panel(
            "etcd: leader",
            "short",
            &[
                (&of("etcd_server_has_leader", "pod"), "{{pod}} knows one"),
                (
                    &format!("max by (pod) (increase(etcd_server_leader_changes_seen_total{{{TENANT}}}[1h]))"),
                    "{{pod}} changes in an hour",
                ),
            ],
        ),
        panel(
            "Konnectivity",
            "short",
            &[(
                &format!(
                    "sum by (pod) (konnectivity_network_proxy_server_ready_backend_connections{{{TENANT}}})"
                ),
                "{{pod}}",
            )],
        )
        .saying("Agents on nodes that are connected."),
    ]
}

fn machines() -> Vec<Panel> {
    let of = |metric: &str, by: &str| format!("max by ({by}) ({metric}{{{TENANT}}})");
    vec![
        panel(
            "Nodes",
            "short",
            &[(&of("covey_tenant_nodes", "state"), "{{state}}")],
        ),
        panel(
            "Machines",
            "short",
            &[(&of("covey_tenant_machines", "phase"), "{{phase}}")],
        ),
        panel(
            "Node pools",
            "short",
            &[(&of("covey_tenant_pools", "state"), "{{state}}")],
        ),
        panel(
            "Cores of quotas",
            "short",
            &[(&of("covey_tenant_requests_cores", "tenant"), "cores")],
        ),
        panel(
            "Memory and storage of quotas",
            "bytes",
            &[
                (
                    &of("covey_tenant_requests_memory_bytes", "tenant"),
                    "memory",
                ),
                (
                    &of("covey_tenant_requests_storage_bytes", "tenant"),
                    "storage",
                ),
            ],
        ),
    ]
}

/// Of what stands between both clusters, where it is scraped.
fn adapters() -> Vec<Panel> {
    let of = |metric: &str, by: &str| format!("max by ({by}) ({metric}{{{TENANT}}})");
    let rate = |metric: &str, by: &str| {
        format!("sum by ({by}) (rate({metric}{{{TENANT}}}[$__rate_interval]))")
    };
    vec![
        panel(
            "Load balancers",
            "short",
            &[(&of("covey_ccm_load_balancers", "state"), "{{state}}")],
        ),
        panel(
            "Volumes on machines",
            "short",
            &[(&of("covey_csi_attachments", "state"), "{{state}}")],
        ),
        panel(
            "Longest lag",
            "s",
            &[
                (
                    &of("covey_ccm_oldest_pending_seconds", "object"),
                    "{{object}}",
                ),
                (&of("covey_csi_oldest_attach_seconds", "tenant"), "volume"),
            ],
        )
        .saying("Of what is not where it is to be: above a minute somebody waits for it."),
        panel(
            "Sizes that were refused",
            "cps",
            &[(
                &rate("covey_autoscaler_refused_total", "method, reason"),
                "{{method}} {{reason}}",
            )],
        )
        .saying("What the Cluster Autoscaler wanted of node pools and did not get."),
    ]
}

/// A quantile of a histogram of the tenant cluster that was chosen.
fn quantile(which: &str, buckets: &str, more: &str, by: &str) -> String {
    format!(
        "histogram_quantile({which}, sum by ({by}) (rate({buckets}{{{TENANT}{more}}}[$__rate_interval])))"
    )
}

fn operator() -> Dashboard {
    // What every panel here asks for, of the jobs that were chosen.
    let rate = |by: &str, metric: &str, more: &str| {
        format!("sum by ({by}) (rate({metric}{{job=~\"$job\"{more}}}[$__rate_interval]))")
    };
    let quantile = |which: &str, metric: &str, by: &str| {
        let buckets = rate(by, &format!("{metric}_bucket"), "");
        format!("histogram_quantile({which}, {buckets})")
    };
    let runs = "covey_reconcile_duration_seconds";
    let requests = "covey_kubernetes_requests_total";
    Dashboard {
        name: "operator",
        title: "Covey / Operator",
        variable: Some((
            "job",
            "Job",
            "label_values(covey_build_info{tenant=\"\"}, job)",
        )),
        is_multiple: true,
        panels: vec![
            panel(
                "Leaders",
                "short",
                &[("sum by (pod) (covey_leader{job=~\"$job\"})", "{{pod}}")],
            ),
            panel(
                "Objects that wait",
                "short",
                &[(
                    "max by (controller, reason) (covey_waiting_objects{job=~\"$job\"})",
                    "{{controller}} {{reason}}",
                )],
            )
            .saying(
                "By what they wait for. ApiUnreachable: the API answered before and does not now.",
            ),
            panel(
                "Failures by class",
                "cps",
                &[(
                    &rate("class", "covey_reconcile_errors_total", ""),
                    "{{class}}",
                )],
            )
            .saying("Any bug is to be reported."),
            panel(
                "Reconciles",
                "cps",
                &[(
                    &rate("controller", "covey_reconcile_runs_total", ""),
                    "{{controller}}",
                )],
            ),
            panel(
                "Time of reconciles",
                "s",
                &[
                    (&quantile("0.5", runs, "le"), "median"),
                    (&quantile("0.99", runs, "le"), "99 %"),
                ],
            ),
            panel(
                "Wait for a turn, 95 %",
                "s",
                &[(
                    &quantile("0.95", "covey_queue_wait_seconds", "controller, le"),
                    "{{controller}}",
                )],
            )
            .saying("Above ten seconds the operator does not keep up."),
            panel(
                "Due",
                "short",
                &[(
                    "sum by (controller) (covey_queue_depth{job=~\"$job\"})",
                    "{{controller}}",
                )],
            ),
            panel(
                "Writes",
                "reqps",
                &[(
                    &rate("verb, resource", requests, ",verb!~\"get|list|watch\""),
                    "{{verb}} {{resource}}",
                )],
            )
            .saying("At rest there are none but those of the Lease."),
            panel(
                "Requests that failed",
                "reqps",
                &[(&rate("code", requests, ",code!~\"2..\""), "{{code}}")],
            ),
            panel(
                "Time of requests, 99 %",
                "s",
                &[(
                    &quantile(
                        "0.99",
                        "covey_kubernetes_request_duration_seconds",
                        "verb, le",
                    ),
                    "{{verb}}",
                )],
            ),
            panel(
                "Reviews of the webhook",
                "reqps",
                &[(
                    &rate("kind, result", "covey_admission_requests_total", ""),
                    "{{kind}} {{result}}",
                )],
            ),
            panel(
                "Memory",
                "bytes",
                &[("process_resident_memory_bytes{job=~\"$job\"}", "{{pod}}")],
            ),
            panel(
                "CPU",
                "short",
                &[(&rate("pod", "process_cpu_seconds_total", ""), "{{pod}}")],
            ),
            panel(
                "Shared work",
                "short",
                &[(
                    "max by (pod) (covey_shard_tenant_clusters{job=~\"$job\"})",
                    "{{pod}}",
                )],
            ),
            panel(
                "Versions",
                "short",
                &[(
                    "count by (version) (covey_build_info{job=~\"$job\"})",
                    "{{version}}",
                )],
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{catalogue, expression, foreign, rules};

    #[test]
    fn whatever_a_panel_asks_for_is_there() {
        let mut known: BTreeSet<String> = catalogue::metrics().flat_map(|m| m.names()).collect();
        known.extend(foreign::SERIES.iter().map(|name| (*name).to_owned()));
        let groups = rules::groups();
        let recordings = groups.iter().flat_map(|group| &group.recordings);
        known.extend(recordings.map(|recording| recording.name.clone()));
        for dashboard in all() {
            for panel in &dashboard.panels {
                assert!(!panel.targets.is_empty(), "{}", panel.title);
                for (expression, _) in &panel.targets {
                    let asked = expression::metrics(expression);
                    assert!(!asked.is_empty(), "{expression}");
                    for metric in asked {
                        assert!(known.contains(&metric), "{}: {metric}", panel.title);
                    }
                }
            }
            if let Some((_, _, query)) = dashboard.variable {
                let inside = query.strip_prefix("label_values(").unwrap();
                let (selector, _) = inside.rsplit_once(',').unwrap();
                let asked = expression::metrics(selector);
                assert!(asked.len() == 1 && asked.is_subset(&known), "{query}");
            }
        }
    }

    #[test]
    fn one_of_a_tenant_cluster_asks_for_nothing_of_another() {
        let tenant = tenant();
        for (expression, _) in tenant.panels.iter().flat_map(|panel| &panel.targets) {
            let (selected, chosen) = (
                expression.matches('{').count(),
                expression.matches(TENANT).count(),
            );
            assert!(selected == chosen && chosen > 0, "{expression}");
        }
    }

    #[test]
    fn every_foreign_metric_is_asked_for_somewhere() {
        let mut asked = BTreeSet::new();
        for dashboard in all() {
            for (expression, _) in dashboard.panels.iter().flat_map(|panel| &panel.targets) {
                asked.extend(expression::metrics(expression));
            }
        }
        for alert in rules::groups().iter().flat_map(|group| &group.alerts) {
            asked.extend(expression::metrics(&alert.expression));
        }
        for series in foreign::SERIES {
            assert!(asked.contains(*series), "nobody asks for {series}");
        }
    }

    #[test]
    fn three_dashboards_are_told_apart() {
        let names: BTreeSet<_> = all().iter().map(|dashboard| dashboard.name).collect();
        assert_eq!(names.len(), 3);
    }
}
