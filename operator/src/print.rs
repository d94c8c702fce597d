//! Generated manifests: what `operator print` writes to standard output.
//!
//! Invariant: the output depends on the code alone.

use tenant_cp::Settings;

/// The CustomResourceDefinitions, as YAML documents.
///
/// # Errors
/// When one cannot be written as YAML, which is a bug.
pub fn crds_yaml() -> anyhow::Result<String> {
    let mut text = String::new();
    for crd in api::crds() {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&crd)?);
    }
    Ok(text)
}

/// The default configuration.
///
/// # Errors
/// When it cannot be written as YAML, which is a bug.
pub fn config_yaml() -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(&Settings::default())?)
}
