//! Controllers: what is kept right without anybody asking.
//!
//! Invariant: a controller acts on what the cache shows and asks the API before it takes something
//! away; calls only write down what is to be.

pub mod attach;
