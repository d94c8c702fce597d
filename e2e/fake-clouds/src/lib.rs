//! Clouds that tests play: their APIs over HTTP, as far as Covey's providers ask them.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`clock`] | the time, which passes when a test says so |
//! | [`faults`] | what goes wrong with which request |
//! | [`journal`] | what was asked and what came of it: duplicates and orphans are counted here |
//! | [`aws`] | EC2 of Amazon Web Services |
//! | [`azure`] | virtual machines of Azure |
//! | [`gcp`] | Compute Engine of the Google Cloud |
//! | [`hetzner`] | the Hetzner Cloud |
//!
//! Invariant: a fake knows nothing of whoever asks it, and does what its vendor documents; where the documentation says
//! nothing, it does what makes it harder, and says so beside it.

mod answer;
pub mod aws;
pub mod azure;
pub mod clock;
pub mod faults;
pub mod gcp;
pub mod hetzner;
pub mod journal;
mod late;
mod query;
mod serve;
