//! What a plan of one Service is made of, and what it says.
//!
//! Invariant: values only; two plans that are equal do the same.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::Reason;
use k8s_openapi::api::core::v1::Service;
use kit::events::Notice;
use serde_json::Value;

use crate::cache::endpoint_slices::{LocalEndpoints, Slice};
use crate::cache::objects::Target;
use crate::cache::services::Accepted;
use crate::limits::Over;

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

impl Family {
    /// As in `spec.ipFamilies` and `addressType`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// Whether an address is of it.
    #[must_use]
    pub fn has(self, address: &IpAddr) -> bool {
        address.is_ipv4() == (self == Self::V4)
    }
}

/// Everything that a plan depends on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// UID of the tenant's Service.
    pub uid: String,
    /// The tenant's Service; none when it is gone, or never was of concern.
    pub service: Option<Arc<Service>>,
    /// What is in the tenant namespace for it: one, as a rule.
    pub mirrors: Vec<Arc<Service>>,
    /// EndpointSlices in the tenant namespace that belong to one of those, or carry the UID.
    pub slices: Vec<Slice>,
    /// The API, asked for it by name, said that there is no mirror.
    pub certain: bool,
    /// The machines that traffic may be sent to.
    pub targets: Arc<Vec<Target>>,
    /// How many nodes are on machines to which no traffic is sent.
    pub unmapped_nodes: usize,
    /// Nodes with endpoints of the tenant's Service.
    pub local: BTreeMap<Arc<str>, LocalEndpoints>,
    /// What the management API made of the mirror when it was last applied, if not what was asked for.
    pub accepted: Option<Accepted>,
    /// The limit that its load balancer, or a port of it more, would be over.
    pub over: Option<Over>,
    /// What an API refused in this reconcile: the next one tries it again.
    pub refused: Vec<Action>,
}

impl Observed {
    /// Takes in that an API refused this. True when the rest of the plan is to be made anew, because
    /// it may have something to say that is not so now.
    pub fn refuse(&mut self, action: &Action) -> bool {
        self.refused.push(action.clone());
        !matches!(action, Action::ApplySlice(_) | Action::DeleteSlice { .. })
    }

    /// Whether this is not to be tried now: it was refused, or would take away a slice whose endpoints
    /// may have moved to one that was.
    #[must_use]
    pub fn leaves_out(&self, action: &Action) -> bool {
        let is_slice = |refused: &Action| matches!(refused, Action::ApplySlice(_));
        self.refused.contains(action)
            || (matches!(action, Action::DeleteSlice { .. }) && self.refused.iter().any(is_slice))
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask the management API for the mirror, by name.
    MakeSure,
    /// Merge this into the tenant's Service, if it is still at the resource version in it.
    PatchService(Value),
    /// Merge this into the status of the tenant's Service.
    PatchStatus(Value),
    /// Apply the mirror.
    ApplyMirror(Value),
    /// Take off a mirror that somebody else made what he wrote on it: a merge patch.
    PatchMirror {
        /// Its name.
        name: String,
        /// The patch, with the resource version.
        patch: Value,
    },
    /// Delete a mirror.
    DeleteMirror {
        /// Its name.
        name: String,
        /// Only this one.
        uid: String,
    },
    /// Apply an EndpointSlice.
    ApplySlice(Value),
    /// Delete an EndpointSlice.
    DeleteSlice {
        /// Its name.
        name: String,
        /// Only this one.
        uid: String,
    },
}

impl Action {
    /// Whether it writes an EndpointSlice, or deletes one.
    #[must_use]
    pub const fn is_of_slices(&self) -> bool {
        matches!(self, Self::ApplySlice(_) | Self::DeleteSlice { .. })
    }
}

/// The next step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What is to be done, one after the other.
    pub actions: Vec<Action>,
    /// What is done with slices takes an endpoint out that new connections are sent to.
    pub takes_out: bool,
    /// Events to publish once that is done.
    pub events: Vec<Notice>,
    /// What is wrong with the Service: told once for as long as it does not change.
    pub complaints: Vec<Notice>,
    /// What keeps it from having an address, or being gone; waiting is not an error.
    pub waiting_on: Option<Reason>,
}

impl Plan {
    /// One thing to do, and nothing to say.
    #[must_use]
    pub fn act(action: Action) -> Self {
        Self {
            actions: vec![action],
            ..Self::default()
        }
    }
}
