//! One number for everything: the lines that say a version, and those that say another than the one released.
//!
//! Invariant: pure. A file in which no line says a version is a mistake, never agreement.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail, ensure};
use semver::Version;

use super::catalogue::{Digest, PROGRAMS, Program};

/// Files that say it, from the top of the repository.
pub(crate) const FILES: [&str; 3] = [
    "Cargo.toml",
    "deploy/charts/covey/Chart.yaml",
    "deploy/charts/covey/values.yaml",
];

/// Reads a version that a release can have.
///
/// # Errors
/// It is not one of SemVer, or has what no tag of an image can have.
pub(crate) fn parse(text: &str) -> Result<Version> {
    let version: Version = text
        .parse()
        .with_context(|| format!("{text:?} is no version of SemVer, such as 0.2.0"))?;
    ensure!(
        version.build.is_empty(),
        "{text}: tags of images have no +, so leave out what follows it"
    );
    Ok(version)
}

/// Checks that all lines of these files (in the order of [`FILES`]) say this version.
///
/// # Errors
/// With each line that says another one, and what it has to say.
pub(crate) fn check(version: &Version, texts: &[String; 3]) -> Result<()> {
    let wanted = version.to_string();
    let mut wrong = String::new();
    for (path, text) in FILES.into_iter().zip(texts) {
        let said = said(path, text);
        ensure!(!said.is_empty(), "{path}: no line says a version");
        for (number, line, found) in said.into_iter().filter(|(.., found)| *found != wanted) {
            let line = line.trim().replacen(found, &wanted, 1);
            // Writing to a String cannot fail.
            let _ = write!(wrong, "\n  {path}:{number}: {line}");
        }
    }
    if !wrong.is_empty() {
        bail!(
            "this checkout is not version {wanted}. These lines have to say so:{wrong}\nthen `cargo check` writes \
             Cargo.lock anew, `COVEY_UPDATE_GOLDEN=1 cargo test -p xtask --test chart` the chart's golden files, and \
             all of it is committed"
        );
    }
    Ok(())
}

/// Number, text and version of each line that says one.
fn said<'a>(path: &str, text: &'a str) -> Vec<(usize, &'a str, &'a str)> {
    let lines = (1..).zip(text.lines());
    match path {
        "Cargo.toml" => {
            let mut is_inside = false;
            let mut found = Vec::new();
            for (number, line) in lines {
                if line.starts_with('[') {
                    is_inside = line == "[workspace.package]";
                }
                let version = line.strip_prefix("version = \"");
                let version = version.and_then(|rest| rest.split('"').next());
                if let (true, Some(version)) = (is_inside, version) {
                    found.push((number, line, version));
                }
            }
            found
        }
        "deploy/charts/covey/Chart.yaml" => {
            let of = |line: &'a str| {
                let rest = line.strip_prefix("version: ");
                let rest = rest.or_else(|| line.strip_prefix("appVersion: "));
                rest.map(|rest| rest.trim_matches('"'))
            };
            lines
                .filter_map(|(number, line)| Some((number, line, of(line)?)))
                .collect()
        }
        _ => {
            let of = |line: &'a str| {
                let (_, rest) = line.split_once(" covey-dev/")?;
                let (image, version) = rest.split_once(':')?;
                let is_ours = |program: &Program| {
                    program.image == image && matches!(program.digest, Digest::Config(_))
                };
                PROGRAMS.iter().any(is_ours).then_some(version.trim())
            };
            lines
                .filter_map(|(number, line)| Some((number, line, of(line)?)))
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::root;

    fn texts(version: &str) -> [String; 3] {
        [
            format!(
                "[workspace]\n[workspace.package]\nversion = \"{version}\"\n[x]\nversion = \"9\"\n"
            ),
            format!("name: covey\nversion: {version}\nappVersion: \"{version}\"\n"),
            format!("  #   ccm: covey-dev/ccm:{version}\n  image: ghcr.io/covey-dev/worker:v9\n"),
        ]
    }

    #[test]
    fn a_checkout_of_this_version_is_taken() {
        let version = parse("1.2.3-rc.1").unwrap();
        check(&version, &texts("1.2.3-rc.1")).unwrap();
    }

    #[test]
    fn each_line_that_says_another_version_is_named_as_it_has_to_be() {
        let version = parse("1.3.0").unwrap();
        let error = check(&version, &texts("1.2.3")).unwrap_err().to_string();
        for line in [
            "\n  Cargo.toml:3: version = \"1.3.0\"\n",
            "\n  deploy/charts/covey/Chart.yaml:2: version: 1.3.0\n",
            "\n  deploy/charts/covey/Chart.yaml:3: appVersion: \"1.3.0\"\n",
            "\n  deploy/charts/covey/values.yaml:1: #   ccm: covey-dev/ccm:1.3.0\n",
        ] {
            assert!(error.contains(line), "{line} {error}");
        }
        assert!(!error.contains("9"), "{error}");
    }

    #[test]
    fn a_file_that_says_none_is_no_agreement() {
        let mut texts = texts("1.2.3");
        texts[1].clear();
        let error = check(&parse("1.2.3").unwrap(), &texts).unwrap_err();
        assert!(error.to_string().contains("Chart.yaml: no line"), "{error}");
    }

    #[test]
    fn what_no_release_can_be_called_is_refused() {
        for text in ["1.2", "v1.2.3", "", "1.2.3+x", "../1.2.3"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn this_checkout_has_one_version_everywhere() {
        let root = root().unwrap();
        let texts = FILES.map(|path| std::fs::read_to_string(root.join(path)).unwrap());
        let version = parse(env!("CARGO_PKG_VERSION")).unwrap();
        check(&version, &texts).unwrap();
        let lines: usize = FILES
            .iter()
            .zip(&texts)
            .map(|(path, text)| said(path, text).len())
            .sum();
        assert_eq!(lines, 1 + 2 + 5);
    }
}
