//! What decides a program's key, and that the committed pins agree with each other.

use super::super::{KubernetesVersion, Program};
use super::Catalogue;

const TOML: &str = r#"
[etcd]
version = "3.6.16"
minutes = 2
tags = ["a"]
ldflags = """
-X x.version=v{version}
-X x.minor={major}.{minor}
"""
[[etcd.binary]]
name = "etcd"
package = "."
tags = ["b"]
"#;

/// The key of etcd after `toml` and one file of its folder are as given.
fn key(toml: &str, go: &str, file: (&str, &str)) -> String {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("etcd");
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    std::fs::write(folder.join(file.0), file.1).unwrap();
    let catalogue = Catalogue::parse(toml, root.path().to_owned()).unwrap();
    catalogue.key(Program::ETCD, go).unwrap()
}

#[test]
fn a_key_depends_on_content_and_not_on_the_checkout() {
    let first = key(TOML, "go1", ("go.mod", "module x"));
    assert_eq!(first, key(TOML, "go1", ("go.mod", "module x")));
    assert!(
        first.starts_with("etcd-") && first.len() == "etcd-".len() + 12,
        "{first}"
    );
}

#[test]
fn a_key_changes_with_files_their_names_the_entry_and_go() {
    let first = key(TOML, "go1", ("go.mod", "module x"));
    assert_ne!(first, key(TOML, "go1", ("go.mod", "module y")));
    assert_ne!(first, key(TOML, "go1", ("go.sum", "module x")));
    assert_ne!(first, key(TOML, "go1", ("sub/go.mod", "module x")));
    assert_ne!(first, key(TOML, "go2", ("go.mod", "module x")));
    assert_ne!(
        first,
        key(
            &TOML.replace("\"b\"", "\"c\""),
            "go1",
            ("go.mod", "module x")
        )
    );
}

#[test]
fn a_key_ignores_what_only_informs() {
    let first = key(TOML, "go1", ("go.mod", "module x"));
    let other = TOML.replace("minutes = 2", "minutes = 9\napt = [\"gcc\"]");
    assert_eq!(first, key(&other, "go1", ("go.mod", "module x")));
}

#[test]
fn a_c_source_counts_and_its_absence_leaves_a_key_as_it_was() {
    let with = format!("{TOML}[[etcd.c]]\nname = \"x\"\nmodule = \"m\"\nsource = \"x.c\"\n");
    let entries = |toml: &str| Catalogue::parse(toml, "/".into()).unwrap();
    let text =
        |toml: &str| serde_json::to_string(entries(toml).entry(Program::ETCD).unwrap()).unwrap();
    assert!(!text(TOML).contains("\"c\""));
    assert!(text(&with).contains("x.c"));
}

#[test]
fn that_a_binary_holds_tests_counts_and_the_contrary_leaves_a_key_as_it_was() {
    let text = |toml: &str| {
        let catalogue = Catalogue::parse(toml, "/".into()).unwrap();
        serde_json::to_string(catalogue.entry(Program::ETCD).unwrap()).unwrap()
    };
    assert!(!text(TOML).contains("\"test\""));
    assert!(text(&format!("{TOML}test = true\n")).contains("\"test\":true"));
}

#[test]
fn the_linker_gets_one_line_with_the_version_filled_in() {
    let catalogue = Catalogue::parse(TOML, "/".into()).unwrap();
    let entry = catalogue.entry(Program::ETCD).unwrap();
    assert_eq!(entry.ldflags(), "-s -w -X x.version=v3.6.16 -X x.minor=3.6");
    assert_eq!(entry.binary[0].all_tags(entry), "a,b");
}

#[test]
fn a_field_that_nobody_reads_is_refused() {
    let error = Catalogue::parse(&TOML.replace("minutes", "hours"), "/".into())
        .err()
        .unwrap();
    assert!(error.to_string().contains("hours"), "{error}");
}

#[test]
fn every_program_of_the_lab_is_pinned_at_the_version_it_says() {
    let catalogue = Catalogue::load().unwrap();
    let kubernetes = KubernetesVersion::ALL.map(Program::kubernetes);
    let fixed = Program::BASIC
        .into_iter()
        .chain(Program::KUBEVIRTS)
        .chain(Program::WORKERS)
        .chain(Program::STORAGE)
        .chain(Program::UPSTREAM)
        .chain(Program::REFERENCES);
    let programs: Vec<_> = kubernetes.into_iter().chain(fixed).collect();
    for &program in &programs {
        let entry = catalogue.entry(program).unwrap();
        let go_mod = std::fs::read_to_string(catalogue.folder(program).join("go.mod")).unwrap();
        let ours = entry.binary.iter().all(|binary| binary.package == ".");
        let pinned = go_mod.contains(&format!(" v{}", entry.version));
        assert!(pinned || ours, "{}", program.name());
    }
    assert_eq!(
        catalogue.entries.len(),
        programs.len(),
        "a table nobody can ask for"
    );
}

#[test]
fn kubernetes_says_the_version_that_is_built() {
    let catalogue = Catalogue::load().unwrap();
    for version in KubernetesVersion::ALL {
        let entry = catalogue.entry(Program::kubernetes(version)).unwrap();
        assert_eq!(entry.version, version.full());
    }
}

#[test]
fn people_read_each_version_once() {
    let catalogue = Catalogue::load().unwrap();
    let label = |program| catalogue.entry(program).unwrap().label(program);
    assert_eq!(
        label(Program::kubernetes(KubernetesVersion::V1_35)),
        "kubernetes 1.35.4"
    );
    assert_eq!(label(Program::ETCD), "etcd 3.6.16");
}
