//! The activator: waits in the place of control planes that sleep.
//!
//! The EndpointSlice of a sleeper's Service leads here, to a port of its own. A connection whose client sends a whole
//! ClientHello of TLS is held, the operator is asked to wake the tenant cluster (a Lease), and once a pod of its control
//! plane is ready the bytes go on to it. TLS is not ended here: certificates and identities are the business of both ends.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`args`], [`run`] | command line; the process |
//! | [`manager`] | the watch of the ConfigMap and the ports, without the process |
//! | [`sleepers`] | who is waited for at which port (pure) |
//! | [`plan`] | which ports are open, who is let in, whether to wake (pure) |
//! | [`hello`] | whether bytes are a whole ClientHello (pure) |
//! | [`relay`] | from a connection to a pod |
//! | [`wakes`] | the Lease, the one kind of object that is written |
//! | [`metrics`], [`rbac`] | what is counted; what it may do |
//!
//! Invariant: nobody is woken by a connection that is not TLS; no byte of one tenant's client reaches another tenant's
//! pod; memory and connections of a sleeper are bounded, whoever connects.

pub mod args;
pub mod hello;
pub mod manager;
pub mod metrics;
pub mod plan;
pub mod rbac;
pub mod relay;
pub mod run;
pub mod sleepers;
pub mod wakes;
