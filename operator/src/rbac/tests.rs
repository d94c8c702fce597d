//! Rights, held against what the API in memory knows.
//!
//! Invariant: without a server, so what is missing is said before any test waits for it.

use testkit::memory::recording::Recording;

use super::{cluster, system_namespace};

#[test]
fn what_may_be_listed_and_watched_is_in_the_recording_of_a_creation() {
    let recording = include_str!("../../tests/memory/recordings/creation.jsonl");
    let known = Recording::parse(recording).unwrap().kinds();
    let rules = cluster().into_iter().chain(system_namespace());
    let mut missing = Vec::new();
    // What is limited to names is of the webhook.
    for rule in rules.filter(|rule| rule.names.is_empty() && rule.verbs.contains(&"watch")) {
        for group in rule.groups {
            for resource in rule.resources {
                let kind = match *group {
                    "" => (*resource).to_owned(),
                    group => format!("{group}/{resource}"),
                };
                let asked = ["list", "watch"].map(|verb| format!("{verb} {kind}"));
                let is_known = |asked: &String| {
                    known.contains(asked) || known.contains(&format!("{asked} metadata"))
                };
                missing.extend(asked.into_iter().filter(|asked| !is_known(asked)));
            }
        }
    }
    missing.sort_unstable();
    missing.dedup();
    assert!(
        missing.is_empty(),
        "the operator may ask for this from its start, and no recording has it, so no life of operator/tests/memory \
         can: {missing:#?}\nrecord it anew: COVEY_RECORD=$PWD/operator/tests/memory/recordings cargo test \
         -p operator --test memory real"
    );
}
