//! Trees of Debian: the files of an installed system with a few packages, made by mmdebstrap.
//!
//! Invariant: a tree in the cache is as mmdebstrap made it. Whoever wants to change something
//! copies it first (`cp --archive`: owners, modes, capabilities and hard links count). No mount is
//! left behind, not even by a killed run: mmdebstrap works in mount and PID namespaces of its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    cached::{Folder, Key},
    packages,
    progress::Progress,
    run,
};

/// Raised when the way of building changes in a manner that no field of [`Tree`] shows.
const RECIPE: &str = "1";
/// Raised when an archive is made in another way.
const ARCHIVE_RECIPE: &str = "1";
/// Its name in its folder.
const ARCHIVE: &str = "system.tar";
/// Debian 12: what it has of KubeVirt's needs was proven, and its kernel is one for virtual machines.
const SUITE: &str = "bookworm";
/// What makes a tree.
const PACKAGES: [&str; 3] = ["debian-archive-keyring", "mmdebstrap", "util-linux"];

/// Which tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree<'a> {
    /// For people, and the beginning of the folder's name.
    pub name: &'a str,
    /// Packages beside the essential ones; what they recommend does not come with them.
    pub packages: &'a [&'a str],
    /// Files that are never unpacked, as dpkg's `path-exclude` takes them: `/usr/share/doc/*`.
    pub without: &'a [&'a str],
}

impl Tree<'_> {
    /// Builds the tree unless it is in the cache; says where it is. A minute and a half with root's
    /// rights and Debian's mirror within reach.
    ///
    /// # Errors
    /// mmdebstrap cannot be had or failed; the error ends with what it said.
    pub fn ensure(&self, progress: &Progress) -> Result<PathBuf> {
        let folder = self.folder();
        if !folder.place()?.is_dir() {
            packages::ensure(&PACKAGES, progress)?;
        }
        folder.ensure(progress, |into, step| {
            run::watched(&mut self.command(into), step).context(
                "mmdebstrap needs root's rights and a mirror of Debian (set http_proxy where one \
                 is behind a proxy)",
            )
        })
    }

    /// The tree as one archive, a layer of an image: ten thousand files are better read once. Made unless it is in
    /// the cache.
    ///
    /// # Errors
    /// As [`Self::ensure`], or tar failed.
    pub fn archive(&self, progress: &Progress) -> Result<PathBuf> {
        let tree = self.ensure(progress)?;
        let mut key = Key::default();
        key.add(ARCHIVE_RECIPE)
            .add(tree.to_string_lossy().as_bytes());
        let folder = Folder {
            kind: "archives",
            name: self.name,
            key: key.text(),
            doing: format!("packing the system of {}", self.name),
            expect: "some seconds",
        };
        let folder = folder.ensure(progress, |into, step| {
            let mut tar = run::command("tar", ["--create", "--sort=name", "--mtime=@0"]);
            // No sparse entries: containerd refuses them.
            tar.args(["--numeric-owner", "--format=pax"])
                .args(["--pax-option=delete=atime,delete=ctime"])
                .args(["--xattrs", "--xattrs-include=security.capability"])
                .args(["--exclude=./dev/*", "--exclude=./var/cache/apt/*"])
                .args(["--exclude=./var/lib/apt/lists/*", "--file"])
                .arg(into.join(ARCHIVE))
                .arg("--directory")
                .arg(&tree)
                .arg(".");
            run::watched(&mut tar, step)
        })?;
        Ok(folder.join(ARCHIVE))
    }

    /// Where it is, or would be.
    pub(crate) fn place(&self) -> Result<PathBuf> {
        self.folder().place()
    }

    fn folder(&self) -> Folder<'_> {
        let mut key = Key::default();
        key.add(RECIPE).add(SUITE);
        for list in [self.packages, self.without] {
            key.add(list.join(" "));
        }
        Folder {
            kind: "debian",
            name: self.name,
            key: key.text(),
            doing: format!("installing Debian for {}", self.name),
            expect: "about 1 min",
        }
    }

    fn command(&self, into: &Path) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["mmdebstrap", "--quiet", "--mode=root", "--format=directory"])
            .args(["--variant=essential", "--aptopt=Acquire::Retries \"3\""])
            // Nobody needs what a power cut leaves of a tree: it would be built again.
            .arg("--dpkgopt=force-unsafe-io")
            .args(
                self.without
                    .iter()
                    .map(|path| format!("--dpkgopt=path-exclude={path}")),
            )
            .arg(format!("--include={}", self.packages.join(",")))
            .arg(SUITE)
            .arg(into)
            // Times in caches and logs of the tree.
            .env("SOURCE_DATE_EPOCH", "0")
            // linux-image's script: without it a general initrd is built, which takes a minute.
            .env("INITRD", "No");
        command
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;

    const TREE: Tree<'_> = Tree {
        name: "tools",
        packages: &["mount", "xorriso"],
        without: &["/usr/share/doc/*"],
    };

    #[test]
    fn another_package_or_file_makes_another_tree() {
        let name = |tree: &Tree<'_>| tree.folder().key;
        let more = Tree {
            packages: &["mount", "xorriso", "acl"],
            ..TREE
        };
        let less = Tree {
            without: &[],
            ..TREE
        };
        assert_eq!(name(&TREE), name(&TREE.clone()));
        assert_ne!(name(&TREE), name(&more));
        assert_ne!(name(&TREE), name(&less));
    }

    #[test]
    fn mounts_of_the_build_die_with_it() {
        let command = TREE.command("/x".as_ref());
        let args: Vec<_> = command
            .get_args()
            .map(|arg| arg.to_string_lossy())
            .collect();
        assert_eq!(command.get_program(), "unshare");
        assert_eq!(args[0], "--mount");
        assert!(args.contains(&"--kill-child".into()));
        assert!(args.contains(&"--include=mount,xorriso".into()));
        assert_eq!(args.last().unwrap(), "/x");
    }
}
