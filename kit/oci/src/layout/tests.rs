//! Layouts are valid, deterministic and shared. Every test writes into a cache of its own.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::write;
use crate::image::{File, Image, Layer, NONROOT};

fn image(entrypoint: &str, layers: Vec<Layer>) -> Image {
    Image {
        name: "example.org/a:1".to_owned(),
        layers,
        entrypoint: vec![entrypoint.to_owned()],
        command: vec!["serve".to_owned()],
        user: NONROOT,
        env: vec!["A=b".to_owned()],
    }
}

fn text(content: &str) -> Layer {
    Layer::Files(vec![File::text("/text", content)])
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn blob(cache: &Path, digest: &Value) -> std::path::PathBuf {
    cache
        .join("blobs/sha256")
        .join(digest.as_str().unwrap().strip_prefix("sha256:").unwrap())
}

fn blobs(cache: &Path) -> BTreeSet<std::ffi::OsString> {
    let dir = std::fs::read_dir(cache.join("blobs/sha256")).unwrap();
    dir.map(|item| item.unwrap().file_name()).collect()
}

#[test]
fn a_layout_leads_from_its_index_to_its_layers() {
    let cache = tempfile::tempdir().unwrap();
    let layout = write(&image("/x", vec![text("1"), text("2")]), cache.path()).unwrap();
    assert_eq!(
        read(&layout.dir.join("oci-layout"))["imageLayoutVersion"],
        "1.0.0"
    );
    let index = read(&layout.dir.join("index.json"));
    assert_eq!(index["manifests"][0]["digest"], layout.digest.as_str());
    let manifest = read(&blob(&layout.dir, &index["manifests"][0]["digest"]));
    let config = read(&blob(&layout.dir, &manifest["config"]["digest"]));
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"][0], "/x");
    for (at, layer) in manifest["layers"].as_array().unwrap().iter().enumerate() {
        // Not compressed: what is stored and what is unpacked are the same.
        assert_eq!(layer["digest"], config["rootfs"]["diff_ids"][at]);
    }
}

#[test]
fn every_blob_is_named_by_its_digest_and_has_the_size_that_is_said() {
    let cache = tempfile::tempdir().unwrap();
    let layout = write(&image("/x", vec![text("1")]), cache.path()).unwrap();
    for name in blobs(cache.path()) {
        let bytes = std::fs::read(cache.path().join("blobs/sha256").join(&name)).unwrap();
        assert_eq!(name.to_str().unwrap(), hex::encode(Sha256::digest(&bytes)));
    }
    let descriptor = &read(&layout.dir.join("index.json"))["manifests"][0];
    let manifest = blob(cache.path(), &descriptor["digest"]);
    assert_eq!(descriptor["size"], manifest.metadata().unwrap().len());
}

#[test]
fn the_same_image_is_the_same_in_another_cache() {
    let image = image("/x", vec![text("1")]);
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = write(&image, one.path()).unwrap();
    assert_eq!(first.digest, write(&image, other.path()).unwrap().digest);
    assert_eq!(write(&image, one.path()).unwrap(), first);
}

#[test]
fn images_share_an_equal_layer() {
    let cache = tempfile::tempdir().unwrap();
    write(&image("/x", vec![text("1")]), cache.path()).unwrap();
    let before = blobs(cache.path());
    write(&image("/y", vec![text("1")]), cache.path()).unwrap();
    // Another config and another manifest, no other layer.
    assert_eq!(blobs(cache.path()).len(), before.len() + 2);
}

#[test]
fn a_source_that_changed_makes_another_image() {
    let cache = tempfile::tempdir().unwrap();
    let program = cache.path().join("program");
    let layer = Layer::Files(vec![File::program("/program", &program)]);
    let image = image("/program", vec![layer]);
    std::fs::write(&program, "1").unwrap();
    let first = write(&image, cache.path()).unwrap();
    std::fs::write(&program, "22").unwrap();
    assert_ne!(write(&image, cache.path()).unwrap().digest, first.digest);
}

#[test]
fn an_archive_is_taken_as_it_is() {
    let cache = tempfile::tempdir().unwrap();
    let archive = cache.path().join("layer.tar");
    std::fs::write(&archive, [0; 1024]).unwrap();
    let image = image("/x", vec![Layer::Archive(archive)]);
    write(&image, cache.path()).unwrap();
    let digest = hex::encode(Sha256::digest([0; 1024]));
    assert!(blobs(cache.path()).contains(std::ffi::OsStr::new(&digest)));
}

#[test]
fn a_layer_whose_blob_was_deleted_is_written_again() {
    let cache = tempfile::tempdir().unwrap();
    let image = image("/x", vec![text("1")]);
    write(&image, cache.path()).unwrap();
    let before = blobs(cache.path());
    for name in &before {
        std::fs::remove_file(cache.path().join("blobs/sha256").join(name)).unwrap();
    }
    write(&image, cache.path()).unwrap();
    assert_eq!(blobs(cache.path()), before);
}

#[test]
fn nothing_half_written_stays_when_a_source_is_missing() {
    let cache = tempfile::tempdir().unwrap();
    let layer = Layer::Files(vec![File::program("/program", "/nowhere/program")]);
    let error = write(&image("/program", vec![layer]), cache.path()).unwrap_err();
    assert!(
        format!("{error:#}").contains("/nowhere/program is not there"),
        "{error:#}"
    );
    assert!(blobs(cache.path()).is_empty());
}
