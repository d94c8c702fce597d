//! Certificates of a tenant cluster: what is wanted ([`want`]), what there is and what is due
//! ([`inspect`]), and the making of it ([`issue`]). [`request`] reads what others ask to be signed, and [`sealed`] is for
//! what only one other side may read.
//!
//! Invariant: only [`issue`] and [`sealed`] are random; everything else is a function of its input, the time
//! included. Every key of a certificate is EC P-256.

pub mod inspect;
pub mod issue;
mod proven;
pub mod request;
pub mod sealed;
pub mod want;

pub use inspect::{
    AuthorityProblem, Due, Issued, Reason, as_issued, authority_problems, certificate_fingerprints,
    first_certificate, is_crossed, issued, not_after, plan, public_key_digest, public_key_pins,
};
pub use issue::{Error, cross, issue, renew};
pub use want::{Key, KeyPair, Signer, Store, Want};
