//! What is wanted and what is there, of any kind of object: without I/O, clock or chance.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`object`] | one wanted object with its hash, and its key |
//! | [`kinds`] | the kinds that are read and written, so that nobody asks for discovery |
//! | [`difference`] | does live already hold what is desired |
//! | [`quantity`] | Kubernetes quantities and Go durations by value |
//! | [`known`] | there, absent for certain, or not known |
//! | [`rbac`] | RBAC rules declared beside the code that needs them |
//!
//! Invariant: no module knows a kind of Covey's beyond its name in [`kinds`].

pub mod difference;
pub mod kinds;
pub mod known;
pub mod object;
pub mod quantity;
pub mod rbac;
