//! The fault proxy.
pub const IDENTITY: &str = "testkit-fault-proxy";
