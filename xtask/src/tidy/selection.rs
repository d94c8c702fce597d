//! What `cargo xtask test --changed` must know to select: files that tests read outside of their
//! crate, and what suites of the lab need.
//!
//! Invariant: a path counts as read when it stands in quotes as a whole and leads to something.

use std::collections::BTreeSet;

use super::files::is_generated;
use super::finding::Finding;
use super::source::test_lines;
use super::text::Text;
use crate::test::changed::suites::{self, Suite};
use crate::test::changed::table::{self, Reach, TABLE};
use crate::workspace::Metadata;

/// Where the table is.
const PLACE: &str = "xtask/src/test/changed/table.rs";

/// Everything that the selection would not know.
pub(super) fn check(texts: &[Text], metadata: &Metadata) -> Vec<Finding> {
    [reads(texts, metadata), globs(texts), needs(texts)].concat()
}

/// Files outside of a crate that its tests read, and the table does not lead from them to the crate.
fn reads(texts: &[Text], metadata: &Metadata) -> Vec<Finding> {
    let known = known(texts);
    let mut findings = Vec::new();
    for text in texts {
        let Some(owner) = metadata.owner(&text.path) else {
            continue;
        };
        // These spell paths out on purpose.
        let is_rule = text.path.starts_with("xtask/src/");
        if is_rule || !text.path.ends_with(".rs") || is_generated(&text.path) {
            continue;
        }
        // What is below e2e/ is there for tests alone.
        let is_proof = text.path.starts_with("e2e/");
        let lines: Vec<_> = match is_proof {
            true => text
                .text
                .lines()
                .enumerate()
                .map(|(n, line)| (n + 1, line))
                .collect(),
            false => test_lines(text),
        };
        for (number, line) in lines {
            for path in quoted(line).filter_map(|quoted| outside(quoted, &known)) {
                let is_own =
                    metadata.owner(&format!("{path}/x")).map(|o| &o.name) == Some(&owner.name);
                if !is_own && !leads(path, &owner.name, is_proof) {
                    findings.push(Finding {
                        path: text.path.clone(),
                        line: number,
                        message: format!(
                            "{path} is read here, and {PLACE} does not lead from it to {}",
                            owner.name
                        ),
                    });
                }
            }
        }
    }
    findings
}

/// Every file and folder there is.
fn known(texts: &[Text]) -> BTreeSet<&str> {
    let mut known = BTreeSet::new();
    for text in texts {
        let mut path = text.path.as_str();
        known.insert(path);
        while let Some((folder, _)) = path.rsplit_once('/') {
            known.insert(folder);
            path = folder;
        }
    }
    known
}

/// What stands in quotes on one line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').skip(1).step_by(2)
}

/// The path from the top of the repository, when there is such a file or folder.
fn outside<'a>(quoted: &'a str, known: &BTreeSet<&str>) -> Option<&'a str> {
    let path = quoted.rsplit_once("../").map_or(quoted, |(_, path)| path);
    let path = path.trim_end_matches('/');
    (path.contains('/') && known.contains(path)).then_some(path)
}

/// Whether the table knows that tests of `krate` see a change of `path`.
fn leads(path: &str, krate: &str, is_proof: bool) -> bool {
    table::find(path).is_some_and(|entry| {
        entry.reaches.iter().any(|reach| match reach {
            Reach::Everything => true,
            Reach::Crate(name) | Reach::Target(name, _) => *name == krate,
            Reach::Need(_) | Reach::Lab => is_proof,
        })
    })
}

/// Lines of the table that mean nothing.
fn globs(texts: &[Text]) -> Vec<Finding> {
    TABLE
        .iter()
        .filter(|entry| {
            !texts
                .iter()
                .any(|text| table::matches(entry.glob, &text.path))
        })
        .map(|entry| Finding {
            path: PLACE.to_owned(),
            line: 0,
            message: format!("{} matches no file", entry.glob),
        })
        .collect()
}

/// Suites that do not say what they need, or in words that nobody knows.
fn needs(texts: &[Text]) -> Vec<Finding> {
    let words: Vec<_> = table::NEEDS.iter().map(|(word, _)| *word).collect();
    let mut findings = Vec::new();
    for text in texts.iter().filter(|t| t.path.starts_with(suites::FOLDER)) {
        if Suite::parse(&text.path, &text.text).is_none() {
            continue;
        }
        let message = match suites::needs(&text.text) {
            None => format!(
                "begin with what this suite needs, as `//! Needs: operator, vm`; the words are {}",
                words.join(", ")
            ),
            Some(needs) => match needs.iter().find(|need| !words.contains(&need.as_str())) {
                Some(unknown) => format!(
                    "{unknown:?} is nothing that a suite can need: {}",
                    words.join(", ")
                ),
                None => match wrong_node(&text.path, &needs) {
                    Some(message) => message,
                    None => continue,
                },
            },
        };
        findings.push(Finding {
            path: text.path.clone(),
            line: 1,
            message,
        });
    }
    findings
}

/// What is wrong with a suite of virtual machines that says whether hosts may play them.
fn wrong_node(path: &str, needs: &[String]) -> Option<String> {
    let (target, module) = suites::place(path)?;
    if target != suites::WORKERS {
        return None;
    }
    let (wanted, other) = match suites::PLAYABLE.contains(&module.as_str()) {
        true => ("node", "vm"),
        false => ("vm", "node"),
    };
    let says = |word: &str| needs.iter().any(|need| need == word);
    (!says(wanted) || says(other)).then(|| {
        format!(
            "say `{wanted}` and not `{other}`, as PLAYABLE of xtask/src/test/changed/suites.rs has it, or change that"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{globs, needs, reads, wrong_node};
    use crate::tidy::text::Text;
    use crate::workspace::Metadata;

    fn text(path: &str, text: &str) -> Text {
        Text {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// The messages for one text in a repository with some pages and crates.
    fn found(path: &str, line: &str) -> Vec<String> {
        let package = |name: &str, folder: &str| json!({ "name": name, "manifest_path": format!("/w/{folder}/Cargo.toml"), "dependencies": [] });
        let packages = [
            package("ccm", "ccm"),
            package("tenant-cp", "tenant-cp"),
            package("suites", "e2e/suites"),
            package("xtask", "xtask"),
        ];
        let metadata = json!({ "packages": packages, "workspace_root": "/w" }).to_string();
        let metadata = Metadata::parse(&metadata).unwrap();
        let all = [
            text(path, line),
            text("docs/ccm.md", ""),
            text("docs/certificates.md", ""),
            text("deploy/charts/covey/values.yaml", ""),
            text("ccm/tests/t1/data/a.yaml", ""),
            text("tenant-cp/tests/golden/b.yaml", ""),
        ];
        let findings = reads(&all, &metadata);
        findings
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn a_file_outside_of_the_crate_must_lead_to_it() {
        for (path, line) in [
            ("ccm/tests/t1/a.rs", "file(\"../../../docs/ccm.md\")"),
            ("ccm/tests/t1/a.rs", "file(\"ccm/tests/t1/data\")"),
            ("ccm/tests/t1/a.rs", "say(\"see docs/certificates.md\")"),
            (
                "ccm/src/a.rs",
                "const PAGE: &str = \"docs/certificates.md\";",
            ),
            (
                "tenant-cp/tests/a.rs",
                "include_str!(\"../../docs/certificates.md\")",
            ),
            (
                "xtask/tests/chart.rs",
                "root().join(\"deploy/charts/covey\")",
            ),
            ("e2e/suites/src/a.rs", "join(\"deploy/charts/covey\")"),
        ] {
            assert_eq!(found(path, line), [""; 0], "{path} {line}");
        }
        for (path, line) in [
            (
                "ccm/tests/t1/a.rs",
                "file(\"../../../docs/certificates.md\")",
            ),
            (
                "ccm/tests/t1/a.rs",
                "concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../docs/certificates.md\")",
            ),
            ("ccm/tests/t1/a.rs", "root().join(\"deploy/charts/covey/\")"),
            (
                "ccm/tests/t1/a.rs",
                "read(\"../../../tenant-cp/tests/golden/b.yaml\")",
            ),
            ("e2e/suites/src/a.rs", "join(\"docs/ccm.md\")"),
        ] {
            let found = found(path, line);
            assert!(
                found.len() == 1 && found[0].contains("does not lead"),
                "{path} {line}: {found:?}"
            );
        }
    }

    #[test]
    fn a_line_of_the_table_without_a_file_is_found() {
        let found = globs(&[text("docs/ccm.md", "")]);
        assert!(found.iter().any(|f| f.message == "LICENSE matches no file"));
        assert!(!found.iter().any(|f| f.message.starts_with("docs/ccm.md")));
    }

    #[test]
    fn a_suite_says_what_it_needs_in_known_words() {
        let suite = |first: &str| {
            let body = "#[tokio::test]\nasync fn works() {\n}\n";
            let path = "e2e/suites/tests/workers/a.rs";
            needs(&[text(path, &format!("{first}\n{body}"))]).len()
        };
        assert_eq!(suite("//! Needs: operator, vm"), 0);
        assert_eq!(suite("//! Works."), 1);
        assert_eq!(suite("//! Needs: operator, moon"), 1);
        assert_eq!(suite("//! Needs:"), 1);
        let helper = text("e2e/suites/tests/workers/b.rs", "//! Helps.\n");
        assert_eq!(needs(&[helper]), []);
    }

    #[test]
    fn a_suite_of_workers_says_whether_hosts_may_play_its_machines() {
        let wrong = |path: &str, words: &[&str]| {
            let needs: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            wrong_node(path, &needs).is_some()
        };
        let (drain, death) = (
            "e2e/suites/tests/workers/drain.rs",
            "e2e/suites/tests/workers/volumes/death.rs",
        );
        assert!(!wrong(drain, &["operator", "node"]));
        assert!(wrong(drain, &["operator", "vm"]) && wrong(drain, &["operator"]));
        assert!(!wrong(death, &["operator", "vm"]));
        assert!(wrong(death, &["operator", "node"]) && wrong(death, &["vm", "node"]));
        assert!(!wrong("e2e/suites/tests/kubevirt.rs", &["vm"]));
        assert!(!wrong("e2e/suites/tests/hosts.rs", &["operator", "host"]));
    }
}
