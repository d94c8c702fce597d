//! What nextest is told besides `.config/nextest.toml`, and what its exit status means.
//!
//! Invariant: pure.

use std::fmt::Write as _;
use std::path::Path;

use super::changed::TestName;

/// How it ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ended {
    /// Tests were run; some may have failed.
    Ran,
    NoTests,
    /// It did not come so far, as when a crate does not compile.
    Broken,
}

/// nextest's exit codes: 0, 100 when a test failed, 4 when there was none to run.
pub(crate) fn ended(code: Option<i32>) -> Ended {
    match code {
        Some(0 | 100) => Ended::Ran,
        Some(4) => Ended::NoTests,
        _ => Ended::Broken,
    }
}

/// The setting by which `program` runs each test.
pub(crate) fn runner(program: &Path) -> String {
    let program = toml::Value::String(program.display().to_string());
    let arch = std::env::consts::ARCH;
    format!("target.{arch}-unknown-linux-gnu.runner=[{program},\"test-attempt\"]")
}

/// Settings of the day: a group with three tries for tests in quarantine, and those of the filter
/// `first` early.
pub(crate) fn config(quarantine: &[TestName], first: Option<&str>) -> String {
    let mut text = String::new();
    let tests: Vec<_> = quarantine
        .iter()
        // By its crate: nextest refuses the name of a binary that is gone.
        .map(|test| format!("(package(={}) & test(={}))", test.krate(), test.name))
        .collect();
    if !tests.is_empty() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "[test-groups.\"@tool:covey:quarantine\"]\nmax-threads = 1"
        );
        for profile in ["t1", "t2", "t2-hosts"] {
            let _ = writeln!(
                text,
                "[[profile.{profile}.overrides]]\nfilter = '{}'\nretries = 2\n\
                 test-group = \"@tool:covey:quarantine\"",
                tests.join(" + ")
            );
        }
    }
    if let Some(first) = first {
        let _ = writeln!(
            text,
            "[[profile.default.overrides]]\nfilter = '{first}'\npriority = 40"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_in_quarantine_have_three_tries_and_a_group() {
        let test = TestName {
            binary: "operator::t1".to_owned(),
            name: "faults::a".to_owned(),
        };
        let text = config(&[test], Some("package(=kit) & test(/(^|::)a$/)"));
        let parsed: toml::Table = toml::from_str(&text).unwrap();
        let t1 = &parsed["profile"]["t1"]["overrides"][0];
        assert_eq!(t1["retries"].as_integer(), Some(2));
        let filter = t1["filter"].as_str().unwrap();
        assert_eq!(filter, "(package(=operator) & test(=faults::a))");
        assert!(parsed["test-groups"]["@tool:covey:quarantine"].is_table());
        let first = &parsed["profile"]["default"]["overrides"][0];
        assert_eq!(first["priority"].as_integer(), Some(40));
        assert_eq!(config(&[], None), "");
    }

    #[test]
    fn exit_codes_of_nextest_tell_failed_tests_from_a_broken_build() {
        let all = [Some(0), Some(100), Some(4), Some(101), None].map(ended);
        use Ended::{Broken, NoTests, Ran};
        assert_eq!(all, [Ran, Ran, NoTests, Broken, Broken]);
    }

    #[test]
    fn a_path_with_spaces_is_one_word_of_the_runner() {
        let runner = runner(Path::new("/a b/xtask"));
        assert!(runner.ends_with("runner=[\"/a b/xtask\",\"test-attempt\"]"));
        assert!(toml::from_str::<toml::Table>(&runner).is_ok(), "{runner}");
    }
}
