//! What a source file must look like: heading, length, and no I/O where the architecture says so.
//!
//! Invariant: what is generated is never judged by its length or its heading.

use super::finding::Finding;
use super::text::{Text, has_word};

/// A file this long is too long.
const MOST_LINES: usize = 800;
/// A file longer than this says why in its heading.
const UNEXPLAINED_LINES: usize = 500;
/// The words with which it does.
const EXPLANATION: &str = "Long because";

/// What reads a clock, the environment, the disk or the network, or draws at random.
const IMPURE: &[&str] = &[
    "Client",
    "Instant",
    "OsRng",
    "SystemTime",
    "SystemRandom",
    "Timestamp::now",
    "Zoned::now",
    "rand",
    "std::env",
    "std::fs",
    "std::net::TcpStream",
    "std::process",
    "std::thread",
    "tokio",
];

/// Folders whose every file is pure, and files in them that are not.
const PURE_FOLDERS: &[&str] = &[
    "crds/src/",
    "insight/src/",
    "kit/objects/src/",
    "monitoring/src/",
    "operator/placement/src/",
    "tenant-cp/src/",
    "tenant-cp/pki/src/",
];

const LEASE: &str = "it is given Instants, and never reads one";
const ISSUE: &str = "the one place where keys and serial numbers are drawn";
const SEALED: &str = "the one place where keys that open a sealed text are drawn";

/// Exceptions: file, word, reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("kit/src/lease/plan.rs", "tokio", LEASE),
    ("kit/src/lease/plan.rs", "Instant", LEASE),
    ("tenant-cp/pki/src/issue.rs", "SystemRandom", ISSUE),
    ("tenant-cp/pki/src/issue.rs", "rand", ISSUE),
    ("tenant-cp/pki/src/sealed.rs", "SystemRandom", SEALED),
    ("tenant-cp/pki/src/sealed.rs", "rand", SEALED),
];

/// Everything that is wrong with the looks of the sources.
pub(super) fn check(texts: &[Text]) -> Vec<Finding> {
    let judged = texts.iter().filter(|text| !is_generated(&text.path));
    judged
        .flat_map(|text| [heading(text), length(text), purity(text)].concat())
        .collect()
}

/// Generated, vendored, or compared with by a test.
pub(super) fn is_generated(path: &str) -> bool {
    path.contains("/generated/")
        || path.contains("/golden/")
        || path.starts_with("crds/src/foreign/kubevirt/")
        || path.ends_with(".snap")
}

fn heading(text: &Text) -> Vec<Finding> {
    let first = text
        .text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    if !text.path.ends_with(".rs") || first.starts_with("//! ") {
        return Vec::new();
    }
    let message = "begin the file with `//!`: what it decides or does, and one invariant";
    vec![Finding {
        path: text.path.clone(),
        line: 1,
        message: message.to_owned(),
    }]
}

fn length(text: &Text) -> Vec<Finding> {
    let lines = text.text.lines().count();
    let heading = text.text.lines().take_while(|line| line.starts_with("//!"));
    let explained = heading.fold(String::new(), |all, line| all + &line[3..]);
    let message = if !text.path.ends_with(".rs") && !text.path.ends_with(".go") {
        return Vec::new();
    } else if lines > MOST_LINES {
        format!("has {lines} lines; split it, {MOST_LINES} is the most")
    } else if lines > UNEXPLAINED_LINES && !explained.contains(EXPLANATION) {
        format!("has {lines} lines; split it, or say \"{EXPLANATION} …\" in its heading")
    } else {
        return Vec::new();
    };
    vec![Finding {
        path: text.path.clone(),
        line: 0,
        message,
    }]
}

fn purity(text: &Text) -> Vec<Finding> {
    if !is_pure(&text.path) {
        return Vec::new();
    }
    // By convention the tests stand at the end.
    let code = text
        .text
        .lines()
        .take_while(|line| line.trim() != "#[cfg(test)]");
    let mut findings = Vec::new();
    for (number, line) in code.enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for word in IMPURE {
            let excepted = EXCEPTIONS.iter().any(|e| e.0 == text.path && e.1 == *word);
            if has_word(code, word) && !excepted {
                let message = format!(
                    "{word} does not belong here: a plan has no I/O, clock, chance or environment; \
                     pass the value in"
                );
                findings.push(Finding {
                    path: text.path.clone(),
                    line: number + 1,
                    message,
                });
            }
        }
    }
    findings
}

/// Every `plan.rs`, everything below a folder `plan`, and the pure crates; tests aside.
fn is_pure(path: &str) -> bool {
    let plan = path.ends_with("/plan.rs") || path.contains("/plan/");
    let pure = plan || PURE_FOLDERS.iter().any(|folder| path.starts_with(folder));
    pure && path.ends_with(".rs") && !path.ends_with("/tests.rs") && !path.contains("/tests/")
}
