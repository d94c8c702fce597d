//! What is generated and committed is what the lists say. `COVEY_UPDATE_GOLDEN=1` writes it.
//!
//! Invariant: nothing is written without it.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// What is committed of a file, by its path from the top of the repository; it is written first where that is asked for.
fn committed(path: &str, wanted: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    if std::env::var_os("COVEY_UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, wanted).unwrap();
    }
    std::fs::read_to_string(&file).unwrap_or_default()
}

/// Compares a file, or writes it.
fn compare(path: &str, wanted: &str) {
    assert!(
        committed(path, wanted) == wanted,
        "{path} is not what crate monitoring says: run COVEY_UPDATE_GOLDEN=1 cargo test -p monitoring --test \
         generated, and commit it"
    );
}

#[test]
fn reference_of_metrics_is_what_the_catalogue_says() {
    compare("docs/metrics.md", &monitoring::reference::markdown());
}

#[test]
fn rules_of_the_chart_are_those_of_the_code() {
    let rules = monitoring::rule::file(&monitoring::rules::groups());
    compare("deploy/charts/covey/files/rules.yaml", &rules);
}

/// By what they say: in which order the fields of an object are written is the JSON library's business.
#[test]
fn dashboards_of_the_chart_are_those_of_the_code() {
    let folder = "deploy/charts/covey/files/dashboards";
    let mut names = BTreeSet::new();
    for dashboard in monitoring::dashboards::all() {
        let (name, wanted) = (format!("{}.json", dashboard.name), dashboard.json());
        let path = format!("{folder}/{name}");
        let text = format!("{}\n", serde_json::to_string_pretty(&wanted).unwrap());
        let committed: Value = serde_json::from_str(&committed(&path, &text)).unwrap_or_default();
        assert!(
            committed == wanted,
            "{path} is not what crate monitoring says: run COVEY_UPDATE_GOLDEN=1 cargo test -p monitoring --test \
             generated, and commit it"
        );
        names.insert(name);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(folder);
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(files.collect::<BTreeSet<_>>(), names);
}
