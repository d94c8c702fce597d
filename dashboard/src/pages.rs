//! From what was read to HTML.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`layout`] | what is around every page |
//! | [`parts`] | states, times, tables |
//! | [`login`], [`list`], [`cluster`], [`object`], [`fields`], [`confirm`], [`problem`], [`reasons`] | the pages |
//!
//! Invariant: pure. Every text is escaped, and what others wrote went through `insight::text` besides; there is no
//! script, style or address of another site in any page.

pub mod cluster;
pub mod confirm;
pub mod fields;
pub mod layout;
pub mod list;
pub mod login;
pub mod object;
pub mod parts;
pub mod problem;
pub mod reasons;

#[cfg(test)]
pub(crate) mod tests;
