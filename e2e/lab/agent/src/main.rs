//! The process of `lab_agent`: see there. For the lab alone.

use clap::Parser;
use lab_agent::{Options, run};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    Box::pin(run(Options::parse())).await
}
