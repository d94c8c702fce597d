//! Mounts of overlayfs: trees that stay as they are below, and what is written above them.
//!
//! Invariant: no path, whatever characters it has, is read as an option or as two layers.

use std::{
    ffi::CString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount};

/// Mounts `trees`, the uppermost first, on `place`. What is written goes to `layers/upper`.
pub(super) fn mount_on(trees: &[PathBuf], layers: &Path, place: &Path) -> Result<()> {
    let (upper, work) = (layers.join("upper"), layers.join("work"));
    fs::create_dir_all(&upper)?;
    fs::create_dir_all(&work)?;
    let options =
        CString::new(options(trees, &upper, &work)).context("a path holds a zero byte")?;
    mount(
        "overlay",
        place,
        "overlay",
        MountFlags::empty(),
        Some(options.as_c_str()),
    )
    .with_context(|| format!("{}: no overlay", place.display()))
}

fn options(trees: &[PathBuf], upper: &Path, work: &Path) -> String {
    let trees: Vec<_> = trees.iter().map(|tree| escaped(tree)).collect();
    format!(
        "lowerdir={},upperdir={},workdir={}",
        trees.join(":"),
        escaped(upper),
        escaped(work)
    )
}

/// overlayfs splits its options at commas and its layers at colons.
fn escaped(path: &Path) -> String {
    let path = path.to_string_lossy().replace('\\', "\\\\");
    path.replace(',', "\\,").replace(':', "\\:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_colons_of_paths_are_no_separators() {
        let trees = [PathBuf::from("/a:b"), PathBuf::from("/c")];
        let options = options(&trees, Path::new("/u,v"), Path::new("/w"));
        assert_eq!(options, "lowerdir=/a\\:b:/c,upperdir=/u\\,v,workdir=/w");
    }
}
