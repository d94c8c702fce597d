//! The process of `e2e::agent`: see there. For the lab alone.

use clap::Parser;
use e2e::agent::{Options, run};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    run(Options::parse()).await
}
