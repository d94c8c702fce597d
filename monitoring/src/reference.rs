//! The list of metrics as a page for people: `docs/metrics.md`.
//!
//! Invariant: same list, same bytes.

use std::fmt::Write as _;

use crate::catalogue::{BUDGET, GROUPS};
use crate::metric::{Kind, Metric};

const HEAD: &str = "# Metrics
Generated from `monitoring/src/catalogue.rs` (`COVEY_UPDATE_GOLDEN=1 cargo test -p monitoring --test generated`).

On port 8080 of each pod, `/metrics`, in the text form of OpenMetrics, without authentication \
(`networkPolicy.metricsFrom` decides who may read). What is of a tenant cluster has the label `tenant`, its tenant \
namespace; the user's namespace and its name come with `covey_tenant_info`:

```
covey_tenant_condition{type=\"Ready\"} == 0
  and on (tenant) group_left (namespace, name) covey_tenant_info
```

Only the operator that leads, or where operators share the work the one whose work it is, shows a tenant cluster; its \
series go with it. What a program in a tenant namespace shows (cloud controller manager, CSI driver, autoscaler's \
adapter) has the label `tenant` from whoever scrapes it, see [operations.md](operations.md#metrics). ";

/// The page.
#[must_use]
pub fn markdown() -> String {
    let most: usize = GROUPS
        .iter()
        .flat_map(|group| group.metrics)
        .map(Metric::series_per_tenant)
        .sum();
    let mut page = HEAD.to_owned();
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "One has {most} series at most (the budget is {BUDGET})."
    );
    for group in GROUPS {
        let programs: Vec<_> = group.programs.iter().map(|p| format!("`{p}`")).collect();
        let _ = writeln!(
            page,
            "\n## {}\nShown by {}.\n",
            group.title,
            programs.join(", ")
        );
        page.push_str("| Metric | Type | Labels | |\n|---|---|---|---|\n");
        for metric in group.metrics {
            page.push_str(&row(metric));
        }
    }
    page
}

fn row(metric: &Metric) -> String {
    let labels = metric.labels.iter();
    let labels: Vec<_> = labels
        .map(|(name, values)| format!("`{name}`: {values}"))
        .collect();
    let kind = match metric.kind {
        Kind::Histogram { buckets } => format!("histogram, {buckets} buckets"),
        kind @ (Kind::Counter | Kind::Gauge) => kind.as_str().to_owned(),
    };
    format!(
        "| `{}` | {kind} | {} | {} |\n",
        metric.name,
        labels.join("; "),
        metric.help
    )
}
