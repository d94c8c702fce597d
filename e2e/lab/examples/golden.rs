//! Makes golden files for an image of etcd-agent, of programs that are built already, and prints what `config.goldenStarts` says of
//! them: `operator print golden | cargo run -p lab --example golden -- FOLDER 1.35 1.36`.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use anyhow::Context as _;
use lab::golden::{self, Wanted};
use lab::programs::{self, KubernetesVersion, Program};

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().context("say into which folder")?;
    let versions = arguments.map(|text| text.parse());
    let versions = versions.collect::<anyhow::Result<Vec<KubernetesVersion>>>()?;
    let wanted: Wanted = serde_json::from_reader(io::stdin())
        .context("the standard input is not what `operator print golden` says")?;
    let kubernetes = versions.iter().map(|version| Program::kubernetes(*version));
    let bins = programs::find(&kubernetes.chain([Program::ETCD]).collect::<Vec<_>>())?;
    let mut entries = BTreeMap::new();
    for version in versions {
        let made = golden::ensure(&bins, version, &wanted, &PathBuf::from(&folder))?;
        entries.insert(version.to_string(), made.entry());
    }
    println!("{}", serde_json::to_string_pretty(&entries)?);
    Ok(())
}
