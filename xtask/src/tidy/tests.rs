//! Every rule on a text that breaks it and one that does not.

use serde_json::json;

use super::finding::Finding;
use super::text::{Text, has_word};
use super::{crates, files, words};
use crate::workspace::Metadata;

fn text(path: &str, text: &str) -> Text {
    Text {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

/// The findings as "path:line", and their messages in one text.
fn places(findings: &[Finding]) -> (Vec<String>, String) {
    let places = findings
        .iter()
        .map(|f| format!("{}:{}", f.path, f.line))
        .collect();
    (
        places,
        findings
            .iter()
            .map(|f| f.message.as_str())
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

fn directions(name: &str, dependencies: &serde_json::Value) -> String {
    let metadata = json!({ "packages": [{ "name": name, "dependencies": dependencies }] });
    let metadata = Metadata::parse(&metadata.to_string()).unwrap();
    places(&crates::directions(&metadata)).1
}

fn uses(name: &str) -> serde_json::Value {
    json!({ "name": name, "kind": null, "path": "/somewhere", "features": [] })
}

#[test]
fn dependencies_in_the_right_direction_are_fine() {
    assert_eq!(
        directions("operator", &json!([uses("tenant-cp"), uses("kit")])),
        ""
    );
    let tests = json!({ "name": "testkit", "kind": "dev", "path": "/x", "features": ["client"] });
    assert_eq!(directions("tenant-cp", &json!([uses("pki"), tests])), "");
    let derive = json!({ "name": "kube", "kind": null, "path": null, "features": ["derive"] });
    assert_eq!(directions("api", &json!([derive])), "");
}

#[test]
fn dependencies_in_the_wrong_direction_are_found() {
    for (name, on) in [
        ("pki", "tenant-cp"),
        ("tenant-cp", "operator"),
        ("kit", "api"),
        ("operator", "testkit"),
        ("suites", "operator"),
        ("xtask", "operator"),
        ("operator", "lab"),
    ] {
        let found = directions(name, &json!([uses(on)]));
        assert!(
            found.contains(&format!("must not depend on {on}")),
            "{name} -> {on}: {found}"
        );
    }
}

#[test]
fn pure_crates_get_neither_a_runtime_nor_a_client() {
    let tokio = json!({ "name": "tokio", "kind": null, "path": null, "features": [] });
    let client = json!({ "name": "kube", "kind": null, "path": null, "features": ["client"] });
    for name in ["api", "pki", "tenant-cp"] {
        assert!(
            directions(name, &json!([tokio])).contains("must not depend on tokio"),
            "{name}"
        );
        assert!(
            directions(name, &json!([client])).contains("feature client"),
            "{name}"
        );
    }
    assert_eq!(directions("kit", &json!([tokio, client])), "");
}

#[test]
fn a_new_crate_must_be_decided_on() {
    assert!(directions("surprise", &json!([])).contains("add this crate"));
}

#[test]
fn a_second_kube_is_found_and_a_second_bitflags_is_not() {
    let lock = |names: &[(&str, &str)]| {
        let entry = |(n, v): &(&str, &str)| format!("[[package]]\nname='{n}'\nversion='{v}'\n");
        places(&crates::versions(&names.iter().map(entry).collect::<String>()).unwrap()).1
    };
    assert_eq!(
        lock(&[
            ("kube", "5.0.0"),
            ("bitflags", "1.0.0"),
            ("bitflags", "2.0.0")
        ]),
        ""
    );
    let found = lock(&[("kube", "4.0.0"), ("kube", "5.0.0")]);
    assert!(found.contains("2 times (4.0.0, 5.0.0)"), "{found}");
    assert!(lock(&[("aws-lc-rs", "1.0.0")]).contains("must not be used"));
}

#[test]
fn a_file_without_a_heading_is_found() {
    let found = files::check(&[
        text("a/good.rs", "//! Does.\n"),
        text("a/bad.rs", "use std::fmt;\n"),
        text("a/generated/types.rs", "use std::fmt;\n"),
        text("a/page.md", "no heading of this sort\n"),
    ]);
    assert_eq!(places(&found).0, ["a/bad.rs:1"]);
}

#[test]
fn long_files_explain_themselves_and_very_long_ones_cannot() {
    let file = |path: &str, heading: &str, lines: usize| {
        text(path, &format!("//! {heading}\n{}", "\n".repeat(lines - 1)))
    };
    let found = files::check(&[
        file("a/short.rs", "Does.", 500),
        file("a/long.rs", "Does.", 501),
        file("a/explained.rs", "Does.\n//! Long because of a table.", 700),
        file("a/endless.rs", "Long because nobody cared.", 801),
        file("a/golden/list.rs", "Does.", 2000),
    ]);
    assert_eq!(places(&found).0, ["a/long.rs:0", "a/endless.rs:0"]);
}

#[test]
fn a_plan_that_reads_a_clock_is_found_and_its_tests_are_left_alone() {
    let plan = "//! Plans.\nuse std::time::Duration; // Instant would be wrong\n\
                let now = Instant::now();\n#[cfg(test)]\nmod tests { use tokio; }\n";
    for path in [
        "operator/src/x/plan.rs",
        "operator/src/x/plan/y.rs",
        "tenant-cp/src/z.rs",
    ] {
        let found = files::check(&[text(path, plan)]);
        assert_eq!(places(&found).0, [format!("{path}:3")]);
    }
    for path in ["operator/src/x/observe.rs", "operator/src/x/plan/tests.rs"] {
        assert_eq!(files::check(&[text(path, plan)]), []);
    }
}

#[test]
fn exceptions_of_purity_hold_for_one_word_of_one_file() {
    let found = files::check(&[text(
        "kit/src/lease/plan.rs",
        "//! Plans.\nuse tokio::time::Instant;\nuse std::env;\n",
    )]);
    assert_eq!(places(&found).0, ["kit/src/lease/plan.rs:3"]);
}

#[test]
fn words_for_clusters_that_are_not_ours_are_found_in_every_spelling() {
    for bad in [
        "the guest cluster",
        "a child-cluster",
        "let host_clusters = 1;",
        "struct ParentCluster;",
        "Infra clusters",
        "NESTED_CLUSTER",
    ] {
        let found = words::check(&[text("docs/a.md", bad)]);
        assert_eq!(places(&found).0, ["docs/a.md:1"], "{bad}");
    }
    for good in [
        "the tenant cluster",
        "a host of the cluster",
        "a guest's login",
        "ghost cluster",
        "clusters of a parent",
        "hosts, clusters",
    ] {
        assert_eq!(words::check(&[text("docs/a.md", good)]), [], "{good}");
    }
}

#[test]
fn backend_is_only_allowed_in_names_that_others_gave() {
    let found = |line| words::check(&[text("operator/src/a.rs", line)]).len();
    assert_eq!(found("the backend is down"), 1);
    assert_eq!(found("struct BackendError;"), 1);
    assert_eq!(found("--quota-backend-bytes=8589934592"), 0);
    assert_eq!(found("`quotaBackendBytes` of etcd, quota_backend_bytes"), 0);
    assert_eq!(found("`quotaBackendBytes` of the backend"), 1);
    assert_eq!(found("go.etcd.io/etcd/server/v3/storage/backend"), 0);
    assert_eq!(
        words::check(&[text("e2e/lab/programs/x/main.go", "backend.New()")]),
        []
    );
}

#[test]
fn links_lead_to_files_of_the_repository() {
    let found = words::check(&[
        text(
            "docs/a.md",
            "[b](b.md#part) [up](../README.md) [folder](adr/) [web](https://x.y)",
        ),
        text("docs/b.md", "[gone](gone.md) and [a](./a.md)"),
        text("docs/adr/0001.md", "[a](../a.md) [wrong](a.md)"),
        text("README.md", "[here](#part)"),
    ]);
    assert_eq!(places(&found).0, ["docs/b.md:1", "docs/adr/0001.md:1"]);
}

#[test]
fn a_word_is_not_found_inside_another() {
    assert!(has_word("use rand::Rng", "rand") && has_word("rand", "rand"));
    assert!(!has_word("operand", "rand") && !has_word("rand_core", "rand"));
}
