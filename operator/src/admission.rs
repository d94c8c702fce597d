//! The validating webhook: an HTTPS endpoint in every replica, and its certificate.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`validator`] | what objects are validated with: settings, and our kinds as last seen |
//! | [`review`] | what the answers to AdmissionReviews of all kinds have in common (pure) |
//! | [`tenant_cluster`], [`node_pool`] | the answer to one AdmissionReview (pure) |
//! | [`body`] | bodies of requests: deadline, and a budget of bytes |
//! | [`router`] | paths, and the way from a body to an answer |
//! | [`certificate`] | what the serving certificate and `caBundle` should be, step by step (pure) |
//! | [`server`] | the server, and the loop that takes those steps (thin) |
//!
//! Invariant: the webhook decides from memory alone; it never calls the API while it answers.

pub mod body;
pub mod certificate;
pub mod node_pool;
mod review;
pub mod router;
pub mod server;
pub mod tenant_cluster;
#[cfg(test)]
mod tests;
pub mod validator;
