//! Rules of Prometheus, and how they are written into a file.
//!
//! Invariant: same rules, same bytes; texts are quoted as JSON does it, which YAML reads as well.

use std::fmt::Write as _;

use serde_json::Value;

/// Where runbooks of alerts are.
pub(crate) const RUNBOOKS: &str = "https://covey.dev/docs/runbooks/alerts.html";

/// How soon somebody has to look.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Severity {
    /// Now, also at night.
    Page,
    /// In the next days.
    Ticket,
}

impl Severity {
    /// The label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Ticket => "ticket",
        }
    }
}

/// A series that is computed beforehand.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Its name, with colons.
    pub name: String,
    /// From what.
    pub expression: String,
}

/// A rule by which somebody is told.
#[derive(Clone, Debug)]
pub struct Alert {
    /// Its name. Several of one name differ in severity or window, and have one runbook.
    pub name: &'static str,
    /// What is wrong where this has a value.
    pub expression: String,
    /// How long it has to be so, such as `5m`; empty: not at all.
    pub pending: &'static str,
    /// How soon somebody has to look.
    pub severity: Severity,
    /// Further labels.
    pub labels: Vec<(&'static str, &'static str)>,
    /// One line.
    pub summary: &'static str,
    /// What it means, with numbers.
    pub description: &'static str,
}

impl Alert {
    /// Where its runbook is.
    #[must_use]
    pub fn runbook(&self) -> String {
        format!("{RUNBOOKS}#{}", self.name.to_lowercase())
    }
}

/// Rules that are evaluated one after the other.
#[derive(Clone, Debug)]
pub struct RuleGroup {
    /// Its name.
    pub name: &'static str,
    /// Computed first.
    pub recordings: Vec<Recording>,
    /// Looked at then.
    pub alerts: Vec<Alert>,
}

/// A file of rules, as Prometheus reads it, and as a PrometheusRule has it for its `spec`.
#[must_use]
pub fn file(groups: &[RuleGroup]) -> String {
    let mut text = "# Generated from crate monitoring: COVEY_UPDATE_GOLDEN=1 cargo test -p monitoring --test generated\n\
                    groups:\n"
        .to_owned();
    // Writing to a String cannot fail.
    for group in groups {
        let _ = writeln!(text, "  - name: {}\n    rules:", group.name);
        for Recording { name, expression } in &group.recordings {
            let _ = writeln!(text, "      - record: {name}");
            text.push_str(&block(expression));
        }
        for alert in &group.alerts {
            text.push_str(&written(alert));
        }
    }
    text
}

fn written(alert: &Alert) -> String {
    let mut text = format!(
        "      - alert: {}\n{}",
        alert.name,
        block(&alert.expression)
    );
    if !alert.pending.is_empty() {
        text.push_str(&line(8, "for", alert.pending));
    }
    text.push_str("        labels:\n");
    text.push_str(&line(10, "severity", alert.severity.as_str()));
    for (name, value) in &alert.labels {
        text.push_str(&line(10, name, value));
    }
    text.push_str("        annotations:\n");
    text.push_str(&line(10, "summary", alert.summary));
    text.push_str(&line(10, "description", alert.description));
    text.push_str(&line(10, "runbook_url", &alert.runbook()));
    text
}

fn line(indent: usize, name: &str, value: &str) -> String {
    format!("{:indent$}{name}: {}\n", "", Value::from(value))
}

/// An expression, line by line.
fn block(expression: &str) -> String {
    let lines: Vec<_> = expression
        .lines()
        .map(|line| format!("          {line}\n"))
        .collect();
    format!("        expr: |-\n{}", lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_as_prometheus_reads_it() {
        let group = RuleGroup {
            name: "a",
            recordings: vec![Recording {
                name: "covey:x".to_owned(),
                expression: "sum(x)\n/ sum(y)".to_owned(),
            }],
            alerts: vec![Alert {
                name: "CoveyX",
                expression: "covey:x > 1".to_owned(),
                pending: "5m",
                severity: Severity::Page,
                labels: vec![("window", "1h")],
                summary: "It is \"so\"",
                description: "{{ $value }}",
            }],
        };
        let text = file(&[group]);
        let (_, rules) = text.split_once('\n').unwrap();
        let wanted = r##"groups:
  - name: a
    rules:
      - record: covey:x
        expr: |-
          sum(x)
          / sum(y)
      - alert: CoveyX
        expr: |-
          covey:x > 1
        for: "5m"
        labels:
          severity: "page"
          window: "1h"
        annotations:
          summary: "It is \"so\""
          description: "{{ $value }}"
          runbook_url: "https://covey.dev/docs/runbooks/alerts.html#coveyx"
"##;
        assert_eq!(rules, wanted);
    }
}
