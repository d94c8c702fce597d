//! Container images of the lab, without a container engine: written as OCI layouts and pushed.
//!
//! Invariant: the same files make the same image, byte for byte, on every machine; what a registry
//! has already is not pushed again.

mod catalogue;
mod layout;
mod push;
mod tar;

use std::path::PathBuf;

pub use catalogue::{control_plane, coredns, etcd, kube_proxy, operator, pause, testbox};
pub use layout::{Layout, write};
pub use push::ensure_pushed;

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
    /// User and group id; [`NONROOT`] unless there is a reason.
    pub user: u32,
    /// `NAME=value`.
    pub env: Vec<String>,
}

/// A set of files. Directories above them come by themselves, owned by root, mode 0755.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layer {
    /// In any order: layers are written sorted by path.
    pub files: Vec<File>,
}

/// One file of a layer. It belongs to root: what runs in the image only reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Absolute.
    pub path: String,
    /// Where its content comes from.
    pub source: Source,
    /// Permissions, as in `0o755`. Symbolic links have none of their own.
    pub mode: u32,
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
    /// An executable of this machine.
    pub fn program(path: impl Into<String>, from: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            source: Source::Path(from.into()),
            mode: 0o755,
        }
    }

    /// A symbolic link at `path` to `target`.
    pub fn link(path: impl Into<String>, target: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            source: Source::Link(target.into()),
            mode: 0o777,
        }
    }

    /// A readable text.
    pub fn text(path: impl Into<String>, text: &str) -> Self {
        Self {
            path: path.into(),
            source: Source::Bytes(text.into()),
            mode: 0o644,
        }
    }
}

#[cfg(test)]
mod tests;
