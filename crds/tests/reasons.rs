//! The catalogue of reasons keeps what it promises, and docs/reasons.md is what it says.
//!
//! Invariant: nothing is told twice, and who has to do something is told a field or a command.
#![allow(clippy::unwrap_used)] // tests

use std::collections::BTreeSet;
use std::path::Path;

use api::Reason;
use api::reason::{self, class::Class};

#[test]
fn names_are_those_of_a_condition_and_found_again() {
    let mut names = BTreeSet::new();
    for reason in Reason::ALL {
        let name = reason.as_str();
        // `metav1.Condition` allows more; conventions ask for PascalCase.
        let fits = name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric());
        assert!(fits && name.len() <= 63, "{name}");
        assert!(names.insert(name.to_lowercase()), "{name} twice");
        assert_eq!(name.parse(), Ok(*reason));
    }
    assert!("SomebodyElse".parse::<Reason>().is_err());
}

#[test]
fn who_has_to_do_something_is_told_a_field_or_a_command() {
    for reason in Reason::ALL {
        let (meaning, mend) = (reason.meaning(), reason.mend());
        assert!(meaning.ends_with('.'), "{reason}: {meaning}");
        assert!(!meaning.contains('|') && !mend.contains('|'), "{reason}");
        match reason.class() {
            Class::Fine => {}
            Class::Waiting => assert!(!mend.is_empty(), "{reason} waits for ever in silence"),
            Class::Person | Class::Bug => assert_eq!(
                mend.matches('`').count() % 2 + usize::from(!mend.contains('`')),
                0,
                "{reason} names neither a field nor a command: {mend}"
            ),
        }
    }
}

#[test]
fn the_page_is_what_the_catalogue_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reasons.md");
    if std::env::var_os("COVEY_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, reason::markdown()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == reason::markdown(),
        "docs/reasons.md is not what the catalogue says: run COVEY_UPDATE_GOLDEN=1 cargo test -p api \
         --test reasons, and commit it"
    );
}
