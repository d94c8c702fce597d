//! Words that mean something else than what docs/architecture.md calls things, and links that lead
//! nowhere.
//!
//! Invariant: an exception names the file and the reason.

use std::collections::BTreeSet;

use super::files::is_generated;
use super::finding::Finding;
use super::text::{Text, has_word};

/// First halves of the compounds "… cluster" that are not ours: word, what to say.
const CLUSTERS: &[(&str, &str)] = &[
    ("guest", "tenant cluster"),
    ("child", "tenant cluster"),
    ("nested", "tenant cluster"),
    ("customer", "tenant cluster"),
    ("virtual", "tenant cluster"),
    ("parent", "management cluster"),
    ("infra", "management cluster"),
    ("host", "management cluster"),
    ("outer", "management cluster"),
];

/// Where "backend" is somebody else's word: start of the path, reason.
const BACKEND_IS_THEIRS: &[(&str, &str)] = &[
    ("e2e/lab/programs/", "module names"),
    (
        "e2e/lab/",
        "options of containerd and of the kube-apiserver",
    ),
    (
        "ccm/benches/load_balancers.rs",
        "the name of a figure that others compare",
    ),
    (
        "docs/benchmarks.md",
        "the name of a figure that others compare",
    ),
    ("operator/providers/gcp/", "codes of Google's API"),
    ("operator/benches/clouds/played.rs", "codes of Google's API"),
    (
        "tenant-cp/src/addons/flannel.rs",
        "a field of flannel's configuration",
    ),
];

/// Every text that is wrong.
pub(super) fn check(texts: &[Text]) -> Vec<Finding> {
    let judged = texts.iter().filter(|text| !is_foreign(&text.path));
    let words = judged.flat_map(vocabulary);
    words.chain(links(texts)).collect()
}

/// Not ours to word: lock files, the licence, and this folder, which spells out what it looks for.
fn is_foreign(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(name, "Cargo.lock" | "go.sum" | "go.mod" | "LICENSE")
        || path.starts_with("xtask/src/tidy/")
}

fn vocabulary(text: &Text) -> Vec<Finding> {
    if is_generated(&text.path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in text.text.lines().enumerate() {
        let mut find = |message| {
            findings.push(Finding {
                path: text.path.clone(),
                line: number + 1,
                message,
            });
        };
        let plain = line.to_lowercase().replace(['-', '_'], " ");
        for (word, ours) in CLUSTERS {
            let compounds = [format!("{word} cluster"), format!("{word} clusters")];
            let joined = format!("{word}cluster");
            if compounds.iter().any(|c| has_word(&plain, c)) || plain.contains(&joined) {
                find(format!("say \"{ours}\", not \"{word} cluster\""));
            }
        }
        let theirs = BACKEND_IS_THEIRS
            .iter()
            .any(|(start, _)| text.path.starts_with(start));
        if !theirs && has_backend(line) {
            find("say what it is (etcd, storage, server, Service), not \"backend\"".to_owned());
        }
    }
    findings
}

/// "backend" as a word of prose or a part of an identifier, but not in the name of a flag or of a
/// package (`--quota-backend-bytes`, `storage/backend`), nor in the field that is called as that flag is.
fn has_backend(line: &str) -> bool {
    let field = [
        "quotabackendbytes",
        "quota_backend_bytes",
        "etcd_disk_backend_commit_duration_seconds",
        "konnectivity_network_proxy_server_ready_backend_connections",
    ];
    let line = field
        .iter()
        .fold(line.to_lowercase(), |line, name| line.replace(name, ""));
    line.match_indices("backend").any(|(at, found)| {
        let before = line[..at].chars().next_back();
        let after = line[at + found.len()..].chars().next();
        let theirs = |c: Option<char>| c.is_some_and(|c| c == '-' || c == '/');
        !theirs(before) && !theirs(after)
    })
}

/// Relative links of Markdown files that lead to no file.
fn links(texts: &[Text]) -> Vec<Finding> {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for text in texts {
        let mut path = text.path.as_str();
        known.insert(path);
        while let Some((folder, _)) = path.rsplit_once('/') {
            known.insert(folder);
            path = folder;
        }
    }
    let mut findings = Vec::new();
    for text in texts.iter().filter(|text| text.path.ends_with(".md")) {
        for (number, line) in text.text.lines().enumerate() {
            for target in targets(line) {
                if !known.contains(resolve(&text.path, target).as_str()) {
                    let message = format!("the link to {target} leads nowhere");
                    findings.push(Finding {
                        path: text.path.clone(),
                        line: number + 1,
                        message,
                    });
                }
            }
        }
    }
    findings
}

/// The targets of `[…](…)` in one line that are paths, without fragments.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
        (!target.is_empty() && !target.contains(':')).then_some(target)
    })
}

fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
