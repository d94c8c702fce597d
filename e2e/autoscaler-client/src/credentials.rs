//! What a client shows and trusts.
//!
//! Invariant: PEM, as a file of the stock client would be.

/// What a client shows and trusts, as PEM.
#[derive(Clone)]
pub struct Credentials {
    /// Authority of the server's certificate.
    pub ca: String,
    /// Certificate and key of the client; without, it shows none.
    pub identity: Option<(String, String)>,
}
