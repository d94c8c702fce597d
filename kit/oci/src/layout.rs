//! Writes images into a cache as OCI image layouts (image-spec 1.1, `image-layout.md`).
//!
//! Invariant: a blob's name is its digest and its file is whole. All layouts share one folder of
//! blobs, so a layer that ten images use is there once.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::blobs::{Blob, Blobs};
use crate::image::{Image, Layer, Source};
use crate::media::{CONFIG, INDEX, LAYER, LAYOUT, MANIFEST};
use crate::tar;

const EPOCH: &str = "1970-01-01T00:00:00Z";

/// An image that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// An OCI image layout with this one image.
    pub dir: PathBuf,
    /// `sha256:…` of its manifest: what `image@digest` and a registry call it.
    pub digest: String,
}

/// Writes `image` below `cache` unless it is there. Layers are not compressed: such images travel over loopback, and Go
/// binaries take seconds to compress.
///
/// # Errors
/// A source is missing or the cache cannot be written.
pub fn write(image: &Image, cache: &Path) -> anyhow::Result<Layout> {
    let store = Store::open(cache)?;
    let layers = image.layers.iter().map(|layer| store.layer(layer));
    let layers = layers.collect::<anyhow::Result<Vec<_>>>();
    let layers = layers.with_context(|| format!("{} cannot be written", image.name))?;
    let config = store.blobs.json(&config(image, &layers))?;
    let layers: Vec<_> = layers.iter().map(|layer| layer.descriptor(LAYER)).collect();
    let manifest = store.blobs.json(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor(CONFIG),
        "layers": layers,
    }))?;
    store.layout(&manifest)
}

fn config(image: &Image, layers: &[Blob]) -> Value {
    let user = image.user;
    let layers: Vec<_> = layers.iter().map(|layer| &layer.digest).collect();
    json!({
        "created": EPOCH,
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "User": format!("{user}:{user}"),
            "Env": image.env,
            "Entrypoint": image.entrypoint,
            "Cmd": image.command,
            "WorkingDir": "/",
        },
        "rootfs": { "type": "layers", "diff_ids": layers },
    })
}

/// Go's name of this machine's architecture, which is what images use.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `blobs/sha256/<digest>`, `layers/<identity of the sources>` (which blob they made) and
/// `layouts/<digest of the manifest>/`.
struct Store {
    root: PathBuf,
    blobs: Blobs,
}

impl Store {
    fn open(root: &Path) -> anyhow::Result<Self> {
        for dir in ["layers", "layouts"] {
            let dir = root.join(dir);
            fs::create_dir_all(&dir)
                .with_context(|| format!("{} cannot be made", dir.display()))?;
        }
        Ok(Self {
            root: root.to_owned(),
            blobs: Blobs::open(root)?,
        })
    }

    /// A layer's blob. Sources that kept size, time and inode are taken for unchanged: reading
    /// 150 MB again for every image would take longer than all the rest.
    fn layer(&self, layer: &Layer) -> anyhow::Result<Blob> {
        let memo = self.root.join("layers").join(identity(layer)?);
        let known = fs::read(&memo)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        if let Some(known) = known {
            let known: Blob = known;
            let size = fs::metadata(self.blobs.path(&known.digest)).map(|meta| meta.len());
            if size.is_ok_and(|size| size == known.size) {
                return Ok(known);
            }
        }
        let blob = self.blobs.write(|to| match layer {
            Layer::Files(files) => tar::write(files, 0, to),
            Layer::Archive(path) => {
                let mut archive = fs::File::open(path)
                    .with_context(|| format!("{} cannot be read", path.display()))?;
                io::copy(&mut archive, to)?;
                Ok(())
            }
        })?;
        self.put(&memo, &serde_json::to_vec(&blob)?)?;
        Ok(blob)
    }

    fn layout(&self, manifest: &Blob) -> anyhow::Result<Layout> {
        let dir = self
            .root
            .join("layouts")
            .join(manifest.digest.trim_start_matches("sha256:"));
        let layout = Layout {
            dir: dir.clone(),
            digest: manifest.digest.clone(),
        };
        if dir.is_dir() {
            return Ok(layout);
        }
        let partial = tempfile::TempDir::new_in(&self.root)?;
        let index = json!({
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [manifest.descriptor(MANIFEST)],
        });
        fs::write(
            partial.path().join("index.json"),
            serde_json::to_vec(&index)?,
        )?;
        fs::write(partial.path().join("oci-layout"), LAYOUT)?;
        symlink("../../blobs", partial.path().join("blobs"))?;
        match fs::rename(partial.path(), &dir) {
            // Gone by the rename: there is nothing left to remove.
            Ok(()) => drop(partial.keep()),
            Err(_) if dir.is_dir() => {} // another process was faster with the same
            Err(error) => bail!("{} cannot be put in place: {error}", dir.display()),
        }
        Ok(layout)
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.root)?;
        file.write_all(bytes)?;
        file.persist(path)
            .with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(())
    }
}

/// Names the sources of a layer without reading those that are files.
fn identity(layer: &Layer) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    let files = match layer {
        Layer::Files(files) => files,
        Layer::Archive(path) => {
            hash.update(format!("archive {}", unread(path)?));
            return Ok(hex::encode(hash.finalize()));
        }
    };
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    for file in files {
        let source = match &file.source {
            Source::Path(path) => unread(path)?,
            Source::Bytes(bytes) => format!("bytes {}", hex::encode(Sha256::digest(bytes))),
            Source::Link(target) => format!("link {target:?}"),
            Source::Directory => "directory".to_owned(),
        };
        let about = (file.owner, file.capability);
        hash.update(format!(
            "{:?} {:o} {about:?} {source}\n",
            file.path, file.mode
        ));
    }
    Ok(hex::encode(hash.finalize()))
}

/// What tells a file from any other that was at its path before.
fn unread(path: &Path) -> anyhow::Result<String> {
    let meta = fs::metadata(path).with_context(|| format!("{} is not there", path.display()))?;
    let (time, nanos) = (meta.mtime(), meta.mtime_nsec());
    let (device, inode, size) = (meta.dev(), meta.ino(), meta.len());
    Ok(format!("{path:?} {device} {inode} {time} {nanos} {size}"))
}

#[cfg(test)]
mod tests;
