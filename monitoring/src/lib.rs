//! What Covey's programs show as metrics, in one list, and what is made of it.
//!
//! | Module | What it is |
//! |---|---|
//! | [`metric`] | what there is to say of one metric |
//! | [`catalogue`] | all of them, by where in the code they are registered |
//! | [`exposition`] | what a program really shows, read back and compared with the list |
//! | [`reference`](mod@reference) | the list as a page for people, `docs/metrics.md` |
//!
//! Invariant: no I/O and no clock. Programs do not use this crate, their tests do: what one shows and what stands
//! here are the same, or a test says where they differ.

pub mod catalogue;
pub mod exposition;
pub mod metric;
pub mod reference;
