//! Reasons of conditions and Events come from one catalogue (`crds/src/reason/catalogue.rs` and what is below it),
//! never from a text beside it.
//!
//! Invariant: types keep texts out where they can; here is found what they cannot see, and what nobody says.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::source::{code, is_of_tests, test_lines};
use super::text::Text;

/// The catalogue's files.
const CATALOGUE: [&str; 2] = [
    "crds/src/reason/catalogue.rs",
    "crds/src/reason/catalogue/refusals.rs",
];

/// A reason, and where the catalogue has it.
struct Entry<'a> {
    name: &'a str,
    path: &'a str,
    line: usize,
}

/// Crates whose programs write reasons. The start gate of etcd uses no other crate, so its words stand in a
/// table of their own, which `operator/src/pod_failures.rs` translates.
const CRATES: [&str; 7] = [
    "autoscaler/",
    "ccm/",
    "crds/",
    "csi-proxy/",
    "kit/",
    "operator/",
    "tenant-cp/",
];

/// Names that are also somebody else's words, or those of another list of ours: name, whose.
const ALSO_OTHERS: &[(&str, &str)] = &[
    ("AutoscalingRefused", "the type of the condition"),
    ("Booting", "a phase of Machines"),
    ("Conflict", "an error of Azure"),
    ("Deleting", "a phase of Machines"),
    ("Drained", "the type of the condition"),
    ("Draining", "a phase of Machines"),
    ("InUse", "the type of the condition"),
    ("InternalError", "an error of AWS"),
    ("KubeVirtOutdated", "the type of the condition"),
    ("NodeReady", "the type of the condition"),
    ("Paused", "a condition of KubeVirt"),
    ("QuotaExceeded", "an error of Azure"),
    ("Ready", "the type of the condition"),
    ("Restored", "the type of the condition"),
    ("Running", "a phase of pods and virtual machines"),
    ("Stopped", "a status of KubeVirt"),
    ("Unschedulable", "a reason of the scheduler"),
];

/// Every reason that is a text, and every one that nobody says.
pub(super) fn check(texts: &[Text]) -> Vec<Finding> {
    let catalogue = texts.iter().filter(|text| is_catalogue(&text.path));
    let names: Vec<_> = catalogue.flat_map(entries).collect();
    let (mut findings, mut said) = (Vec::new(), BTreeSet::new());
    for text in texts.iter().filter(|text| is_judged(&text.path)) {
        let tests: BTreeSet<_> = test_lines(text).into_iter().map(|(at, _)| at).collect();
        let lines = text.text.lines().zip(1..);
        for (line, at) in lines.filter(|(_, at)| !tests.contains(at)) {
            let line = code(line);
            let after = line.split("Reason::").skip(1);
            said.extend(after.map(|rest| word(rest).to_owned()));
            let found = wrong(line, &names).map(|message| Finding {
                path: text.path.clone(),
                line: at,
                message,
            });
            findings.extend(found);
        }
    }
    let silent = names.iter().filter(|entry| !said.contains(entry.name));
    findings.extend(silent.map(|entry| Finding {
        path: entry.path.to_owned(),
        line: entry.line,
        message: format!("nobody says {}: take it out", entry.name),
    }));
    findings
}

fn is_catalogue(path: &str) -> bool {
    CATALOGUE.contains(&path)
}

fn is_judged(path: &str) -> bool {
    CRATES.iter().any(|folder| path.starts_with(folder))
        && path.ends_with(".rs")
        && path.contains("/src/")
        && !is_catalogue(path)
        && !path.starts_with("crds/src/foreign/")
        && !is_of_tests(path)
}

/// The reasons of the catalogue with their lines: `        Answering: Fine, "";`.
fn entries(catalogue: &Text) -> Vec<Entry<'_>> {
    let lines = catalogue.text.lines().map(str::trim).zip(1..);
    let entries = lines.filter_map(|(text, line)| {
        let (name, rest) = text.split_once(": ")?;
        let is_entry = word(name) == name && rest.ends_with("\";") && !name.is_empty();
        let path = &catalogue.path;
        is_entry.then_some(Entry { name, path, line })
    });
    entries.collect()
}

fn wrong(line: &str, names: &[Entry<'_>]) -> Option<String> {
    let literal = ["passed_on(\"", "\"reason\": \""];
    if literal.iter().any(|start| line.contains(start)) {
        return Some("a reason is not a text: put it into the catalogue".to_owned());
    }
    let is_others = |name: &str| ALSO_OTHERS.iter().any(|(other, _)| *other == name);
    let mut texts = line.split('"').skip(1).step_by(2);
    let name =
        texts.find(|text| !is_others(text) && names.iter().any(|entry| entry.name == *text))?;
    Some(format!("say Reason::{name}, not the text \"{name}\""))
}

/// The identifier at the start of a text.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<String> {
        let catalogue = "reasons! {\n        /// It starts: soon.\n        Starting: Waiting, \"\";\n        \
                         /// It is ready.\n        Ready: Fine, \"\";\n}\n";
        let text = |path: &str, text: &str| Text {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let said = "fn all() { (Reason::Starting, Reason::Ready); }\n";
        let texts = [
            text(CATALOGUE[0], catalogue),
            text("operator/src/plan.rs", &format!("{said}{source}")),
            text("operator/src/tests.rs", "\"Starting\""),
            text("etcd-agent/src/gate.rs", "\"Starting\""),
        ];
        let findings = check(&texts).into_iter();
        findings
            .map(|f| format!("{}: {}", f.line, f.message))
            .collect()
    }

    #[test]
    fn reason_that_is_a_text_is_found_outside_of_tests() {
        assert_eq!(found("set(Reason::Starting); // \"Starting\""), [""; 0]);
        assert_eq!(found("if c.type_ == \"Ready\" {}"), [""; 0]);
        assert_eq!(
            found("set(\"Starting\");"),
            ["2: say Reason::Starting, not the text \"Starting\""]
        );
        let message = "2: a reason is not a text: put it into the catalogue";
        assert_eq!(found("json!({ \"reason\": \"Test\" })"), [message]);
        assert_eq!(found("ConditionReason::passed_on(\"Mine\")"), [message]);
        let tests = "#[cfg(test)]\nmod tests {\n    set(\"Starting\");\n}\n";
        assert_eq!(found(tests), [""; 0]);
    }

    #[test]
    fn reason_that_nobody_says_is_found_in_each_file_of_the_catalogue() {
        for path in CATALOGUE {
            let catalogue = Text {
                path: path.to_owned(),
                text: "        Starting: Waiting, \"\";\n".to_owned(),
            };
            let found = check(&[catalogue]);
            assert_eq!(found.len(), 1);
            assert_eq!((&*found[0].path, found[0].line), (path, 1));
            assert_eq!(found[0].message, "nobody says Starting: take it out");
        }
    }
}
