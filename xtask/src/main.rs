//! The one entry point: `cargo xtask …`.
fn main() {}
