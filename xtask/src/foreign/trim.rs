//! Cuts a CustomResourceDefinition down to the stored version and the fields that are named.
//!
//! Invariant: a field that is named and not there is an error, so that a new release which drops
//! one is noticed.

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};

/// Fields that every kind has.
const ALWAYS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Keeps the stored version, and of its schema the fields `keep` (dotted paths; what is below the
/// last part stays as it is, without descriptions).
pub(super) fn trim(crd: &mut Value, keep: &[&str]) -> Result<()> {
    let versions = crd["spec"]["versions"].as_array_mut();
    let versions = versions.context("it has no versions")?;
    versions.retain(|version| version["storage"] == true);
    ensure!(versions.len() == 1, "it has no stored version");
    let version = &mut versions[0];
    if let Some(version) = version.as_object_mut() {
        version.remove("additionalPrinterColumns");
    }
    let keep: Vec<Vec<&str>> = keep
        .iter()
        .chain(&ALWAYS)
        .map(|path| path.split('.').collect())
        .collect();
    let keep: Vec<&[&str]> = keep.iter().map(Vec::as_slice).collect();
    fields(&mut version["schema"]["openAPIV3Schema"], &keep)?;
    let top = crd.as_object_mut().context("it is no object")?;
    top.remove("status");
    top["metadata"] = serde_json::json!({ "name": top["metadata"]["name"] });
    Ok(())
}

fn fields(schema: &mut Value, keep: &[&[&str]]) -> Result<()> {
    let schema = schema.as_object_mut().context("a schema is no object")?;
    if keep.iter().any(|path| path.is_empty()) {
        undescribe(schema);
        return Ok(());
    }
    schema.remove("description");
    if let Some(items) = schema.get_mut("items") {
        return fields(items, keep);
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    let properties = properties.with_context(|| format!("there is nothing below: {keep:?}"))?;
    for path in keep {
        ensure!(
            properties.contains_key(path[0]),
            "there is no {}",
            path.join(".")
        );
    }
    properties.retain(|name, _| keep.iter().any(|path| path[0] == name));
    let names: Vec<Value> = properties.keys().map(|name| name.as_str().into()).collect();
    for (name, property) in properties {
        let below: Vec<&[&str]> = keep
            .iter()
            .filter(|path| path[0] == name)
            .map(|path| &path[1..])
            .collect();
        fields(property, &below).with_context(|| format!("in {name}"))?;
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| names.contains(name));
        if required.is_empty() {
            schema.remove("required");
        }
    }
    Ok(())
}

/// Takes the descriptions out, but not properties that are called so.
pub(super) fn undescribe(schema: &mut Map<String, Value>) {
    schema.remove("description");
    for (key, value) in schema {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => properties
                .values_mut()
                .filter_map(Value::as_object_mut)
                .for_each(undescribe),
            (_, Value::Object(inner)) => undescribe(inner),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn crd(schema: &Value) -> Value {
        json!({
            "metadata": {"name": "things.example.com", "creationTimestamp": null},
            "spec": {"versions": [
                {"name": "v1", "storage": true, "additionalPrinterColumns": [],
                 "schema": {"openAPIV3Schema": schema}},
                {"name": "v0", "storage": false},
            ]},
            "status": {},
        })
    }

    fn schema() -> Value {
        let text = json!({"type": "string", "description": "a text"});
        let item = json!({
            "type": "object", "required": ["a", "b"],
            "properties": {"a": text, "b": text, "description": text},
        });
        json!({
            "type": "object", "description": "a thing", "required": ["b"],
            "properties": {
                "apiVersion": text, "kind": text, "metadata": {"type": "object"},
                "list": {"type": "array", "items": item},
                "map": {"type": "object", "additionalProperties": text},
                "b": text,
            },
        })
    }

    #[test]
    fn what_is_named_stays_and_the_rest_goes() {
        let mut crd = crd(&schema());
        trim(&mut crd, &["list.a", "list.description", "map"]).unwrap();
        let text = json!({"type": "string"});
        let item = json!({
            "type": "object", "required": ["a"], "properties": {"a": text, "description": text},
        });
        let trimmed = json!({
            "type": "object",
            "properties": {
                "apiVersion": text, "kind": text, "metadata": {"type": "object"},
                "list": {"type": "array", "items": item},
                "map": {"type": "object", "additionalProperties": text},
            },
        });
        assert_eq!(
            crd,
            json!({
                "metadata": {"name": "things.example.com"},
                "spec": {"versions": [
                    {"name": "v1", "storage": true, "schema": {"openAPIV3Schema": trimmed}},
                ]},
            })
        );
    }

    #[test]
    fn a_field_that_is_not_there_is_an_error() {
        let error = trim(&mut crd(&schema()), &["list.c"]).unwrap_err();
        assert_eq!(format!("{error:#}"), "in list: there is no c");
        assert!(trim(&mut crd(&schema()), &["b.c"]).is_err());
    }
}
