//! The process's provider of cryptography: ring.
//!
//! Invariant: it is installed at most once, and never replaces another.

use std::sync::Once;

/// Makes ring the process's provider of cryptography, once. Everything of ours that uses TLS calls
/// it; a provider installed earlier stays.
pub fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // It fails when there is one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
