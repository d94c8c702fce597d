//! Suites that run against the lab, from outside
