//! Pages of tenant clusters for people, in their browsers.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`args`], [`run`] | the command line, and the process |
//! | [`token`] | what was pasted at log-in: a token, or a kubeconfig that has one (pure) |
//! | [`random`] | identifiers that nobody guesses |
//! | [`sessions`] | who is logged in: bounded in number and life |
//! | [`upstream`] | the client of one user, with the user's token |
//! | [`access`] | what a user may do, so that a button says why it is off (pure) |
//! | [`origin`] | whether a request comes from a page of ours (pure) |
//! | [`headers`] | what every answer says to browsers |
//! | [`kinds`] | the kinds that have pages (pure) |
//! | [`live`] | one watch per session and kind, and the streams that tell of it |
//! | [`paths`], [`query`] | addresses of pages, and what stands in a request (pure) |
//! | [`problem`] | what went wrong, in words (pure) |
//! | [`form`] | the forms: fields, what is wrong with them, the objects they make (pure) |
//! | [`pages`] | from what was read to HTML (pure) |
//! | [`handlers`] | what is read and written for each page |
//! | [`assets`] | style, script and picture |
//! | [`router`] | all of it behind one service |
//!
//! Invariant: the dashboard has no rights of its own. Every request to the API carries the token of the user who
//! looks, which stays on this side: no page, log or cookie has it. No page shows a Secret.

pub mod access;
pub mod args;
pub mod assets;
pub mod form;
mod handlers;
pub mod headers;
pub mod kinds;
pub mod live;
pub mod origin;
pub mod pages;
pub mod paths;
pub mod problem;
pub mod query;
pub mod random;
pub mod router;
pub mod run;
pub mod sessions;
pub mod token;
pub mod upstream;
