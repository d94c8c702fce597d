//! The configuration file, which all processes of the operator read alike.
//!
//! Invariant: who has no file has all defaults, and nobody starts with settings that are wrong.

use std::path::Path;

use anyhow::{Context as _, bail};
use tenant_cp::Settings;

/// Reads and checks the file.
///
/// # Errors
/// When it cannot be read, is no configuration, or holds settings that cannot work.
pub fn read(path: Option<&Path>) -> anyhow::Result<Settings> {
    let settings = match path {
        Some(path) => parse(path)?,
        None => Settings::default(),
    };
    let problems = tenant_cp::validate::check_settings(&settings);
    if !problems.is_empty() {
        let problems: Vec<_> = problems
            .iter()
            .map(|p| format!("{}: {}", p.field, p.message))
            .collect();
        bail!("the configuration is wrong: {}", problems.join("; "));
    }
    Ok(settings)
}

fn parse(path: &Path) -> anyhow::Result<Settings> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("read the configuration {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| {
        format!(
            "understand the configuration {}; `operator print config` shows all keys",
            path.display()
        )
    })
}
