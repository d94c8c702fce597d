//! Reads what `insight` judges, for the command line and the dashboard.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`request`] | pages of lists as tables and as objects |
//! | [`table`] | the tables that the API server makes |
//! | [`reader`] | lists and objects as facts, or why they are not known |
//! | [`cluster`] | the facts of one tenant cluster |
//! | [`installation`] | the facts of a whole installation |
//! | [`before`] | the facts of a management cluster that is to have one |
//! | [`inside`] | what is inside a tenant cluster |
//!
//! Invariant: nothing is written, no Secret is read, and every list has a bound. What could not be read is unknown
//! and never absent.

pub mod before;
pub mod cluster;
pub mod inside;
pub mod installation;
pub mod reader;
pub mod request;
pub mod table;
