//! Which versions of Kubernetes the lab has for tenants.
//!
//! Invariant: with `COVEY_ALL=1` (`cargo xtask test --all`) none may be missing.

use std::env;

use anyhow::{Result, bail};
use lab::{Layout, state::State};

/// Whether tenants can have all of `versions`; says what is skipped where they cannot.
///
/// # Errors
/// One is missing in a run of everything.
pub fn lab_has(layout: &Layout, what: &str, versions: &[&str]) -> Result<bool> {
    let there = State::read(layout).map(|state| state.tenant_versions);
    let missing = missing(&there.unwrap_or_default(), versions);
    if missing.is_empty() {
        return Ok(true);
    }
    let missing = missing.join(",");
    let said = format!(
        "the lab has no Kubernetes {missing}: `cargo xtask lab up --tenant-versions {missing}` adds it"
    );
    if env::var("COVEY_ALL").is_ok_and(|value| value == "1") {
        bail!("{what}: {said}")
    }
    eprintln!("SKIPPED {what}: {said}");
    Ok(false)
}

fn missing<'a>(there: &[String], versions: &[&'a str]) -> Vec<&'a str> {
    let is_missing = |version: &&&str| !there.iter().any(|there| there == **version);
    versions.iter().filter(is_missing).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn a_version_is_missing_when_the_lab_was_brought_up_without_it() {
        let there = ["1.35.4".to_owned(), "1.36.3".to_owned()];
        assert!(missing(&there, &["1.36.3", "1.35.4"]).is_empty());
        assert_eq!(missing(&there, &["1.34.4", "1.35.4"]), ["1.34.4"]);
        assert_eq!(missing(&[], &["1.35.4"]), ["1.35.4"]);
    }
}
