//! Pushes the lab's images to a registry, for looking at them by hand:
//! `cargo run -p lab --example images -- 127.0.0.1:5000 1.34 1.35`. Builds nothing.

use anyhow::Context as _;
use lab::images;
use lab::programs::{self, KubernetesVersion, Program};
use lab::progress::Progress;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let registry = arguments
        .next()
        .context("say which registry, as in 127.0.0.1:5000")?;
    let versions = arguments.map(|text| text.parse());
    let versions = versions.collect::<anyhow::Result<Vec<KubernetesVersion>>>()?;
    let kubernetes = versions.iter().map(|version| Program::kubernetes(*version));
    let bins = programs::find(&kubernetes.chain(Program::BASIC).collect::<Vec<_>>())?;
    let mut all = vec![
        images::etcd(&bins)?,
        images::pause(&bins)?,
        images::coredns(&bins)?,
    ];
    for version in &versions {
        all.extend(images::control_plane(&bins, *version)?);
        all.push(images::kube_proxy(&bins, *version)?);
    }
    if let Some(newest) = versions.last() {
        all.push(images::testbox(&bins, *newest)?);
    }
    images::ensure_pushed(&all, &registry, &bins, &Progress::new())
}
