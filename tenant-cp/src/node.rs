//! What a machine needs to become a node, and to stay one: user data, a bootstrap token, certificates.
//!
//! Invariant: each is a function of its input; who asks brings time and chance along.

pub mod bootstrap_token;
pub mod client_certificate;
mod host_files;
pub mod renewal;
pub mod serving_certificate;
pub mod user_data;
