//! The fault proxy as a process: `fault-proxy SETTINGS.json`, or `fault-proxy --fingerprint`.
//!
//! Invariant: nothing but starting; everything else is in `testkit::proxy`.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use testkit::proxy;

#[tokio::main]
async fn main() -> Result<()> {
    let argument = std::env::args()
        .nth(1)
        .context("usage: fault-proxy SETTINGS.json")?;
    if argument == "--fingerprint" {
        writeln!(std::io::stdout(), "{}", proxy::FINGERPRINT).context("cannot write")?;
        return Ok(());
    }
    proxy::run(Path::new(&argument)).await
}
