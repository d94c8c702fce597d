//! Figures of benches, as their JSON holds them.
//!
//! Invariant: a percentile is a value that was measured.

use serde_json::{Value, json};

/// Three digits after the point.
#[must_use]
pub fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Percentiles by nearest rank, rounded; null where nothing was measured.
#[must_use]
pub fn spread(values: &[f64]) -> Value {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |share: f64| {
        let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
        sorted.get(rank - 1).copied().map(round)
    };
    json!({ "p50": rank(0.5), "p95": rank(0.95), "max": rank(1.0), "count": sorted.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<_> = (1..=40).rev().map(f64::from).collect();
        let expected = json!({ "p50": 20.0, "p95": 38.0, "max": 40.0, "count": 40 });
        assert_eq!(spread(&values), expected);
        assert_eq!(spread(&[])["p50"], Value::Null);
    }
}
