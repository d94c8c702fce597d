//! A folder of blobs: each is called by its digest, and there only when it is whole.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What a blob is called, and how long it is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Blob {
    pub(crate) digest: String,
    pub(crate) size: u64,
}

impl Blob {
    pub(crate) fn descriptor(&self, media_type: &str) -> Value {
        json!({ "mediaType": media_type, "digest": self.digest, "size": self.size })
    }
}

/// `blobs/sha256/<digest>` below a folder.
pub(crate) struct Blobs {
    root: PathBuf,
}

impl Blobs {
    pub(crate) fn open(root: &Path) -> anyhow::Result<Self> {
        let dir = root.join("blobs/sha256");
        fs::create_dir_all(&dir).with_context(|| format!("{} cannot be made", dir.display()))?;
        Ok(Self {
            root: root.to_owned(),
        })
    }

    pub(crate) fn path(&self, digest: &str) -> PathBuf {
        self.root
            .join("blobs/sha256")
            .join(digest.trim_start_matches("sha256:"))
    }

    /// serde_json sorts keys, so equal values are equal bytes.
    pub(crate) fn json(&self, value: &Value) -> anyhow::Result<Blob> {
        let text = serde_json::to_vec(value)?;
        self.write(|to| Ok(to.write_all(&text)?))
    }

    pub(crate) fn write(
        &self,
        write: impl FnOnce(&mut Hashing<fs::File>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Blob> {
        let file = tempfile::NamedTempFile::new_in(&self.root)?;
        let mut hashing = Hashing::new(file.reopen()?);
        write(&mut hashing)?;
        let (_, blob) = hashing.finish()?;
        // Whoever publishes a layout need not be who wrote it.
        file.as_file()
            .set_permissions(fs::Permissions::from_mode(0o644))?;
        let path = self.path(&blob.digest);
        file.persist(&path)
            .with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(blob)
    }
}

/// Hashes and counts what passes through.
pub(crate) struct Hashing<W: Write> {
    to: BufWriter<W>,
    hash: Sha256,
    size: u64,
}

impl<W: Write> Hashing<W> {
    pub(crate) fn new(to: W) -> Self {
        Self {
            to: BufWriter::with_capacity(1 << 20, to),
            hash: Sha256::new(),
            size: 0,
        }
    }

    /// What it wrote to, and what that is called.
    pub(crate) fn finish(self) -> io::Result<(W, Blob)> {
        let to = self
            .to
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        let digest = format!("sha256:{}", hex::encode(self.hash.finalize()));
        let size = self.size;
        Ok((to, Blob { digest, size }))
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
