//! Benches: what a user waits for and what the operator costs, measured on the lab.
//!
//! Invariant: a bench never fails on time alone, and it removes what it made, also when it is
//! interrupted.

pub mod autoscaler;
mod changes;
mod clients;
mod control_plane;
pub mod csi;
pub mod hosts;
mod machine;
mod observe;
mod place;
mod processes;
mod report;
pub mod restore;
pub mod rotation;
pub mod sleep;
pub mod upgrade;
pub mod workers;

pub use control_plane::{Options, run};
pub use machine::Machine;
pub use processes::IdleTenant;
pub use report::Report;

/// The value below which `share` (0 to 1) of the values lie: nearest rank, so it is one of them.
#[must_use]
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil().max(1.0);
    sorted.get(rank as usize - 1).copied()
}

/// Two digits are all that such measurements are worth.
#[must_use]
pub fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(percentile(&values, 0.5), Some(3.0));
        assert_eq!(percentile(&values, 0.95), Some(5.0));
        assert_eq!(percentile(&values[..1], 0.5), Some(5.0));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
