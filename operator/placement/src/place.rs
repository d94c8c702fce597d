//! Where machines are: a zone of a location, and how it stands.
//!
//! Invariant: zones are judged one by one; a provider without zones has one, whose name is empty.

use serde::{Deserialize, Serialize};

/// A zone of a location.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Place {
    /// Name of the location, as in `spec.locations`.
    pub location: String,
    /// Name of the zone as the provider calls it; empty where there are none.
    #[serde(default)]
    pub zone: String,
}

impl Place {
    /// A zone of a location.
    #[must_use]
    pub fn new(location: impl Into<String>, zone: impl Into<String>) -> Self {
        Self {
            location: location.into(),
            zone: zone.into(),
        }
    }
}

/// How a place stands, as in `status.locations[].state`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum State {
    /// Machines are made there and live there.
    #[default]
    Healthy,
    /// Nothing new is made there; nothing there is replaced because of it.
    Suspect,
    /// Its machines count no more and others take their place; none of them is deleted.
    Out,
    /// It is back, and has to prove that it stays.
    Recovering,
    /// Nothing new is made there because of what the user has to mend (credentials, template).
    Excluded,
}

impl State {
    /// Whether an outage is going on or not yet forgotten: whoever is not ready there is not waited for,
    /// and nobody elsewhere goes because of who is.
    #[must_use]
    pub fn is_outage(self) -> bool {
        matches!(self, Self::Out | Self::Recovering)
    }
}
