//! What Covey's programs show as metrics, in one list, and what is made of it.
//!
//! | Module | What it is |
//! |---|---|
//! | [`metric`] | what there is to say of one metric |
//! | [`catalogue`] | all of them, by where in the code they are registered |
//! | [`exposition`] | what a program really shows, read back and compared with the list |
//! | [`reference`](mod@reference) | the list as a page for people, `docs/metrics.md` |
//! | [`rule`], [`rules`], [`alerts`] | what a rule is, and all of them: what is recorded, burn rates, alerts |
//! | [`dashboard`], [`dashboards`] | what a dashboard of Grafana is, and all of them |
//! | [`expression`], [`foreign`] | which metrics an expression asks for, and those of others among them |
//!
//! Invariant: no I/O and no clock. Programs do not use this crate, their tests do: what one shows and what stands
//! here are the same, or a test says where they differ.

pub mod alerts;
pub mod catalogue;
pub mod dashboard;
pub mod dashboards;
pub mod exposition;
pub mod expression;
pub mod foreign;
pub mod metric;
pub mod reference;
pub mod rule;
pub mod rules;
