//! Generates the code again and compares it with what is committed; `COVEY_UPDATE_GENERATED=1`
//! writes it instead.
//!
//! Invariant: nothing but this crate's dependencies is needed, no protoc above all.

#![allow(clippy::unwrap_used)] // clippy does not see that helpers are tests too

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const SOURCES: [&str; 5] = [
    "autoscaler/externalgrpc.proto",
    "csi/csi.proto",
    "etcd/rpc.proto",
    "kubernetes/core.proto",
    "pluginregistration/v1.proto",
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let named = entries.map(|entry| {
        let text = fs::read_to_string(entry.path()).unwrap();
        (entry.file_name().into_string().unwrap(), text)
    });
    named.collect()
}

#[test]
fn generated_code_is_what_the_definitions_say() {
    let sources = SOURCES.map(|source| root().join(source));
    let descriptors = protox::compile(&sources, [root()]).expect("the definitions are correct");
    let folder = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .build_transport(false)
        .emit_rerun_if_changed(false)
        // A call that a server does not have answers UNIMPLEMENTED.
        .generate_default_stubs(true)
        // One order, so that what is made of a map is the same every time.
        .btree_map(".")
        .out_dir(folder.path())
        .compile_fds(descriptors)
        .unwrap();
    let generated = files(folder.path());
    assert_eq!(generated.len(), SOURCES.len());
    let committed = root().join("src/generated");
    if std::env::var_os("COVEY_UPDATE_GENERATED").is_some() {
        for (name, text) in &generated {
            fs::write(committed.join(name), text).unwrap();
        }
    }
    assert!(
        files(&committed) == generated,
        "src/generated differs from what the .proto files make; run \
         `COVEY_UPDATE_GENERATED=1 cargo test -p proto` and commit what it writes"
    );
}
