//! Layouts to be published: found through their one entry, packed, labelled, and the same anywhere.

use std::io::Read as _;

use sha2::{Digest as _, Sha256};

use super::*;
use crate::image::{File, NONROOT};

fn image(text: &str) -> Image {
    Image {
        name: "example.org/a:1".to_owned(),
        layers: vec![
            Layer::Files(vec![File::text("/base", "base")]),
            Layer::Files(vec![File::script("/run", text)]),
        ],
        entrypoint: vec!["/run".to_owned()],
        command: Vec::new(),
        user: NONROOT,
        env: Vec::new(),
    }
}

fn about() -> About {
    About {
        created: "2027-01-02T03:04:05Z".to_owned(),
        labels: BTreeMap::from([("a.example/title".to_owned(), "A".to_owned())]),
    }
}

fn both(dir: &Path) -> Published {
    let (amd64, arm64) = (image("1"), image("2"));
    write(dir, "1", &[("arm64", &arm64), ("amd64", &amd64)], &about()).unwrap()
}

fn read(dir: &Path, digest: &Value) -> Value {
    serde_json::from_slice(&bytes(dir, digest)).unwrap()
}

fn bytes(dir: &Path, digest: &Value) -> Vec<u8> {
    let digest = digest.as_str().unwrap().strip_prefix("sha256:").unwrap();
    fs::read(dir.join("blobs/sha256").join(digest)).unwrap()
}

fn entry(dir: &Path) -> Value {
    let index: Value = serde_json::from_slice(&fs::read(dir.join("index.json")).unwrap()).unwrap();
    assert_eq!(index["manifests"].as_array().unwrap().len(), 1);
    index["manifests"][0].clone()
}

/// All files with their contents.
fn files(dir: &Path, found: &mut BTreeMap<String, Vec<u8>>, name: &str) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{name}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            files(&entry.path(), found, &name);
        } else {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
}

#[test]
fn the_one_entry_leads_to_an_index_with_a_manifest_for_each_architecture() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("layout");
    let published = both(&dir);
    let entry = entry(&dir);
    assert_eq!(entry["mediaType"], INDEX);
    assert_eq!(entry["digest"], published.digest);
    assert_eq!(
        entry["annotations"]["org.opencontainers.image.ref.name"],
        "1"
    );
    let index = read(&dir, &entry["digest"]);
    assert_eq!(index["annotations"]["a.example/title"], "A");
    let manifests = index["manifests"].as_array().unwrap();
    let names: Vec<_> = manifests
        .iter()
        .map(|one| &one["platform"]["architecture"])
        .collect();
    assert_eq!(names, ["amd64", "arm64"]);
    for one in manifests {
        let architecture = one["platform"]["architecture"].as_str().unwrap();
        assert_eq!(one["digest"], published.manifests[architecture]);
        let manifest = read(&dir, &one["digest"]);
        let config = read(&dir, &manifest["config"]["digest"]);
        assert_eq!(config["architecture"], architecture);
        assert_eq!(config["created"], "2027-01-02T03:04:05Z");
        assert_eq!(config["config"]["Labels"]["a.example/title"], "A");
    }
}

#[test]
fn layers_are_packed_and_known_by_what_they_are_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let published = both(folder.path());
    let digest = Value::from(published.manifests["amd64"].clone());
    let manifest = read(folder.path(), &digest);
    let config = read(folder.path(), &manifest["config"]["digest"]);
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 2);
    for (at, layer) in layers.iter().enumerate() {
        assert_eq!(layer["mediaType"], LAYER_GZIP);
        let packed = bytes(folder.path(), &layer["digest"]);
        assert_eq!(layer["size"], packed.len());
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(packed.as_slice())
            .read_to_end(&mut plain)
            .unwrap();
        let plain = format!("sha256:{}", hex::encode(Sha256::digest(&plain)));
        assert_eq!(config["rootfs"]["diff_ids"][at], plain);
    }
    // The layer below is the same for both, and there once.
    let mut found = BTreeMap::new();
    files(&folder.path().join("blobs"), &mut found, "");
    assert_eq!(found.len(), 1 + 2 * 3 + 1);
}

#[test]
fn all_bytes_are_the_same_in_another_folder() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut first, mut second) = (BTreeMap::new(), BTreeMap::new());
    assert_eq!(both(one.path()), both(&other.path().join("deep/er")));
    files(one.path(), &mut first, "");
    files(&other.path().join("deep/er"), &mut second, "");
    assert_eq!(first, second);
}

#[test]
fn other_labels_and_other_times_make_another_digest() {
    let digest = |about: &About| {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "1", &[("amd64", &image("1"))], about)
            .unwrap()
            .digest
    };
    let mut late = about();
    "2027-01-03T00:00:00Z".clone_into(&mut late.created);
    let mut other = about();
    other.labels.clear();
    let all = [digest(&about()), digest(&late), digest(&other)];
    assert!(all[0] != all[1] && all[0] != all[2]);
    assert_eq!(all[0], digest(&about()));
}

#[test]
fn no_image_and_one_architecture_twice_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |images: &[(&str, &Image)]| {
        write(folder.path(), "1", images, &about())
            .unwrap_err()
            .to_string()
    };
    assert!(refused(&[]).contains("no image"));
    let image = image("1");
    assert!(refused(&[("amd64", &image), ("amd64", &image)]).contains("twice"));
}

#[test]
fn an_artefact_is_its_configuration_and_its_layer_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"name": "a"});
    let annotations = BTreeMap::from([("t".to_owned(), "v".to_owned())]);
    let artefact = Artefact {
        config: ("x/config", &config),
        layer: ("x/layer", b"bytes"),
        annotations: &annotations,
    };
    let published = write_artefact(folder.path(), "1", &artefact).unwrap();
    let entry = entry(folder.path());
    assert_eq!(
        (&entry["digest"], &entry["mediaType"]),
        (&published.digest.into(), &MANIFEST.into())
    );
    let manifest = read(folder.path(), &entry["digest"]);
    assert_eq!(manifest["config"]["mediaType"], "x/config");
    assert_eq!(manifest["annotations"]["t"], "v");
    assert_eq!(
        bytes(folder.path(), &manifest["layers"][0]["digest"]),
        b"bytes"
    );
    assert_eq!(read(folder.path(), &manifest["config"]["digest"]), config);
}
