//! The validating webhook: an HTTPS endpoint in processes of its own, and its certificate, which the
//! operator that leads keeps (docs/adr/0011).
//!
//! | Module | What it holds |
//! |---|---|
//! | [`validator`] | what objects are validated with: settings, and our kinds as last seen |
//! | [`review`] | what the answers to AdmissionReviews of all kinds have in common (pure) |
//! | [`tenant_cluster`], [`node_pool`] | the answer to one AdmissionReview (pure) |
//! | [`body`] | bodies of requests: deadline, and a budget of bytes |
//! | [`values`] | how many values a body may hold before a tree is made of it (pure) |
//! | [`router`] | paths, and the way from a body to an answer |
//! | [`reviews`] | what is counted of that |
//! | [`certificate`] | what the serving certificate and `caBundle` should be, step by step (pure) |
//! | [`keeper`] | the operator's side: the loop that takes those steps (thin) |
//! | [`stores`] | what the webhook decides from, and the watches that keep it |
//! | [`server`] | the webhook's side: the server, and the certificate that it takes from the Secret (thin) |
//!
//! Invariant: the webhook decides from memory alone; it never calls the API while it answers, and never
//! writes.

pub mod body;
pub mod certificate;
pub mod keeper;
pub mod node_pool;
mod review;
pub mod reviews;
pub mod router;
pub mod server;
pub mod stores;
pub mod tenant_cluster;
#[cfg(test)]
mod tests;
pub mod validator;
mod values;
mod watch;
