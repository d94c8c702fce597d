//! CHANGELOG.md, which people write: the part of one version, and its changes for the chart.
//!
//! Invariant: pure. A version without a part of its own, without a change or without what its users must do has no
//! release: nobody would know what it is.

use anyhow::{Context as _, Result, ensure};

/// Headings and what Artifact Hub calls such changes (its annotation `artifacthub.io/changes`).
const KINDS: [(&str, &str); 6] = [
    ("Added", "added"),
    ("Changed", "changed"),
    ("Deprecated", "deprecated"),
    ("Removed", "removed"),
    ("Fixed", "fixed"),
    ("Security", "security"),
];
/// The heading of what users have to do themselves.
const DUTIES: &str = "What you must do";

/// What is said of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notes {
    /// All of it, without the version's own heading.
    pub(crate) text: String,
    /// Its changes in their order.
    pub(crate) changes: Vec<Change>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// `added`, `changed` and so on.
    pub(crate) kind: &'static str,
    /// In one line, without the marks of Markdown that are lost outside it.
    pub(crate) text: String,
}

/// The notes of this version.
///
/// # Errors
/// There are none, or they lack a change or what to do.
pub(crate) fn notes(changelog: &str, version: &str) -> Result<Notes> {
    let is_its = |line: &&str| {
        let heading = line.strip_prefix("## ");
        heading.is_some_and(|heading| heading.split(' ').next() == Some(version))
    };
    let mut lines = changelog.lines().skip_while(|line| !is_its(line));
    lines.next().with_context(|| {
        format!("CHANGELOG.md has no `## {version}`: write what is in it for those who install it")
    })?;
    let lines: Vec<_> = lines.take_while(|line| !line.starts_with("## ")).collect();
    let (mut changes, mut kind, mut duties) = (Vec::<Change>::new(), None, 0);
    let mut is_duty = false;
    for line in &lines {
        if let Some(heading) = line.strip_prefix("### ") {
            is_duty = heading == DUTIES;
            let known = KINDS.iter().find(|(name, _)| *name == heading);
            ensure!(
                is_duty || known.is_some(),
                "CHANGELOG.md, {version}: {heading:?} is no heading; {} and {DUTIES} are",
                KINDS.map(|(name, _)| name).join(", ")
            );
            kind = known.map(|(_, kind)| *kind);
        } else if is_duty {
            duties += usize::from(!line.trim().is_empty());
        } else if let (Some(kind), Some(text)) = (kind, line.strip_prefix("- ")) {
            changes.push(Change {
                kind,
                text: plain(text),
            });
        } else if let (Some(more), Some(change)) = (line.strip_prefix("  "), changes.last_mut()) {
            change.text = format!("{} {}", change.text, plain(more));
        }
    }
    ensure!(
        !changes.is_empty(),
        "CHANGELOG.md, {version}: no change is listed below a heading"
    );
    ensure!(
        duties > 0,
        "CHANGELOG.md, {version}: `### {DUTIES}` lacks; where it is nothing, say so there"
    );
    Ok(Notes {
        text: lines.join("\n").trim().to_owned() + "\n",
        changes,
    })
}

/// Without emphasis, marks of code and the targets of links.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.trim();
    while let Some(at) = rest.find("](") {
        let Some(end) = rest[at..].find(')') else {
            break;
        };
        plain.push_str(&rest[..at]);
        rest = &rest[at + end + 1..];
    }
    plain.push_str(rest);
    plain.replace(['`', '[', '*'], "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::root;

    const TEXT: &str = "# Changes\n\n## 1.1.0 (not released)\n\n### Added\n- Later.\n\n## 1.0.0 (2027-01-02)\n\nFirst.\n\n\
        ### Added\n- **Clusters** as [docs](docs/a.md) of `covey`\n  say it.\n- More.\n\n### Fixed\n- A hole.\n\n\
        ### What you must do\n- Nothing.\n\n## 0.9.0\n### Added\n- Old.\n";

    #[test]
    fn the_part_of_one_version_is_read_with_its_changes() {
        let notes = notes(TEXT, "1.0.0").unwrap();
        let changes: Vec<_> = notes
            .changes
            .iter()
            .map(|change| (change.kind, change.text.as_str()))
            .collect();
        assert_eq!(
            changes,
            [
                ("added", "Clusters as docs of covey say it."),
                ("added", "More."),
                ("fixed", "A hole.")
            ]
        );
        assert!(notes.text.starts_with("First.\n") && notes.text.ends_with("- Nothing.\n"));
        assert!(!notes.text.contains("Old") && !notes.text.contains("Later"));
    }

    #[test]
    fn a_version_of_which_something_is_not_said_is_refused() {
        let refused = |text: &str, version| notes(text, version).unwrap_err().to_string();
        assert!(refused(TEXT, "2.0.0").contains("no `## 2.0.0`"));
        assert!(refused(TEXT, "1.0").contains("no `## 1.0`"));
        assert!(refused(TEXT, "1.1.0").contains("What you must do"));
        let empty = "## 1.0.0\n### Added\n### What you must do\n- Nothing.\n";
        assert!(refused(empty, "1.0.0").contains("no change"));
        let word = "## 1.0.0\n### News\n- A.\n";
        assert!(refused(word, "1.0.0").contains("\"News\" is no heading"));
    }

    #[test]
    fn the_changelog_says_what_is_in_the_version_of_this_checkout() {
        let text = std::fs::read_to_string(root().unwrap().join("CHANGELOG.md")).unwrap();
        let notes = notes(&text, env!("CARGO_PKG_VERSION")).unwrap();
        for change in &notes.changes {
            assert!(change.text.len() > 10, "{change:?}");
        }
    }
}
