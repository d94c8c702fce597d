//! Builds programs of the lab without starting anything, for warming a cache. By itself it builds
//! what every lab needs; `cargo run -p lab --example programs -- 1.34 1.35 kubevirt` builds those
//! named. Prints where each program is.

use lab::programs::{self, KubernetesVersion, Program};
use lab::progress::Progress;

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn main() -> anyhow::Result<()> {
    let mut wanted = Vec::new();
    for text in std::env::args().skip(1) {
        let mut named = Program::BASIC
            .into_iter()
            .chain(Program::KUBEVIRTS)
            .chain(Program::WORKERS)
            .chain(Program::STORAGE)
            .chain(Program::REFERENCES);
        let named = named.find(|program| program.name() == text);
        wanted.push(match named {
            Some(program) => program,
            None => Program::kubernetes(text.parse::<KubernetesVersion>()?),
        });
    }
    if wanted.is_empty() {
        wanted = Program::BASIC.to_vec();
    }
    let progress = Progress::new();
    let bins = programs::ensure(&wanted, &progress)?;
    progress.show_summary();
    for program in wanted {
        println!("{}", bins.dir(program)?.display());
    }
    Ok(())
}
