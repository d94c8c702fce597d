//! Table of the flags of one program, and what all programs are told alike.
//!
//! Invariant: plain data; what depends on a tenant cluster is computed where its container is built.

/// TLS 1.2 suites with forward secrecy and authenticated encryption (TLS 1.3 has no others);
/// the same list for every program. CIS 1.2.29.
pub(crate) const CIPHER_SUITES: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,\
TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,\
TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,\
TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,\
TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,\
TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256";

/// What is said about the flags of one program, without values that depend on the tenant cluster.
pub(super) struct Table {
    /// Set by Covey, the same for every tenant cluster.
    pub(super) fixed: &'static [(&'static str, &'static str)],
    /// Set by Covey from the tenant cluster; [`super::args`] gets the values.
    pub(super) computed: &'static [&'static str],
    /// Set by Covey unless the user sets them.
    pub(super) defaults: &'static [(&'static str, &'static str)],
    /// Not set by Covey, but refused: they would undo or contradict what is set.
    pub(super) refused: &'static [&'static str],
    /// What a user may set, by the minor (of 1.x) from which on: tuning alone, nothing that names a
    /// file or an address, opens an API or a feature that is not finished, or prints bodies. What a
    /// newer minor brings is not among them until somebody has read what it does.
    pub(super) allowed: &'static [(u64, &'static [&'static str])],
}
