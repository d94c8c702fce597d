//! The selection on a small repository, and the table on names.

use serde_json::json;

use super::facts::{Changed, Facts, LastRun, TestName};
use super::suites::{self, Suite};
use super::table::{self, NEEDS, TABLE};
use super::{Selection, missed, select, touched};
use crate::workspace::Metadata;

const SUITE: &str = "#[tokio::test]\nasync fn works() {\n    run().await;\n}\n";

/// operator and ccm stand on tenant-cp and api; the suites are one default, one of workers with the
/// ccm, and one that takes long.
fn facts(paths: &[&str]) -> Facts {
    let package = |name: &str, folder: &str, uses: &[(&str, Option<&str>)]| {
        let uses: Vec<_> = uses
            .iter()
            .map(|(name, kind)| json!({ "name": name, "kind": kind, "path": "/w", "features": [] }))
            .collect();
        json!({ "name": name, "manifest_path": format!("/w/{folder}/Cargo.toml"), "dependencies": uses })
    };
    let packages = [
        package("tenant-cp", "tenant-cp", &[]),
        package("operator", "operator", &[("tenant-cp", None)]),
        package("ccm", "ccm", &[("tenant-cp", Some("dev"))]),
        package("suites", "e2e/suites", &[]),
        package("lab-agent", "e2e/lab/agent", &[]),
        package("lab", "e2e/lab", &[]),
        package("kit", "kit", &[]),
        package("xtask", "xtask", &[]),
    ];
    let metadata = json!({ "packages": packages, "workspace_root": "/w" }).to_string();
    let suite = |path: &str, needs: &str| {
        (
            format!("{}{path}.rs", suites::FOLDER),
            format!("//! Needs: {needs}\n//!\n//! Works.\n{SUITE}"),
        )
    };
    let mut texts = vec![
        suite("control_plane/answers", "operator"),
        suite("operations/change", "operator"),
        suite("workers/worker", "operator, ccm, vm"),
        suite("kubevirt", "vm, lab-agent"),
    ];
    texts.push((
        format!("{}operations/writer.rs", suites::FOLDER),
        "//! Writes.\n".to_owned(),
    ));
    texts[1].1 += "use super::writer::Writer;\n";
    Facts {
        base: "0123456789abcdef".to_owned(),
        changed: paths
            .iter()
            .map(|path| Changed {
                path: (*path).to_owned(),
                ..Changed::default()
            })
            .collect(),
        metadata: Metadata::parse(&metadata).unwrap(),
        suites: texts,
        last: LastRun::default(),
    }
}

fn selected(paths: &[&str]) -> Selection {
    select(&facts(paths))
}

/// The crates, targets and suites that are run.
fn reached(paths: &[&str]) -> Vec<String> {
    let selection = selected(paths);
    assert_eq!(selection.everything, None, "{paths:?}");
    let crates = selection.crates.keys().cloned();
    let targets = selection.targets.keys();
    let suites = selection.suites.values().map(|(suite, _)| suite.name());
    crates
        .chain(targets.map(|(krate, target)| format!("{krate}::{target}")))
        .chain(suites)
        .collect()
}

#[test]
fn a_change_reaches_what_is_made_of_it_what_is_tested_with_it_and_its_suites() {
    assert_eq!(
        reached(&["tenant-cp/src/text.rs"]),
        [
            "ccm",
            "operator",
            "tenant-cp",
            "control_plane::answers",
            "workers::worker"
        ]
    );
    assert_eq!(reached(&["ccm/src/run.rs"]), ["ccm", "workers::worker"]);
}

#[test]
fn a_change_of_tests_reaches_those_tests_alone() {
    for path in [
        "tenant-cp/tests/golden/a.yaml",
        "tenant-cp/src/text/tests.rs",
        "tenant-cp/proptest-regressions/a.txt",
    ] {
        assert_eq!(reached(&[path]), ["tenant-cp"], "{path}");
    }
    assert_eq!(reached(&["ccm/benches/load_balancers.rs"]), [""; 0]);
    // Even where the sources of the crate reach everything.
    assert_eq!(reached(&["kit/src/lease/tests.rs"]), ["kit"]);
}

#[test]
fn files_that_are_not_rust_reach_what_the_table_says() {
    assert_eq!(reached(&["docs/ccm.md"]), ["ccm::t1"]);
    assert_eq!(reached(&["docs/operations.md", "README.md"]), [""; 0]);
    assert_eq!(
        reached(&["deploy/charts/covey/values.yaml"]),
        [
            "xtask::chart",
            "xtask::chart_api",
            "xtask::release",
            "control_plane::answers",
            "workers::worker"
        ]
    );
    assert_eq!(
        reached(&["e2e/lab/src/worker/root/a"]),
        ["lab", "workers::worker"]
    );
}

#[test]
fn everything_is_run_for_what_everything_stands_on_and_for_what_nobody_knows() {
    for path in [
        "Cargo.lock",
        "ccm/Cargo.toml",
        ".ci/run",
        "kit/src/lib.rs",
        "xtask/src/test.rs",
        "e2e/lab/src/up.rs",
        "surprise.txt",
    ] {
        let selection = selected(&["docs/ccm.md", path]);
        assert!(
            selection
                .everything
                .as_ref()
                .is_some_and(|why| why.starts_with(path)),
            "{path}"
        );
        // Also the suites, but for those that take long.
        let targets: Vec<_> = selection.suites().into_keys().collect();
        assert_eq!(targets, ["control_plane", "workers"]);
    }
}

#[test]
fn a_suite_that_takes_long_is_run_when_it_is_what_changed() {
    let path = |inner: &str| format!("{}{inner}.rs", suites::FOLDER);
    assert_eq!(
        reached(&[&path("operations/change")]),
        ["operations::change"]
    );
    // By who uses it, since it has no test of its own.
    assert_eq!(
        reached(&[&path("operations/writer")]),
        ["operations::change"]
    );
    assert_eq!(reached(&[&path("operations/main")]), ["operations::change"]);
    assert_eq!(reached(&["e2e/lab/agent/src/main.rs"]), ["lab-agent"]);
}

#[test]
fn the_harness_reaches_every_suite_of_a_default_run() {
    assert_eq!(
        reached(&["e2e/suites/src/scenario.rs"]),
        ["suites", "control_plane::answers", "workers::worker"]
    );
}

#[test]
fn filters_are_for_nextest() {
    let selection = selected(&["ccm/src/run.rs", "deploy/tests/a.yaml"]);
    let filter = "(package(=ccm) + binary_id(=xtask::chart)) & \
                  (all() - (package(=suites) & kind(test)))";
    assert_eq!(selection.filter().as_deref(), Some(filter));
    assert_eq!(
        selection.suites_filter().as_deref(),
        Some("(binary_id(=suites::workers) & (test(=worker::works)))")
    );
    assert!(selection.needs("vm") && !selection.needs("csi"));
    let nothing = selected(&["README.md"]);
    assert_eq!((nothing.filter(), nothing.suites_filter()), (None, None));
}

#[test]
fn new_and_changed_tests_are_known_and_others_are_not() {
    let test = |name: &str, body: &str| {
        format!("    #[test]\n    fn {name}() {{\n        {body}\n    }}\n")
    };
    let before = test("a", "one();") + &test("b", "two();");
    let after = format!(
        "fn helper() {{}}\n{}{}{}",
        test("b", "three();"),
        test("a", "one();"),
        test("c", "x")
    );
    assert_eq!(touched::new_or_changed(&before, &after), ["b", "c"]);
    assert_eq!(touched::new_or_changed("", SUITE), ["works"]);

    let mut facts = facts(&["ccm/src/run.rs"]);
    facts.changed[0].before = before;
    facts.changed[0].after = after;
    let shaken = select(&facts).touched_filter();
    let wanted = "(package(=ccm) & test(/(^|::)b$/)) + (package(=ccm) & test(/(^|::)c$/))";
    assert_eq!(shaken.as_deref(), Some(wanted));
    assert_eq!(selected(&["ccm/src/run.rs"]).touched_filter(), None);
}

fn name(binary: &str, name: &str) -> TestName {
    TestName {
        binary: binary.to_owned(),
        name: name.to_owned(),
    }
}

#[test]
fn what_failed_in_the_last_run_is_run_whatever_changed() {
    let mut facts = facts(&["README.md"]);
    facts.last.unsteady = vec![
        name("operator::t1", "crash::a"),
        name("suites::kubevirt", "works"),
        // Gone since then.
        name("gone::t1", "a"),
        name("suites::gone", "gone"),
    ];
    let selection = select(&facts);
    let filter = selection.filter().unwrap_or_default();
    assert!(
        filter.contains("(package(=operator) & test(=crash::a))"),
        "{filter}"
    );
    assert!(!filter.contains("package(=gone)"), "{filter}");
    assert_eq!(selection.suites()["kubevirt"], ["works"]);
    assert_eq!(selection.suites().len(), 1);
    assert!(selection.needs("lab-agent"));
    assert!(!selection.leaves_out(&facts.last.unsteady[0]));
}

#[test]
fn a_failure_that_would_have_been_left_out_is_a_bug_of_the_table() {
    let selection = selected(&["ccm/src/run.rs", "deploy/tests/a.yaml"]);
    let met = [
        name("ccm", "node::a"),
        name("ccm::t1", "b"),
        name("xtask::chart", "c"),
        name("suites::workers", "worker::works"),
        // It takes long, and nobody asked for it.
        name("suites::operations", "change::works"),
    ];
    assert_eq!(missed(&met, &selection), [""; 0]);
    let left_out = [
        name("operator::t1", "a"),
        name("xtask::chart_api", "b"),
        name("suites::control_plane", "answers::works"),
        name("suites::control_plane", "gone::works"),
    ];
    let found = missed(&left_out, &selection);
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(found[0].starts_with("operator::t1 a failed"));
    assert_eq!(missed(&left_out, &selected(&["Cargo.lock"])), [""; 0]);
}

#[test]
fn a_selection_says_what_it_leaves_out_and_why() {
    let text = selected(&["ccm/src/run.rs", "docs/certificates.md"]).to_string();
    for line in [
        "2 files changed since 0123456789ab",
        "  T0, T1 ccm: ccm/src/run.rs",
        "  T1 tenant-cp::golden: docs/certificates.md",
        "  T2 workers::worker: ccm/src/run.rs",
        "  T0, T1 kit, lab, lab-agent, operator, suites, tenant-cp (but for the targets above), xtask: \
         nothing that they use has changed",
        "  T2 control_plane::answers: needs operator, and none of it has changed",
        "  T2 operations::change, kubevirt: only with --all",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\nis not in\n{text}");
    }
}

#[test]
fn a_suite_is_read_from_its_path_and_first_line() {
    let path = "e2e/suites/tests/workers/volumes/death.rs";
    let text = format!("//! Needs: operator, vm\n{SUITE}");
    let suite = Suite::parse(path, &text).unwrap();
    assert_eq!(suite.name(), "workers::volumes::death");
    assert_eq!(suite.needs, ["operator", "vm"]);
    assert_eq!(suite.tests, ["volumes::death::works"]);
    assert!(!suite.is_default());
    let is_default = |path: &str| Suite::parse(path, &text).unwrap().is_default();
    assert!(is_default("e2e/suites/tests/hosts.rs"));
    assert!(!is_default("e2e/suites/tests/hosts/lost.rs"));
    assert_eq!(Suite::parse(path, "//! Needs: vm\nfn helper() {}\n"), None);
    assert_eq!(suites::needs("//! Something else.\n//! Needs: vm\n"), None);
}

#[test]
fn globs_mean_whole_names() {
    for (glob, path) in [
        ("docs/**", "docs/adr/0001.md"),
        ("docs/**", "docs/a.md"),
        ("**/Cargo.toml", "Cargo.toml"),
        ("**/Cargo.toml", "e2e/lab/Cargo.toml"),
        ("*.md", "README.md"),
        ("a/b*d", "a/bcd"),
    ] {
        assert!(table::matches(glob, path), "{glob} {path}");
    }
    for (glob, path) in [
        ("docs/**", "docs.md"),
        ("*.md", "docs/a.md"),
        ("a/b*d", "a/bc"),
        ("a/*", "a/b/c"),
    ] {
        assert!(!table::matches(glob, path), "{glob} {path}");
    }
}

#[test]
fn a_line_of_the_table_that_another_hides_is_not_there() {
    for (number, entry) in TABLE.iter().enumerate() {
        // A name that only this line could mean.
        let path = entry.glob.replace("**", "some").replace('*', "some");
        let first = TABLE
            .iter()
            .position(|entry| table::matches(entry.glob, &path));
        assert_eq!(first, Some(number), "{}", entry.glob);
    }
    for entry in TABLE {
        for reach in entry.reaches {
            if let table::Reach::Need(word) = reach {
                assert!(NEEDS.iter().any(|(known, _)| known == word), "{word}");
            }
        }
    }
}
