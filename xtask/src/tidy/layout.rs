//! One layout of modules: the file of a folder stands beside it (`x.rs` beside `x/`).
//!
//! Invariant: an exception that is not needed any more is a finding, so the list only gets shorter.

use super::finding::Finding;
use super::text::Text;

/// Where the exceptions are.
const PLACE: &str = "xtask/src/tidy/layout.rs";

/// Files that are still called `mod.rs`.
const EXCEPTIONS: &[&str] = &[];

/// Every `mod.rs` below `src/`, and every exception that is not needed.
pub(super) fn check(texts: &[Text]) -> Vec<Finding> {
    find(texts, EXCEPTIONS)
}

fn find(texts: &[Text], exceptions: &[&str]) -> Vec<Finding> {
    let found = texts.iter().map(|text| text.path.as_str());
    let found: Vec<_> = found.filter(|path| is_inside(path)).collect();
    let new = found.iter().filter(|path| !exceptions.contains(path));
    let new = new.map(|path| Finding {
        path: (*path).to_owned(),
        line: 0,
        message: format!(
            "call it {}.rs, beside its folder. What cannot be mended now stands in {PLACE}",
            path.trim_end_matches("/mod.rs")
        ),
    });
    let gone = exceptions.iter().filter(|path| !found.contains(path));
    let gone = gone.map(|path| Finding {
        path: PLACE.to_owned(),
        line: 0,
        message: format!("remove \"{path}\": there is no such file any more"),
    });
    new.chain(gone).collect()
}

/// Whether the file of a folder below `src/` stands in that folder.
fn is_inside(path: &str) -> bool {
    path.ends_with("/mod.rs") && format!("/{path}").contains("/src/")
}

#[cfg(test)]
mod tests {
    use super::find;
    use crate::tidy::text::Text;

    fn found(paths: &[&str], exceptions: &[&str]) -> Vec<String> {
        let text = |path: &&str| Text {
            path: (*path).to_owned(),
            text: String::new(),
        };
        let texts: Vec<_> = paths.iter().map(text).collect();
        let findings = find(&texts, exceptions);
        findings.into_iter().map(|f| f.to_string()).collect()
    }

    #[test]
    fn a_folder_whose_file_stands_in_it_is_found() {
        let found = found(
            &[
                "a/src/b/mod.rs",
                "a/src/b.rs",
                "src/c/mod.rs",
                "a/tests/t1/mod.rs",
            ],
            &[],
        );
        let starts: Vec<_> = found.iter().filter_map(|f| f.split('.').next()).collect();
        assert_eq!(starts, ["a/src/b/mod", "src/c/mod"]);
        assert!(found[0].contains("call it a/src/b.rs, beside its folder"));
    }

    #[test]
    fn an_exception_holds_for_its_file_and_only_while_there_is_one() {
        assert_eq!(found(&["a/src/b/mod.rs"], &["a/src/b/mod.rs"]), [""; 0]);
        let found = found(&["a/src/b.rs"], &["a/src/b/mod.rs"]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("remove \"a/src/b/mod.rs\""));
    }
}
