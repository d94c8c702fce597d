//! Stand-ins for the API servers of tenants.
//!
//! Invariant: one listener per tenant namespace, from the moment its Secret appears.
