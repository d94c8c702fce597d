//! Figures with the goal that each has.
//!
//! Invariant: pure but for the size of a file; what is wanted stands beside what is, whatever that is.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use testkit::figures::{round, spread};

/// One number.
pub(crate) fn one(value: f64, goal: f64) -> Value {
    json!({ "is": round(value), "goal": goal })
}

/// Percentiles; the goal is of the p95.
pub(crate) fn with(values: &[f64], goal: f64) -> Value {
    let mut all = spread(values);
    all["goal_p95"] = json!(goal);
    all
}

/// A file's size, in millions of bytes.
pub(crate) fn megabytes(file: &Path) -> Result<f64> {
    let metadata = std::fs::metadata(file);
    let metadata = metadata.with_context(|| format!("read {}", file.display()))?;
    Ok(metadata.len() as f64 / 1e6)
}
