//! Where this user's cache is.
//!
//! Invariant: it is the same folder for every checkout of one user.

use std::{env, path::PathBuf};

use anyhow::{Context as _, Result};

/// `$XDG_CACHE_HOME/covey` or `~/.cache/covey`: programs, images and Go's caches, shared by all
/// checkouts of one user and safe to delete while nothing runs.
///
/// # Errors
/// Neither `XDG_CACHE_HOME` nor `HOME` is an absolute path.
pub fn cache_dir() -> Result<PathBuf> {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("covey"))
        .context("set HOME or XDG_CACHE_HOME to an absolute path: the programs are kept there")
}
