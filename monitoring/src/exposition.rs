//! What a program shows, in the text form of OpenMetrics, read back and compared with the list.
//!
//! Invariant: what cannot be read is a difference, never passed over.

use std::collections::{BTreeMap, BTreeSet};

use crate::metric::{Group, Kind, Metric};

/// What is shown of one metric.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Family {
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// With its full stop taken off.
    pub help: String,
    /// Names of the labels of each of its series, buckets aside.
    pub labels: BTreeSet<BTreeSet<String>>,
    /// How many bounds buckets have, that for all aside.
    pub bounds: BTreeSet<String>,
    /// How many series there are.
    pub series: usize,
    /// How many series there are for each value of the label `tenant`.
    pub per_tenant: BTreeMap<String, usize>,
}

/// What a text shows, by name as Prometheus has it.
///
/// # Errors
/// The line that cannot be read.
pub fn families(text: &str) -> Result<BTreeMap<String, Family>, String> {
    let mut families = BTreeMap::<String, Family>::new();
    let mut help = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        let unreadable = || format!("cannot read the line {line:?}");
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, said) = rest.split_once(' ').ok_or_else(unreadable)?;
            help.insert(name, said.trim_end_matches('.').to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(unreadable)?;
            let full = match kind {
                "counter" => format!("{name}_total"),
                _ => name.to_owned(),
            };
            let family = families.entry(full.clone()).or_default();
            kind.clone_into(&mut family.kind);
            family.help = help.get(name).cloned().unwrap_or_default();
            current = Some(full);
        } else {
            let name = current.as_ref().ok_or_else(unreadable)?;
            let (sample, labels) = sample(line).ok_or_else(unreadable)?;
            if !sample.starts_with(name.as_str()) {
                return Err(format!("{line:?} stands among the series of {name}"));
            }
            let family = families.entry(name.clone()).or_default();
            family.add(labels);
        }
    }
    Ok(families)
}

impl Family {
    fn add(&mut self, labels: Vec<(&str, &str)>) {
        self.series += 1;
        let mut names = BTreeSet::new();
        for (name, value) in labels {
            match name {
                "le" if value == "+Inf" => {}
                "le" => {
                    self.bounds.insert(value.to_owned());
                }
                _ => {
                    names.insert(name.to_owned());
                }
            }
            if name == "tenant" {
                *self.per_tenant.entry(value.to_owned()).or_default() += 1;
            }
        }
        self.labels.insert(names);
    }
}

/// Name and labels of `name{label="value",…} number`.
fn sample(line: &str) -> Option<(&str, Vec<(&str, &str)>)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = (line.get(..end)?, line.get(end..)?);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.trim_start_matches(',').split_once("=\"")?;
            let end = end_of_value(after)?;
            labels.push((label, after.get(..end)?));
            rest = after.get(end + 1..)?;
        }
        rest = rest.get(1..)?;
    }
    let number = rest.strip_prefix(' ')?.split(' ').next()?;
    number.parse::<f64>().ok()?;
    Some((name, labels))
}

/// Where the quotation mark is that ends a value.
fn end_of_value(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Some(at),
            _ => {}
        }
    }
    None
}

/// Where what a text shows of these groups differs from the list: everything of them has to be shown, as it is
/// listed, and nothing besides.
#[must_use]
pub fn differences(groups: &[Group], text: &str) -> Vec<String> {
    let mut shown = match families(text) {
        Ok(shown) => shown,
        Err(error) => return vec![error],
    };
    let mut found = Vec::new();
    for metric in groups.iter().flat_map(|group| group.metrics) {
        match shown.remove(metric.name) {
            Some(family) => found.extend(difference(metric, &family)),
            None => found.push(format!("{} is listed and not shown", metric.name)),
        }
    }
    let left = shown.keys();
    found.extend(
        left.map(|name| format!("{name} is shown, and monitoring/src/catalogue.rs lacks it")),
    );
    found
}

fn difference(metric: &Metric, family: &Family) -> Vec<String> {
    let name = metric.name;
    let mut found = Vec::new();
    let mut compare = |what: &str, listed: String, shown: String| {
        if listed != shown {
            found.push(format!(
                "{name}: {what} is {listed} in the list, and {shown} where it is shown"
            ));
        }
    };
    compare(
        "the type",
        metric.kind.as_str().to_owned(),
        family.kind.clone(),
    );
    compare("the help", metric.help.to_owned(), family.help.clone());
    if let Kind::Histogram { buckets } = metric.kind {
        let bounds = family.bounds.len().to_string();
        compare("the number of buckets", buckets.to_string(), bounds);
    }
    let labels: BTreeSet<_> = metric
        .labels
        .iter()
        .map(|(label, _)| (*label).to_owned())
        .collect();
    for shown in &family.labels {
        compare(
            "the set of labels",
            format!("{labels:?}"),
            format!("{shown:?}"),
        );
    }
    for (tenant, series) in &family.per_tenant {
        let most = metric.series_per_tenant();
        if *series > most {
            found.push(format!(
                "{name}: {tenant} has {series} series, {most} are allowed"
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Metric;

    const LIST: Group = Group {
        title: "",
        programs: &[],
        metrics: &[
            Metric {
                name: "a_total",
                kind: Kind::Counter,
                help: "All of it",
                labels: &[("tenant", ""), ("b", "")],
                per_tenant: 1,
            },
            Metric {
                name: "h_seconds",
                kind: Kind::Histogram { buckets: 1 },
                help: "Time",
                labels: &[],
                per_tenant: 0,
            },
        ],
    };
    const SHOWN: &str = "# HELP a All of it.\n# TYPE a counter\na_total{tenant=\"t\",b=\"x\\\",y\"} 3\n\
        # HELP h_seconds Time.\n# TYPE h_seconds histogram\n# UNIT h_seconds seconds\nh_seconds_sum 0.5\n\
        h_seconds_count 1\nh_seconds_bucket{le=\"1.0\"} 1\nh_seconds_bucket{le=\"+Inf\"} 1\n# EOF\n";

    #[test]
    fn text_is_read_with_its_labels_and_buckets() {
        let read = families(SHOWN).unwrap();
        assert_eq!(read["a_total"].per_tenant["t"], 1);
        assert_eq!(
            (read["h_seconds"].series, read["h_seconds"].bounds.len()),
            (4, 1)
        );
        assert_eq!(differences(&[LIST], SHOWN), [""; 0]);
    }

    #[test]
    fn every_difference_is_named() {
        let table = [
            (
                "a_total{tenant=\"t\",b=\"",
                "a_total{tenant=\"t\",c=\"",
                "the set of labels",
            ),
            ("All of it", "Some of it", "the help"),
            (
                "TYPE h_seconds histogram",
                "TYPE h_seconds gauge",
                "the type",
            ),
            ("le=\"1.0\"", "le=\"+Inf\"", "the number of buckets"),
            (
                "} 3\n",
                "} 3\na_total{tenant=\"t\",b=\"z\"} 1\n",
                "t has 2 series, 1 are allowed",
            ),
            ("} 3\n", "} three\n", "cannot read the line"),
            ("# EOF", "# TYPE other gauge\n# EOF", "other is shown"),
        ];
        for (from, to, said) in table {
            let found = differences(&[LIST], &SHOWN.replacen(from, to, 1));
            assert!(found.iter().any(|f| f.contains(said)), "{to}: {found:?}");
        }
        let found = differences(&[LIST], "# EOF\n");
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
