//! A case that Prometheus' own tool plays.
//!
//! Invariant: it is about one alert of one severity, at one moment.

use monitoring::rule::Severity;

/// What is seen, minute by minute, and whether an alert fires then.
pub(crate) struct Case {
    pub(crate) alert: &'static str,
    pub(crate) severity: Severity,
    /// Series and their values, as promtool writes them: `1x60` is one for an hour, `0+6x60` six more a minute.
    pub(crate) series: &'static [(&'static str, &'static str)],
    /// When it is looked, in minutes.
    pub(crate) at: u32,
    pub(crate) fires: bool,
}

pub(crate) const fn case(
    alert: &'static str,
    severity: Severity,
    fires: bool,
    at: u32,
    series: &'static [(&'static str, &'static str)],
) -> Case {
    Case {
        alert,
        severity,
        series,
        at,
        fires,
    }
}

/// Nothing is expected of the tenant cluster.
pub(crate) const ASLEEP: (&str, &str) =
    (r#"covey_tenant_state{tenant="t",state="asleep"}"#, "1x60");
