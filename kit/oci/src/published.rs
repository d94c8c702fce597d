//! Layouts to be published: an image for several architectures, with labels and packed layers; and artefacts.
//!
//! Invariant: a layout stands by itself and has one entry, as `crane push` and `skopeo copy` take it; the same images
//! with the same labels have the same bytes, whenever and wherever they are written.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::blobs::{Blob, Blobs, Hashing};
use crate::image::{Image, Layer};
use crate::media::{CONFIG, INDEX, LAYER_GZIP, LAYOUT, MANIFEST};
use crate::tar;

/// What is said of an image besides what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// When it was made (RFC 3339); of the sources, not of the clock, or no two are the same.
    pub created: String,
    /// Labels; also annotations of the index, where registries show them.
    pub labels: BTreeMap<String, String>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// `sha256:…` by which it is pulled: of the index, or of an artefact's manifest.
    pub digest: String,
    /// The manifest of each architecture, by its name (Go's: `amd64`).
    pub manifests: BTreeMap<String, String>,
}

/// What is no image: a configuration and one layer, as it is.
#[derive(Clone, Copy, Debug)]
pub struct Artefact<'a> {
    /// Media type and content of the configuration.
    pub config: (&'a str, &'a Value),
    /// Media type and content of the layer.
    pub layer: (&'a str, &'a [u8]),
    /// Annotations of the manifest.
    pub annotations: &'a BTreeMap<String, String>,
}

/// Writes the layout of one image into `dir`, which is made. `images` are the same for different architectures (Go's
/// names), in any order; `tag` is what the layout calls it.
///
/// # Errors
/// There is no image, one architecture is there twice, a source is missing, or `dir` cannot be written.
pub fn write(
    dir: &Path,
    tag: &str,
    images: &[(&str, &Image)],
    about: &About,
) -> anyhow::Result<Published> {
    let blobs = Blobs::open(dir)?;
    let mut manifests = BTreeMap::new();
    let mut described = Vec::new();
    let mut images = images.to_vec();
    images.sort_by_key(|(architecture, _)| *architecture);
    for (architecture, image) in images {
        let manifest = manifest(&blobs, architecture, image, about)
            .with_context(|| format!("{} for {architecture} cannot be written", image.name))?;
        let mut descriptor = manifest.descriptor(MANIFEST);
        descriptor["platform"] = json!({ "architecture": architecture, "os": "linux" });
        described.push(descriptor);
        let before = manifests.insert(architecture.to_owned(), manifest.digest);
        if before.is_some() {
            bail!("{architecture} is there twice");
        }
    }
    if manifests.is_empty() {
        bail!("there is no image");
    }
    let index = blobs.json(&json!({
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": described,
        "annotations": about.labels,
    }))?;
    finish(dir, tag, &index, INDEX)?;
    let digest = index.digest;
    Ok(Published { digest, manifests })
}

/// Writes the layout of an artefact into `dir`, which is made.
///
/// # Errors
/// `dir` cannot be written.
pub fn write_artefact(dir: &Path, tag: &str, artefact: &Artefact<'_>) -> anyhow::Result<Published> {
    let blobs = Blobs::open(dir)?;
    let config = blobs.json(artefact.config.1)?;
    let layer = blobs.write(|to| Ok(to.write_all(artefact.layer.1)?))?;
    let manifest = blobs.json(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor(artefact.config.0),
        "layers": [layer.descriptor(artefact.layer.0)],
        "annotations": artefact.annotations,
    }))?;
    finish(dir, tag, &manifest, MANIFEST)?;
    Ok(Published {
        digest: manifest.digest,
        manifests: BTreeMap::new(),
    })
}

fn manifest(
    blobs: &Blobs,
    architecture: &str,
    image: &Image,
    about: &About,
) -> anyhow::Result<Blob> {
    let layers = image.layers.iter().map(|layer| packed(blobs, layer));
    let layers = layers.collect::<anyhow::Result<Vec<_>>>()?;
    let (layers, plain): (Vec<_>, Vec<_>) = layers.into_iter().unzip();
    let user = image.user;
    let config = blobs.json(&json!({
        "created": about.created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": format!("{user}:{user}"),
            "Env": image.env,
            "Entrypoint": image.entrypoint,
            "Cmd": image.command,
            "WorkingDir": "/",
            "Labels": about.labels,
        },
        "rootfs": { "type": "layers", "diff_ids": plain },
    }))?;
    let layers: Vec<_> = layers
        .iter()
        .map(|layer| layer.descriptor(LAYER_GZIP))
        .collect();
    blobs.json(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor(CONFIG),
        "layers": layers,
    }))
}

/// The packed layer, and the digest of what it is unpacked.
fn packed(blobs: &Blobs, layer: &Layer) -> anyhow::Result<(Blob, String)> {
    let mut digest = String::new();
    let blob = blobs.write(|to| {
        let mut plain = Hashing::new(tar::packer(to));
        match layer {
            Layer::Files(files) => tar::write(files, 0, &mut plain)?,
            Layer::Archive(path) => {
                let mut archive = fs::File::open(path)
                    .with_context(|| format!("{} cannot be read", path.display()))?;
                io::copy(&mut archive, &mut plain)?;
            }
        }
        let (packer, unpacked) = plain.finish()?;
        packer.finish()?;
        digest = unpacked.digest;
        Ok(())
    })?;
    Ok((blob, digest))
}

/// What makes a folder of blobs a layout with one entry.
fn finish(dir: &Path, tag: &str, entry: &Blob, media_type: &str) -> anyhow::Result<()> {
    let mut descriptor = entry.descriptor(media_type);
    descriptor["annotations"] = json!({ "org.opencontainers.image.ref.name": tag });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [descriptor],
    });
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        fs::write(&path, bytes).with_context(|| format!("{} cannot be made", path.display()))
    };
    write("index.json", &serde_json::to_vec(&index)?)?;
    write("oci-layout", LAYOUT.as_bytes())
}

#[cfg(test)]
mod tests;
