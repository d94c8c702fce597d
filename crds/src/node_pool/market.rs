//! How machines of a cloud are bought.
//!
//! Invariant: who does not say it has machines that stay.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How machines of a cloud are bought.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
pub enum Market {
    /// They stay until they are deleted.
    #[default]
    OnDemand,
    /// They may be taken back at any time, and cost less.
    Spot,
}
