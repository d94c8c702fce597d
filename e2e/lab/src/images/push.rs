//! Pushes images with `crane` to a registry that stands for all others.
//!
//! Invariant: after success the registry answers every image's name with the digest that was
//! written; an image whose digest it has already costs one question.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, bail};
use kit_oci::image::Image;
use kit_oci::layout;

use crate::cache::cache_dir;
use crate::programs::Bins;
use crate::progress::Progress;

/// Writes `images` where needed and pushes to `registry` (`127.0.0.1:5000`) what it lacks.
///
/// Each is found there under [`Image::reference_at`]. `crane registry serve` keeps manifests in
/// memory: after its restart call this again; layers that its disk still has are not sent again.
///
/// # Errors
/// [`crate::programs::Program::REGISTRY`] was not asked for in `bins`, a source is missing, or the
/// registry does not answer.
pub fn ensure_pushed(
    images: &[Image],
    registry: &str,
    bins: &Bins,
    progress: &Progress,
) -> anyhow::Result<()> {
    let crane = bins.path("crane")?;
    let cache = cache_dir()?.join("images");
    let step = progress.step(format!("loading {} images", images.len()));
    let pushed = images.iter().try_for_each(|image| {
        step.detail(&image.name);
        push(image, registry, &crane, &cache)
            .with_context(|| format!("image {} cannot be pushed to {registry}", image.name))
    });
    step.finish(pushed)
}

fn push(image: &Image, registry: &str, crane: &Path, cache: &Path) -> anyhow::Result<()> {
    let layout = layout::write(image, cache)?;
    let reference = image.reference_at(registry);
    let there = run(crane, &["digest", "--insecure", &reference])?;
    if there.status.success() && there.stdout.trim_ascii() == layout.digest.as_bytes() {
        return Ok(());
    }
    let dir = layout
        .dir
        .to_str()
        .context("the cache's path is not UTF-8")?;
    let output = run(crane, &["push", "--insecure", dir, &reference])?;
    if !output.status.success() {
        bail!(
            "`crane push` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

fn run(crane: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
    Command::new(crane)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be run", crane.display()))
}
