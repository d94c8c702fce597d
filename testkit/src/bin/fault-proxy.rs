//! The fault proxy as a program.
fn main() {}
