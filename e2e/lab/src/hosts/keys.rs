//! Keys of hosts, and of who logs in. ssh-keygen makes them.
//!
//! Invariant: a private key is readable by root alone, and one that is there is never made again.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{layout::Layout, run};

/// The key with which a user logs in at every host of this checkout: its private half's path.
pub(super) fn of_user(layout: &Layout) -> Result<PathBuf> {
    let path = layout.ssh_key();
    if !path.exists() {
        make(&path, "covey-lab")?;
    }
    Ok(path)
}

/// The key of one host, at `path`.
pub(super) fn of_host(path: &Path, name: &str) -> Result<()> {
    make(path, name)
}

/// The public half of the key at `path`, as one line without its comment.
pub(super) fn public(path: &Path) -> Result<String> {
    let path = path.with_extension("pub");
    let text =
        fs::read_to_string(&path).with_context(|| format!("{}: not readable", path.display()))?;
    let mut words = text.split_whitespace();
    let (kind, key) = (words.next(), words.next());
    let key = kind.zip(key).map(|(kind, key)| format!("{kind} {key}"));
    key.with_context(|| format!("{}: no key", path.display()))
}

fn make(path: &Path, comment: &str) -> Result<()> {
    let folder = path.parent().context("a path without folder")?;
    fs::create_dir_all(folder)?;
    let make = ["-q", "-t", "ed25519", "-N", "", "-C", comment, "-f"];
    run::output(run::command("ssh-keygen", make).arg(path))?;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o600),
    )?)
}
