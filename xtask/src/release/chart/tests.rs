//! The chart of this checkout, released: digests are where they belong, and its archive is the same anywhere.

use std::path::Path;

use serde_json::json;

use super::*;
use crate::generated::root;

fn files() -> Files {
    let folder = root().unwrap().join("deploy/charts/covey");
    let mut files = Files::new();
    add(&folder, &folder, &mut files);
    files
}

fn add(top: &Path, folder: &Path, files: &mut Files) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add(top, &path, files);
        } else {
            let name = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
            files.insert(name, std::fs::read(&path).unwrap());
        }
    }
}

fn digests() -> BTreeMap<&'static str, String> {
    let digest = |(number, program): (usize, &Program)| {
        (program.image, format!("sha256:{:064x}", number + 1))
    };
    PROGRAMS.iter().enumerate().map(digest).collect()
}

fn changes() -> Vec<Change> {
    vec![Change {
        kind: "added",
        text: "Clusters: \"all\" of them # and more".to_owned(),
    }]
}

fn try_released(files: &Files, digests: &BTreeMap<&'static str, String>) -> Result<Files> {
    let version = env!("CARGO_PKG_VERSION").parse().unwrap();
    let said = Said {
        version: &version,
        digests,
        platforms: &["linux/amd64".to_owned()],
        changes: &changes(),
    };
    released(files, &said)
}

fn read(files: &Files, path: &str) -> Value {
    parsed(text(files, path).unwrap(), path).unwrap()
}

#[test]
fn every_image_of_ours_is_named_by_its_digest_and_nothing_else_changes() {
    let (files, digests) = (files(), digests());
    let released = try_released(&files, &digests).unwrap();
    let values = read(&released, VALUES);
    assert_eq!(values["image"]["digest"], *digests["operator"]);
    assert_eq!(
        values["activator"]["image"]["digest"],
        *digests["activator"]
    );
    assert_eq!(
        values["dashboard"]["image"]["digest"],
        *digests["dashboard"]
    );
    assert_eq!(values["doctor"]["image"]["digest"], *digests["covey"]);
    let ccm = format!(
        "covey-dev/ccm:{}@{}",
        env!("CARGO_PKG_VERSION"),
        digests["ccm"]
    );
    assert_eq!(values["config"]["images"]["ccm"], ccm);
    for program in &PROGRAMS {
        let said = text(&released, VALUES).unwrap();
        assert_eq!(
            said.matches(&digests[program.image]).count(),
            1,
            "{}",
            program.image
        );
    }
    // Without the digests it is the chart of the checkout.
    let mut without = values;
    for at in [
        "/image/digest",
        "/activator/image/digest",
        "/dashboard/image/digest",
        "/doctor/image/digest",
    ] {
        *without.pointer_mut(at).unwrap() = json!("");
    }
    without["config"] = json!({});
    assert_eq!(without, read(&files, VALUES));
    let changed = released
        .iter()
        .filter(|(path, bytes)| files[*path] != **bytes);
    let changed: Vec<_> = changed.map(|(path, _)| path.as_str()).collect();
    assert_eq!(changed, [CHART, VALUES]);
}

#[test]
fn comments_of_the_values_stay() {
    let files = files();
    let released = try_released(&files, &digests()).unwrap();
    let comments = |files: &Files| {
        let lines = text(files, VALUES).unwrap().lines();
        let comments = lines.filter(|line| line.trim_start().starts_with('#'));
        comments.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(comments(&released), comments(&files));
}

#[test]
fn artifact_hub_is_told_kinds_images_and_changes() {
    let released = try_released(&files(), &digests()).unwrap();
    let chart = read(&released, CHART);
    let annotation = |name: &str| {
        let text = chart["annotations"][format!("artifacthub.io/{name}")].as_str();
        text.unwrap_or_else(|| panic!("{name}")).to_owned()
    };
    let listed = |name: &str| parsed(&annotation(name), name).unwrap();
    assert_eq!(listed("changes")[0]["description"], *changes()[0].text);
    let kinds = listed("crds");
    let kinds = kinds.as_array().unwrap();
    assert_eq!(kinds.len(), 12);
    assert!(kinds.iter().any(|kind| {
        kind["name"] == "tenantclusters.covey.dev"
            && kind["kind"] == "TenantCluster"
            && kind["version"] == "v1alpha1"
            && kind["description"]
                .as_str()
                .is_some_and(|text| text.len() > 20)
    }));
    let images = listed("images");
    let images = images.as_array().unwrap();
    let ours = images
        .iter()
        .filter(|image| image["image"].as_str().unwrap().contains("@sha256:"));
    assert_eq!(ours.count(), PROGRAMS.len());
    assert_eq!(images[0]["platforms"], json!(["linux/amd64"]));
    assert!(images.iter().any(|image| {
        image["name"] == "flannel"
            && image["image"]
                .as_str()
                .unwrap()
                .starts_with("ghcr.io/flannel-io/flannel:")
    }));
    assert_eq!(annotation("operator"), "true");
    assert_eq!(annotation("prerelease"), "false");
    assert_eq!(annotation("license"), "Apache-2.0");
    assert_eq!(configuration(&released).unwrap(), chart);
}

#[test]
fn what_did_not_get_where_it_belongs_is_an_error() {
    let (files, digests) = (files(), digests());
    let refused = |path: &str, from: &str, to: &str| {
        let mut files = files.clone();
        let changed = text(&files, path).unwrap().replacen(from, to, 1);
        assert_ne!(changed, text(&files, path).unwrap(), "{from}");
        files.insert(path.to_owned(), changed.into_bytes());
        format!("{:#}", try_released(&files, &digests).unwrap_err())
    };
    let error = refused(VALUES, "  digest: \"\"\n", "");
    assert!(error.contains("image.digest is there 0 times"), "{error}");
    let error = refused(VALUES, "\nconfig: {}\n", "\nconfig: {registry: r}\n");
    assert!(error.contains("config: {}"), "{error}");
    let error = refused(CHART, "\nappVersion: ", "\nappVersion: 9.");
    assert!(error.contains("appVersion"), "{error}");
    let mut lacking = digests.clone();
    lacking.remove("csi");
    let error = try_released(&files, &lacking).unwrap_err().to_string();
    assert!(error.contains("the image csi has no digest"), "{error}");
}

#[test]
fn images_of_others_are_those_that_the_configuration_shows() {
    let others = others(text(&files(), VALUES).unwrap()).unwrap();
    assert!(
        others
            .iter()
            .any(|image| image.starts_with("registry.k8s.io/etcd:3."))
    );
    assert!(
        others
            .iter()
            .any(|image| image.contains("/cluster-autoscaler:v1.36"))
    );
    assert!(
        others.iter().all(|image| !image.contains("covey-dev")),
        "{others:?}"
    );
    assert!(others.len() >= 13, "{others:?}");
}

#[test]
fn the_archive_has_the_same_bytes_in_another_folder_and_at_another_time() {
    let archive = || {
        let folder = tempfile::tempdir().unwrap();
        let released = try_released(&files(), &digests()).unwrap();
        let path = folder.path().join("chart.tgz");
        let mut file = std::fs::File::create(&path).unwrap();
        kit_oci::tar::gzip(&archived(&released), 1_700_000_000, &mut file).unwrap();
        std::fs::read(path).unwrap()
    };
    let first = archive();
    assert_eq!(first, archive());
    assert!(first.len() > 10_000);
}
