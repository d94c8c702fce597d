//! Suites that run against the lab, from outside

pub mod agent;
