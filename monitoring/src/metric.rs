//! What there is to say of one metric.
//!
//! Invariant: a label has values of a closed set, or is `tenant`, of which there are as many as tenant clusters.

/// What kind of number it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// It only grows, and begins anew with the process.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How many observations were how large.
    Histogram {
        /// Buckets besides that for all.
        buckets: u16,
    },
}

impl Kind {
    /// The word of OpenMetrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram { .. } => "histogram",
        }
    }

    /// Series of one set of labels: of a histogram its buckets, that for all, sum and count.
    #[must_use]
    pub fn series(self) -> usize {
        match self {
            Self::Counter | Self::Gauge => 1,
            Self::Histogram { buckets } => usize::from(buckets) + 3,
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// As Prometheus has it, with `_total` where it is a counter. Histograms are without `_bucket`.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// What it says, without a full stop.
    pub help: &'static str,
    /// Its labels and what their values are.
    pub labels: &'static [(&'static str, &'static str)],
    /// The most sets of labels that one tenant cluster has of it; 0 where it is not of one.
    pub per_tenant: usize,
}

impl Metric {
    /// The most series that one tenant cluster has of it.
    #[must_use]
    pub fn series_per_tenant(&self) -> usize {
        self.per_tenant * self.kind.series()
    }

    /// The names of its series.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        match self.kind {
            Kind::Counter | Kind::Gauge => vec![self.name.to_owned()],
            Kind::Histogram { .. } => ["_bucket", "_sum", "_count"]
                .map(|end| format!("{}{end}", self.name))
                .to_vec(),
        }
    }
}

/// Metrics that are registered together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What they are about: a heading of the page.
    pub title: &'static str,
    /// Who shows them.
    pub programs: &'static [&'static str],
    /// They.
    pub metrics: &'static [Metric],
}
