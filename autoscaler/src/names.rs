//! Names of what is written, and of who wrote it.
//!
//! Invariant: constants; what several programs must agree on is in `api::names`.

/// Field manager of everything that is written.
pub const FIELD_MANAGER: &str = "covey-autoscaler";

/// Who reports in Events (`reportingController`).
pub const REPORTING_CONTROLLER: &str = "covey.dev/autoscaler";

/// Value of [`api::names::ANNOTATION_SCALE_DOWN_DISABLED_BY`] on a node that we annotated.
pub const SCALE_DOWN_DISABLED_BY_US: &str = "autoscaler";
