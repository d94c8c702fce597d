//! Gauges that are read when somebody asks for the metrics, of what a program has in memory anyway.
//!
//! Invariant: nothing is kept of an earlier reading, so the series of what is gone are gone as well.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// A label and its value, which is from a closed set.
type Label = (&'static str, &'static str);

/// One gauge, as it is now.
#[derive(Clone, Debug)]
pub struct Reading {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    values: Vec<(Option<Label>, f64)>,
}

impl Reading {
    /// A number of something.
    #[must_use]
    pub fn number(name: &'static str, help: &'static str, number: usize) -> Self {
        Self::numbers(name, help, []).with(None, count(number))
    }

    /// Numbers of something, each by the value of a label.
    #[must_use]
    pub fn numbers(
        name: &'static str,
        help: &'static str,
        numbers: impl IntoIterator<Item = (Label, usize)>,
    ) -> Self {
        let numbers = numbers.into_iter();
        Self {
            name,
            help,
            unit: None,
            values: numbers
                .map(|(label, number)| (Some(label), count(number)))
                .collect(),
        }
    }

    /// Seconds of something; `_seconds` is added to the name.
    #[must_use]
    pub fn seconds(name: &'static str, help: &'static str, seconds: f64) -> Self {
        Self::seconds_by(name, help, []).with(None, seconds)
    }

    /// Seconds of something, each by the value of a label; `_seconds` is added to the name.
    #[must_use]
    pub fn seconds_by(
        name: &'static str,
        help: &'static str,
        seconds: impl IntoIterator<Item = (Label, f64)>,
    ) -> Self {
        let seconds = seconds.into_iter();
        Self {
            name,
            help,
            unit: Some(Unit::Seconds),
            values: seconds
                .map(|(label, seconds)| (Some(label), seconds))
                .collect(),
        }
    }

    /// Its value without a label, or with the value of this one.
    #[must_use]
    pub fn get(&self, value: Option<&str>) -> Option<f64> {
        let mut all = self.values.iter();
        let found = all.find(|(label, _)| label.map(|(_, value)| value) == value);
        found.map(|(_, number)| *number)
    }

    fn with(mut self, label: Option<Label>, value: f64) -> Self {
        self.values.push((label, value));
        self
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let unit = self.unit.as_ref();
        let mut family =
            encoder.encode_descriptor(self.name, self.help, unit, MetricType::Gauge)?;
        if let [(None, value)] = self.values.as_slice() {
            return ConstGauge::new(*value).encode(family);
        }
        for (label, value) in &self.values {
            if let Some(label) = label {
                ConstGauge::new(*value).encode(family.encode_family(&[*label])?)?;
            }
        }
        Ok(())
    }
}

fn count(number: usize) -> f64 {
    // More than four thousand million of anything are not counted here.
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Reads gauges whenever the metrics are asked for.
pub struct Readings {
    read: Box<dyn Fn() -> Vec<Reading> + Send + Sync>,
}

impl Readings {
    /// Registers what `read` gives. It is called for each answer and must not wait for anything.
    pub fn register(
        registry: &mut Registry,
        read: impl Fn() -> Vec<Reading> + Send + Sync + 'static,
    ) {
        let read = Box::new(read);
        registry.register_collector(Box::new(Self { read }));
    }
}

impl fmt::Debug for Readings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Readings").finish_non_exhaustive()
    }
}

impl Collector for Readings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let readings = (self.read)();
        readings
            .iter()
            .try_for_each(|reading| reading.encode(&mut encoder))
    }
}
