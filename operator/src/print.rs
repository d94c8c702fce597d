//! Generated manifests: what `operator print` writes to standard output.
//!
//! Invariant: the output depends on the code alone.

use tenant_cp::{Settings, golden_start};

use crate::FIELD_MANAGER;

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

/// What whoever makes a golden file has a kube-apiserver take, and the hash that `config.goldenStarts` says of it
/// (docs/adr/0023-golden-start.md): `{"hash": …, "fieldManager": …, "keys": […], "objects": […]}`.
#[must_use]
pub fn golden_json() -> serde_json::Value {
    let objects = golden_start::objects();
    let values: Vec<_> = objects.iter().map(|object| &object.value).collect();
    serde_json::json!({
        "hash": golden_start::objects_hash(),
        "fieldManager": FIELD_MANAGER,
        "keys": golden_start::KEYS,
        "objects": values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_a_golden_file_can_be_applied_as_they_are_printed() {
        let printed = golden_json();
        assert_eq!(printed["hash"], golden_start::objects_hash());
        let objects = printed["objects"].as_array().unwrap();
        assert!(objects.len() > 15, "{}", objects.len());
        for object in objects {
            for field in ["apiVersion", "kind"] {
                assert!(object[field].is_string(), "{object}");
            }
            assert!(object["metadata"]["name"].is_string(), "{object}");
        }
    }
}
