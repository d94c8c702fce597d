//! What decides an image: its layers, what is in them, and what runs in it.
//!
//! Invariant: nothing here reads a file.

use std::path::PathBuf;

/// The user of images that need no other: not root, and nobody's on the host.
pub const NONROOT: u32 = 65532;

/// An image to be: everything that decides its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The name that manifests use: `registry.k8s.io/etcd:3.6.16-0`.
    pub name: String,
    /// Lowest first. Images with an equal layer share it, on disk and in the registry.
    pub layers: Vec<Layer>,
    /// What runs when a pod names no `command`.
    pub entrypoint: Vec<String>,
    /// What follows the entrypoint when a pod names no `args`.
    pub command: Vec<String>,
    /// User and group id; [`NONROOT`] unless there is a reason.
    pub user: u32,
    /// `NAME=value`.
    pub env: Vec<String>,
}

/// A part of an image that others can share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layer {
    /// A set of files in any order: they are written sorted by path. Directories above them come by
    /// themselves, owned by root, mode 0755.
    Files(Vec<File>),
    /// A tar archive of this machine, taken as it is. It has no sparse entries: containerd refuses
    /// them.
    Archive(PathBuf),
}

/// One file of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Absolute.
    pub path: String,
    /// Where its content comes from.
    pub source: Source,
    /// Permissions, as in `0o755`. Symbolic links have none of their own.
    pub mode: u32,
    /// User and group id; root unless what runs in the image writes it.
    pub owner: u32,
    /// A capability (its number, capabilities(7)) that the program gets whoever runs it.
    pub capability: Option<u8>,
}

/// The content of a [`File`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A regular file of this machine, followed through links.
    Path(PathBuf),
    /// Exactly these bytes.
    Bytes(Vec<u8>),
    /// A symbolic link to this target.
    Link(String),
    /// An empty directory.
    Directory,
}

impl Image {
    /// Where the image is in a registry that stands for all others: `<registry>/<name without its
    /// own registry>`. That is what containerd asks a mirror of its `hosts.toml` for.
    #[must_use]
    pub fn reference_at(&self, registry: &str) -> String {
        // The first part is a host when it looks like one (the rule of docker's references).
        let path = match self.name.split_once('/') {
            Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => path,
            _ => &self.name,
        };
        format!("{registry}/{path}")
    }
}

impl File {
    fn new(path: impl Into<String>, source: Source, mode: u32) -> Self {
        Self {
            path: path.into(),
            source,
            mode,
            owner: 0,
            capability: None,
        }
    }

    /// An executable of this machine.
    pub fn program(path: impl Into<String>, from: impl Into<PathBuf>) -> Self {
        Self::new(path, Source::Path(from.into()), 0o755)
    }

    /// A readable file of this machine.
    pub fn data(path: impl Into<String>, from: impl Into<PathBuf>) -> Self {
        Self::new(path, Source::Path(from.into()), 0o644)
    }

    /// A symbolic link at `path` to `target`.
    pub fn link(path: impl Into<String>, target: impl Into<String>) -> Self {
        Self::new(path, Source::Link(target.into()), 0o777)
    }

    /// A readable text.
    pub fn text(path: impl Into<String>, text: &str) -> Self {
        Self::new(path, Source::Bytes(text.into()), 0o644)
    }

    /// A readable file with exactly these bytes.
    pub fn bytes(path: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self::new(path, Source::Bytes(bytes), 0o644)
    }

    /// An executable text.
    pub fn script(path: impl Into<String>, text: &str) -> Self {
        Self::new(path, Source::Bytes(text.into()), 0o755)
    }

    /// An empty directory.
    pub fn directory(path: impl Into<String>, mode: u32) -> Self {
        Self::new(path, Source::Directory, mode)
    }

    /// The same file as that of a user with a group of the same number.
    #[must_use]
    pub fn owned_by(self, owner: u32) -> Self {
        Self { owner, ..self }
    }

    /// The same program with a capability of its own.
    #[must_use]
    pub fn with_capability(self, number: u8) -> Self {
        Self {
            capability: Some(number),
            ..self
        }
    }
}

#[cfg(test)]
mod tests;
