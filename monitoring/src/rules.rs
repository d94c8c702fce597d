//! What is computed beforehand, and the burn rates of the error budget.
//!
//! The objective is of availability over 30 days: 99.9 % where etcd has three members, 99.5 % where it has one. Only
//! probes count for it: users of a small tenant cluster ask too little for rates. Of both windows of an alert the long
//! one decides, because at one probe each ten seconds a single failure is 3 % of five minutes.
//! Source of the four rows: The Site Reliability Workbook, chapter 5, "Alerting on SLOs", and kubernetes-mixin.
//! Invariant: what is recorded has the label `tenant` and no other.

use crate::alerts;
use crate::rule::{Alert, Recording, RuleGroup, Severity};

/// Windows over which errors of probes are recorded.
pub const WINDOWS: [&str; 7] = ["5m", "30m", "1h", "2h", "6h", "1d", "3d"];

/// One row: factor, long window, short window, how long, how soon.
const BURN_RATES: [(&str, &str, &str, &str, Severity); 4] = [
    ("14.4", "1h", "5m", "2m", Severity::Page),
    ("6", "6h", "30m", "15m", Severity::Page),
    ("3", "1d", "2h", "1h", Severity::Ticket),
    ("1", "3d", "6h", "3h", Severity::Ticket),
];

/// All rules.
#[must_use]
pub fn groups() -> Vec<RuleGroup> {
    let mut groups = vec![RuleGroup {
        name: "covey-availability",
        recordings: recordings(),
        alerts: BURN_RATES.map(burn).to_vec(),
    }];
    groups.extend(alerts::groups());
    groups
}

/// The name of the share of probes that failed in a window.
#[must_use]
pub fn errors(window: &str) -> String {
    format!("covey:probe_errors:ratio_rate{window}")
}

fn recordings() -> Vec<Recording> {
    let record = |name: &str, expression: &str| Recording {
        name: name.to_owned(),
        expression: expression.to_owned(),
    };
    let mut all = vec![
        // Of two operators, of which one has just taken over, both may be there for a moment.
        Recording {
            name: "covey:tenant_info".to_owned(),
            expression: "max by (tenant, namespace, name) (covey_tenant_info)".to_owned(),
        },
        record(
            "covey:error_budget",
            "max by (tenant) (1 - covey_tenant_availability_objective_ratio)",
        ),
    ];
    all.extend(WINDOWS.map(|window| Recording {
        name: errors(window),
        expression: format!(
            "sum by (tenant) (rate(covey_tenant_probe_requests_total{{result!=\"ok\"}}[{window}]))\n\
             / sum by (tenant) (rate(covey_tenant_probe_requests_total[{window}]))"
        ),
    }));
    all
}

fn burn(
    row: (
        &'static str,
        &'static str,
        &'static str,
        &'static str,
        Severity,
    ),
) -> Alert {
    let (factor, long, short, pending, severity) = row;
    let (in_long, in_short) = (errors(long), errors(short));
    let both = format!(
        "{in_long} > on (tenant) {factor} * covey:error_budget\n\
         and on (tenant) {in_short} > on (tenant) {factor} * covey:error_budget"
    );
    Alert {
        name: "CoveyTenantErrorBudgetBurn",
        expression: alerts::named(&both),
        pending,
        severity,
        labels: vec![("window", long)],
        summary: "{{ $labels.namespace }}/{{ $labels.name }} burns its error budget",
        description: "{{ $value | humanizePercentage }} of the probes of its API failed lately, which uses up the \
                      errors of 30 days too soon.",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{catalogue, expression, foreign};

    #[test]
    fn whatever_a_rule_asks_for_is_there() {
        let mut known: BTreeSet<String> = catalogue::metrics().flat_map(|m| m.names()).collect();
        known.extend(foreign::SERIES.iter().map(|name| (*name).to_owned()));
        for group in groups() {
            // A group is evaluated from the top, and groups at the same time: what is recorded here is known from here.
            for recording in &group.recordings {
                let asked = expression::metrics(&recording.expression);
                assert!(!asked.is_empty(), "{}", recording.name);
                for metric in asked {
                    assert!(known.contains(&metric), "{}: {metric}", recording.name);
                }
                known.insert(recording.name.clone());
            }
            for alert in &group.alerts {
                let asked = expression::metrics(&alert.expression);
                assert!(!asked.is_empty(), "{}", alert.name);
                for metric in asked {
                    assert!(known.contains(&metric), "{}: {metric}", alert.name);
                }
            }
        }
    }

    #[test]
    fn every_foreign_metric_is_of_one_tenant_cluster() {
        for group in groups() {
            for alert in group.alerts {
                for series in foreign::SERIES {
                    for rest in alert.expression.split(series).skip(1) {
                        assert!(
                            rest.starts_with("{tenant!=\"\""),
                            "{}: {series}",
                            alert.name
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn alerts_are_told_apart_and_say_what_they_mean() {
        let mut seen = BTreeSet::new();
        for alert in groups().into_iter().flat_map(|group| group.alerts) {
            assert!(alert.name.starts_with("Covey"), "{}", alert.name);
            assert!(
                !alert.summary.is_empty() && alert.description.ends_with('.'),
                "{}",
                alert.name
            );
            let labels = format!("{} {:?} {:?}", alert.name, alert.severity, alert.labels);
            assert!(seen.insert(labels.clone()), "{labels} is there twice");
            // Whoever is told of a tenant cluster is told which one.
            let is_named = alert.expression.contains("covey:tenant_info");
            assert_eq!(
                alert.summary.contains("$labels.name }}"),
                is_named,
                "{}",
                alert.name
            );
        }
    }

    #[test]
    fn burn_rates_use_windows_that_are_recorded() {
        for (_, long, short, _, _) in BURN_RATES {
            assert!(WINDOWS.contains(&long) && WINDOWS.contains(&short));
        }
    }
}
