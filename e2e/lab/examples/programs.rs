//! Builds the programs of the lab without starting anything, for warming a cache:
//! `cargo run -p lab --example programs -- 1.34 1.35`. Prints where each program is.

use lab::programs::{self, KubernetesVersion, Program};
use lab::progress::Progress;

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn main() -> anyhow::Result<()> {
    let mut wanted = Program::ALL.to_vec();
    for text in std::env::args().skip(1) {
        wanted.push(Program::kubernetes(text.parse::<KubernetesVersion>()?));
    }
    let progress = Progress::new();
    let bins = programs::ensure(&wanted, &progress)?;
    progress.show_summary();
    for program in wanted {
        println!("{}", bins.dir(program)?.display());
    }
    Ok(())
}
