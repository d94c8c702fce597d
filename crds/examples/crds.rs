//! Prints every CustomResourceDefinition as a JSON list, for `cargo xtask crds`.
//!
//! Invariant: the output depends on the types alone.

fn main() -> Result<(), serde_json::Error> {
    serde_json::to_writer(std::io::stdout().lock(), &api::crds())
}
