//! Builds the worker image of some Kubernetes versions without starting anything:
//! `cargo run -p lab --example worker -- 1.34 1.35`. Prints where its files are.

use kit_oci::image::Layer;
use lab::programs::{self, KubernetesVersion};
use lab::progress::Progress;
use lab::{Layout, worker};

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn main() -> anyhow::Result<()> {
    let (layout, progress) = (Layout::discover()?, Progress::new());
    for text in std::env::args().skip(1) {
        let version = text.parse::<KubernetesVersion>()?;
        let bins = programs::ensure(&worker::programs(version), &progress)?;
        let image = worker::image(&layout, &bins, version, &progress)?;
        for layer in image.layers {
            if let Layer::Files(files) = layer {
                files
                    .into_iter()
                    .for_each(|file| println!("{} {:?}", file.path, file.source));
            }
        }
    }
    progress.show_summary();
    Ok(())
}
