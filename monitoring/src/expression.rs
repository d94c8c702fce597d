//! Which metrics an expression of PromQL asks for.
//!
//! It is no parser: what PromQL may say besides names is known here, so a name that is no metric is taken for one, and
//! a test then says that there is no such metric.
//! Invariant: no metric of an expression is passed over.

use std::collections::BTreeSet;

/// Words of PromQL that may stand where a metric may.
const WORDS: &[&str] = &[
    "and",
    "or",
    "unless",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "bool",
    "offset",
    "inf",
    "nan",
    "Inf",
    "NaN",
];
/// Words behind which a list of labels stands.
const BEFORE_LABELS: &[&str] = &[
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

/// The metrics of an expression, in the names of series: `x_bucket`, `covey:y`.
#[must_use]
pub fn metrics(expression: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = expression;
    let mut before = "";
    while let Some(c) = rest.chars().next() {
        let end = match c {
            '{' => skip(rest, '}'),
            '[' => skip(rest, ']'),
            '"' => skip(rest.get(1..).unwrap_or_default(), '"') + 1,
            '(' if BEFORE_LABELS.contains(&before) => skip(rest, ')'),
            c if c.is_ascii_alphabetic() || c == '_' || c == ':' => {
                let end = word(rest);
                let name = rest.get(..end).unwrap_or_default();
                let after = rest.get(end..).unwrap_or_default().trim_start();
                let is_function = after.starts_with('(') || WORDS.contains(&name);
                // `sum by (x) (y)`: an aggregation has its labels first.
                let (by, without) = (after.strip_prefix("by"), after.strip_prefix("without"));
                let is_aggregation = by
                    .or(without)
                    .is_some_and(|rest| rest.starts_with(['(', ' ']));
                if !is_function && !is_aggregation {
                    found.insert(name.to_owned());
                }
                before = name;
                rest = rest.get(end..).unwrap_or_default();
                continue;
            }
            // `5m`, `0.95`, `1e9`, `$__rate_interval` and what Grafana fills in.
            c if c.is_ascii_digit() || c == '$' => {
                let tail = rest.get(1..).unwrap_or_default();
                let end = tail.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
                end.unwrap_or(tail.len()) + 1
            }
            c => c.len_utf8(),
        };
        if !c.is_whitespace() {
            before = "";
        }
        rest = rest.get(end..).unwrap_or_default();
    }
    found
}

/// The length of the identifier at the start.
fn word(text: &str) -> usize {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    end.unwrap_or(text.len())
}

/// Behind the first of these; all of it where there is none.
fn skip(text: &str, end: char) -> usize {
    text.find(end).map_or(text.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_found_and_nothing_else_is() {
        let table: [(&str, &[&str]); 7] = [
            ("up", &["up"]),
            (
                "sum by (tenant, le) (rate(a_bucket{x=\"b (c)\",y!~\"d|e\"}[5m])) / 1e9",
                &["a_bucket"],
            ),
            (
                "histogram_quantile(0.95, sum(rate(h_bucket[$__rate_interval])) by (le)) > 0.5",
                &["h_bucket"],
            ),
            (
                "(covey:r:rate1h > on (tenant) 14.4 * covey:b) and on (tenant) c == bool 1",
                &["c", "covey:b", "covey:r:rate1h"],
            ),
            (
                "max by (a) (x) unless on (a) y * on (a) group_left (n, m) covey:i",
                &["covey:i", "x", "y"],
            ),
            (
                "absent(x) or vector(0) or time() - y offset 5m",
                &["x", "y"],
            ),
            ("sum(a) != on () clamp_min(max(b), 1)", &["a", "b"]),
        ];
        for (expression, wanted) in table {
            let found = metrics(expression);
            let found: Vec<_> = found.iter().map(String::as_str).collect();
            assert_eq!(found, wanted, "{expression}");
        }
    }
}
