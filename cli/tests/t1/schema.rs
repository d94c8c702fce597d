//! What `-o json` writes against `cli/schemas/v1.json`. Tests of the program itself use it, too.
//!
//! Invariant: pure. It knows the words of JSON Schema that stand in that file and refuses others, so nothing passes because it
//! was not understood; a field that the file does not have is a finding, because others read from the file what there is.

#![allow(dead_code)] // each test uses a part of it
#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

use serde_json::{Map, Value};

/// The file.
const TEXT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/v1.json"));
/// Words that say something to people alone.
const SAID: [&str; 1] = ["description"];

/// What is wrong with an output of `cli.covey.dev/v1`, place by place; nothing of one that is as it should be.
#[must_use]
pub(crate) fn findings(output: &Value) -> Vec<String> {
    let all: Value = serde_json::from_str(TEXT).unwrap();
    let kind = output["kind"].as_str().unwrap_or_default();
    let wanted = format!("#/$defs/{kind}");
    let kinds = all["oneOf"].as_array().unwrap();
    if !kinds.iter().any(|one| one["$ref"] == wanted.as_str()) {
        return vec![format!("there is no kind {kind:?}")];
    }
    let mut found = Vec::new();
    let checker = Checker {
        definitions: all["$defs"].as_object().unwrap(),
    };
    checker.check(output, &all["$defs"][kind], kind, &mut found);
    found
}

/// The kinds that the file has.
#[must_use]
pub(crate) fn kinds() -> Vec<String> {
    let all: Value = serde_json::from_str(TEXT).unwrap();
    let kinds = all["oneOf"].as_array().unwrap().iter();
    let name = |one: &Value| {
        let path = one["$ref"].as_str().unwrap();
        path.trim_start_matches("#/$defs/").to_owned()
    };
    kinds.map(name).collect()
}

struct Checker<'a> {
    definitions: &'a Map<String, Value>,
}

impl Checker<'_> {
    fn check(&self, value: &Value, schema: &Value, at: &str, found: &mut Vec<String>) {
        let mut wrong = |what: String| found.push(format!("{at}: {what}"));
        let words = schema.as_object().unwrap();
        let mut deeper: Vec<(String, &Value, &Value)> = Vec::new();
        for (word, said) in words {
            match word.as_str() {
                "$ref" => {
                    let name = said.as_str().unwrap().trim_start_matches("#/$defs/");
                    match self.definitions.get(name) {
                        Some(definition) => deeper.push((at.to_owned(), value, definition)),
                        None => wrong(format!("there is no {name}")),
                    }
                }
                "type" if !is_of(value, said.as_str().unwrap()) => {
                    wrong(format!("{value} is no {said}"));
                }
                "const" if value != said => wrong(format!("{value} is not {said}")),
                "enum" if !said.as_array().unwrap().contains(value) => {
                    wrong(format!("{value} is none of {said}"));
                }
                "format" => {
                    assert_eq!(said, "date-time", "a format that is not checked");
                    let time = value.as_str().map(str::parse::<jiff::Timestamp>);
                    if !matches!(time, Some(Ok(_))) {
                        wrong(format!("{value} is no time"));
                    }
                }
                "required" => {
                    for field in said.as_array().unwrap() {
                        if value.get(field.as_str().unwrap()).is_none() {
                            wrong(format!("{field} is not there"));
                        }
                    }
                }
                "properties" => {
                    for (field, inner) in value.as_object().into_iter().flatten() {
                        match said.get(field) {
                            Some(schema) => deeper.push((format!("{at}.{field}"), inner, schema)),
                            None => wrong(format!("{field} is not in cli/schemas/v1.json")),
                        }
                    }
                }
                "additionalProperties" => {
                    for (field, inner) in value.as_object().into_iter().flatten() {
                        deeper.push((format!("{at}.{field}"), inner, said));
                    }
                }
                "items" => {
                    for (number, inner) in value.as_array().into_iter().flatten().enumerate() {
                        deeper.push((format!("{at}[{number}]"), inner, said));
                    }
                }
                "type" | "const" | "enum" => {}
                word => assert!(SAID.contains(&word), "a word that is not checked: {word}"),
            }
        }
        for (at, value, schema) in deeper {
            self.check(value, schema, &at, found);
        }
    }
}

fn is_of(value: &Value, type_: &str) -> bool {
    match type_ {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("a type that is not checked: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_new_or_of_another_form_is_found_and_each_kind_is_in_the_docs() {
        let good = json!({"apiVersion": "cli.covey.dev/v1", "kind": "DoctorReport", "checks": ["etcd"], "worst": "error",
            "findings": [{"id": "etcd", "number": 26, "level": "error", "cause": "1 of 3",
                "subject": {"kind": "TenantCluster", "namespace": "team-a", "name": "demo"}, "since": "2026-11-27T11:00:00Z"}]});
        assert_eq!(findings(&good), [""; 0]);
        let check = |path: &str, value: Value, words: &str| {
            let mut bad = good.clone();
            *bad.pointer_mut(path).unwrap() = value;
            let found = findings(&bad);
            assert!(found.len() == 1 && found[0].contains(words), "{found:?}");
        };
        check("/kind", json!("Doctor"), "there is no kind");
        check("/apiVersion", json!("v1"), "is not");
        check("/worst", json!("bad"), "none of");
        check("/checks/0", json!(7), "DoctorReport.checks[0]: 7 is no");
        check("/findings/0/since", json!("yesterday"), "no time");
        check(
            "/findings/0/subject",
            json!({"kind": "x"}),
            "\"name\" is not there",
        );
        let docs = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md"));
        for kind in kinds() {
            assert!(
                docs.contains(&format!("`{kind}`")),
                "docs/cli.md lacks {kind}"
            );
        }
        let mut new = good;
        new["findings"][0]["colour"] = json!("red");
        assert_eq!(findings(&new).len(), 1);
    }
}
