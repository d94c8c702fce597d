//! How large the programs of a control plane are made.
//!
//! Invariant: it names a size; what each size is stands in `tenant-cp/src/profile.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How large the programs of a control plane and of its etcd are made.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Profile {
    /// For tests and a few nodes: less memory and processor time at rest, more of it for each request.
    Small,
    /// As the platform says.
    #[default]
    Standard,
    /// For many nodes: more requests at a time, and controllers that keep up with them.
    Large,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Small, Self::Standard, Self::Large];
}
