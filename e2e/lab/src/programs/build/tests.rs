//! Which Go is good enough. No test runs `go build`.

use super::super::Program;
use super::{Go, number};

fn go(version: &str, toolchain: &str) -> Go {
    Go {
        goversion: version.to_owned(),
        gotoolchain: toolchain.to_owned(),
        goos: "linux".to_owned(),
        goarch: "amd64".to_owned(),
    }
}

#[test]
fn go_versions_compare_as_numbers() {
    assert!(number("go1.26.10") > number("1.26.9"));
    assert!(number("go1.26") < number("1.26.1"));
    assert_eq!(number("go1.27rc1"), number("1.27"));
}

#[test]
fn a_go_that_is_too_old_is_refused_with_what_to_do() {
    let needs = "module x\n\ngo 1.26.6\n";
    let error = go("go1.25.1", "local")
        .check(Program::ETCD, needs)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("etcd needs Go 1.26.6 and this machine has go1.25.1"),
        "{error}"
    );
    go("go1.26.6", "local").check(Program::ETCD, needs).unwrap();
}

#[test]
fn a_go_that_may_fetch_a_newer_one_is_let_be() {
    go("go1.25.1", "auto")
        .check(Program::ETCD, "go 1.26.6\n")
        .unwrap();
}

#[test]
fn the_target_is_part_of_what_makes_a_build() {
    assert_eq!(go("go1.26.8", "local").identity(), "go1.26.8 linux/amd64");
}
