//! What is read and written for each page.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`app`] | what all of them share |
//! | [`visitor`] | who asks, and what was sent |
//! | [`login`], [`lists`], [`clusters`], [`objects`], [`create`], [`delete`], [`follow`] | the pages |
//!
//! Invariant: everything is asked of the API with the token of who asks, and what changes something was sent by a form
//! of theirs.

pub(crate) mod app;
pub(crate) mod clusters;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod follow;
pub(crate) mod lists;
pub(crate) mod login;
pub(crate) mod objects;
pub(crate) mod visitor;
