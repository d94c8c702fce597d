//! What is generated and committed is what the lists say. `COVEY_UPDATE_GOLDEN=1` writes it.
//!
//! Invariant: nothing is written without it.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

use std::path::Path;

/// Compares a file, by its path from the top of the repository, or writes it.
fn compare(path: &str, wanted: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    if std::env::var_os("COVEY_UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, wanted).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == wanted,
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
