//! The schema as a whole: what is committed is what the types say, and every field is explained.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use serde_json::Value;

fn schema() -> Value {
    let crd = serde_json::to_value(&api::crds()[0]).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

#[test]
fn the_committed_yaml_is_what_the_types_say() {
    for crd in api::crds() {
        let name = crd.metadata.name.clone().unwrap();
        let path = format!("{}/generated/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        let committed: Value = serde_saphyr::from_str(&text).unwrap();
        let declared = serde_json::to_value(&crd).unwrap();
        assert_eq!(
            committed, declared,
            "{name} is out of date: run `cargo xtask crds`"
        );
    }
}

#[test]
fn every_field_of_the_spec_has_default_and_example() {
    let root = schema();
    let mut missing = Vec::new();
    visit(&root["properties"]["spec"], "spec", &mut |path, field| {
        let text = field["description"].as_str().unwrap_or_default();
        if !(text.contains("Default") || text.contains("no default")) {
            missing.push(format!("{path}: no default"));
        }
        if !text.contains("Example:") && path != "spec.addons" {
            missing.push(format!("{path}: no example"));
        }
    });
    assert_eq!(missing, [""; 0]);
}

#[test]
fn every_field_of_the_status_has_an_example() {
    let root = schema();
    let mut missing = Vec::new();
    visit(
        &root["properties"]["status"],
        "status",
        &mut |path, field| {
            let text = field["description"].as_str().unwrap_or_default();
            if !text.contains("xample") && !path.starts_with("status.conditions.") {
                missing.push(path.to_owned());
            }
        },
    );
    assert_eq!(missing, [""; 0]);
}

#[test]
fn every_text_and_list_of_the_spec_has_a_limit() {
    // Without one, the API server takes the whole request as the length when it estimates what a
    // rule costs, and refuses the definition.
    let root = schema();
    let mut unlimited = Vec::new();
    visit(&root["properties"]["spec"], "spec", &mut |path, field| {
        let limited = match field["type"].as_str() {
            Some("string") => field["maxLength"].is_u64() || field["enum"].is_array(),
            Some("array") => field["maxItems"].is_u64() && field["items"]["maxLength"].is_u64(),
            Some("object") if field["additionalProperties"].is_object() => {
                field["maxProperties"].is_u64()
            }
            _ => true,
        };
        if !limited {
            unlimited.push(path.to_owned());
        }
    });
    assert_eq!(unlimited, [""; 0]);
}

#[test]
fn null_counts_as_absent_everywhere() {
    assert!(!schema().to_string().contains("nullable"));
}

#[test]
fn the_first_columns_say_version_readiness_and_address() {
    let crd = &api::crds()[0];
    let columns = crd.spec.versions[0]
        .additional_printer_columns
        .as_ref()
        .unwrap();
    let shown: Vec<&str> = columns
        .iter()
        .filter(|column| column.priority.unwrap_or_default() == 0)
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(
        shown,
        ["Version", "Ready", "Reason", "Endpoint", "Port", "Age"]
    );
}

fn visit(schema: &Value, path: &str, see: &mut impl FnMut(&str, &Value)) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        see(&path, field);
        visit(field, &path, see);
        visit(&field["items"], &path, see);
    }
}
