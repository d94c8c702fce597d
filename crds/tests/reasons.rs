//! The catalogue of reasons keeps what it promises, and docs/reasons.md is what it says.
//!
//! Invariant: nothing is told twice, and who has to do something is told a field or a command.
#![allow(clippy::unwrap_used)] // tests

use std::collections::{BTreeMap, BTreeSet};
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
fn cause_is_told_to_who_has_to_do_something_and_is_not_the_meaning_again() {
    for reason in Reason::ALL {
        let (meaning, cause) = (reason.meaning(), reason.cause());
        let is_needed = matches!(reason.class(), Class::Person | Class::Bug);
        assert!(!is_needed || !cause.is_empty(), "{reason} has no cause");
        assert!(
            cause.is_empty() || cause.ends_with('.'),
            "{reason}: {cause}"
        );
        // A second line of the comment is the cause and nothing else.
        assert!(!cause.contains("Cause:"), "{reason}: {cause}");
        let repeated = share_of_words(cause, meaning);
        assert!(repeated < 0.7, "{reason} says its meaning again: {cause}");
    }
}

/// Which share of the words of `text` is in `other`, too.
fn share_of_words(text: &str, other: &str) -> f64 {
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        words
            .filter(|word| word.len() > 2)
            .map(str::to_lowercase)
            .collect()
    };
    let (text, other) = (words(text), words(other));
    // Sentences of a dozen words: both numbers are exact.
    #[allow(clippy::cast_precision_loss)]
    let share = text.intersection(&other).count() as f64 / text.len().max(1) as f64;
    share
}

#[test]
fn reason_says_since_which_release_it_is_told() {
    for reason in Reason::ALL {
        let parts: Vec<_> = reason.since().split('.').map(str::parse::<u32>).collect();
        assert!(
            parts.len() == 3 && parts.iter().all(Result::is_ok),
            "{reason}: {} is no release",
            reason.since()
        );
    }
}

#[test]
fn runbook_leads_to_the_heading_of_its_reason() {
    // The next test shows that the page is this.
    let page = reason::markdown();
    // As Markdown makes fragments: small letters, blanks as -, no other sign.
    let headings = page.lines().filter_map(|line| line.strip_prefix('#'));
    let fragments: Vec<_> = headings
        .map(|heading| {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            heading.replace(' ', "-").replace(',', "")
        })
        .collect();
    for reason in Reason::ALL {
        let runbook = reason.runbook();
        let fragment = runbook.strip_prefix("docs/reasons.md#").unwrap();
        let found = fragments.iter().filter(|heading| *heading == fragment);
        assert_eq!(found.count(), 1, "{runbook}");
    }
}

/// Sections of a page of runbooks: heading and text.
fn sections(page: &str) -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/runbooks/{page}.md"));
    let text = std::fs::read_to_string(path).unwrap();
    let sections = text.split("\n## ").skip(1);
    let sections = sections.map(|section| section.split_once('\n').unwrap());
    sections
        .map(|(heading, text)| (heading.to_owned(), text.to_owned()))
        .collect()
}

#[test]
fn what_is_wrong_with_etcd_or_a_backup_has_a_runbook_with_one_command() {
    for page in ["etcd", "backup"] {
        let mut sections = sections(page);
        let is_here = |reason: &&Reason| {
            let section = reason.section();
            section.is_some_and(|to| to.starts_with(&format!("runbooks/{page}.md#")))
        };
        for reason in Reason::ALL.iter().filter(is_here) {
            let text = sections.remove(reason.as_str());
            let text = text.unwrap_or_else(|| panic!("{reason} has no section in {page}.md"));
            for part in ["Symptom", "Safe", "Not safe", "Mend"] {
                let lines = text.lines();
                let begin = format!("- **{part}**: ");
                let said =
                    lines.filter(|line| line.len() > begin.len() && line.starts_with(&begin));
                assert_eq!(said.count(), 1, "{reason}: {part}");
            }
            let commands = text.lines().filter(|line| line.starts_with("$ "));
            assert_eq!(commands.count(), 1, "{reason} has one command");
        }
        let left: Vec<_> = sections.keys().collect();
        assert!(
            left.is_empty(),
            "{page}.md: of no reason that needs one: {left:?}"
        );
    }
    // The rule by which they are chosen finds those that nobody may be left alone with.
    for reason in [
        Reason::QuorumLost,
        Reason::OtherClaim,
        Reason::RestoreGivenUp,
        Reason::BackupLate,
    ] {
        assert!(reason.section().is_some(), "{reason}");
    }
    assert_eq!(Reason::BackedUp.section(), None);
    assert_eq!(Reason::NoRoom.section(), None);
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
