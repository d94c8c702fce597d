//! Prints every CustomResourceDefinition as one JSON list; `cargo xtask crds` writes it as YAML.
//!
//! Invariant: an example and not a binary, so that the crate stays a library without I/O.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &api::crds())?;
    writeln!(out)
}
