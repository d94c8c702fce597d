//! Values for every field of a kind's spec, out of its schema: what may be set, and what may not.
//!
//! What may be set is what the field's own documentation says (`Example:`), so an example that nobody could
//! use fails a test. What may not be set breaks the field's type, one of its bounds, or the text that it ends
//! in.
//! Invariant: a field that no value can be had for fails by name.

use serde_json::{Map, Value, json};

/// What is in no name, amount, address, URL or path, and breaks out of a line, a quote and a shell's word.
const HOSTILE: &str = "a b\n\u{7}'\"$(x)\\{{";

/// The spec of a kind.
pub(crate) struct Schema(Value);

impl Schema {
    pub(crate) fn of(kind: &str) -> Self {
        let mut crds = api::crds().into_iter();
        let crd = crds.find(|crd| crd.spec.names.kind == kind).unwrap();
        let crd = serde_json::to_value(crd).unwrap();
        Self(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone())
    }

    /// Paths of all fields below the spec, such as `nodes.registryMirrors[].registry`.
    pub(crate) fn fields(&self) -> Vec<String> {
        fn walk(schema: &Value, path: &str, found: &mut Vec<String>) {
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                let path = format!("{path}{name}");
                found.push(path.clone());
                walk(field, &format!("{path}."), found);
                walk(&field["items"], &format!("{path}[]."), found);
            }
        }
        let mut found = Vec::new();
        walk(&self.0, "", &mut found);
        found
    }

    /// The value that the documentation of a field shows.
    pub(crate) fn example(&self, path: &str) -> Value {
        example(path, self.field(path))
    }

    /// Values that a field may not have, each with what is wrong.
    pub(crate) fn mistakes(&self, path: &str) -> Vec<(String, Value)> {
        mistakes(self.field(path), &self.example(path))
    }

    /// The sentence of the rule by which a field cannot change, or cannot go back.
    pub(crate) fn unchangeable(&self, path: &str) -> Option<String> {
        let (parent, name) = match path.rsplit_once('.') {
            Some((parent, name)) => (self.field(parent), name),
            None => (&self.0, path),
        };
        let parent = parent.get("items").unwrap_or(parent);
        let place = format!(".{name}");
        let own = rules(self.field(path)).filter(|rule| rule["fieldPath"].is_null());
        let theirs = rules(parent).filter(|rule| rule["fieldPath"] == json!(place));
        let mut frozen = own.chain(theirs).filter(|rule| {
            let rule = rule["rule"].as_str();
            rule.is_some_and(|rule| rule.contains("oldSelf"))
        });
        let rule = frozen.next()?;
        Some(rule["message"].as_str().unwrap().to_owned())
    }

    /// The spec with a field set, and what has to stand beside it.
    pub(crate) fn with(&self, spec: &Value, path: &str, value: &Value) -> Value {
        let mut spec = spec.clone();
        let segments: Vec<&str> = path.split('.').collect();
        set(&self.0, &mut spec, &segments, value);
        spec
    }

    /// What an API server has against a spec, but for patterns and rules, which the webhook is asked again.
    pub(crate) fn refusal(&self, spec: &Value) -> Option<String> {
        refusal(&self.0, spec, "spec")
    }

    /// Whether a change is for machines that are made afterwards, as the documentation of a field says.
    pub(crate) fn is_for_new_machines(&self, path: &str) -> bool {
        let first = path.split(['.', '[']).next().unwrap_or(path);
        let text = self.field(first)["description"]
            .as_str()
            .unwrap_or_default();
        let words: Vec<_> = text.split_whitespace().collect();
        words.join(" ").contains("machines made afterwards")
    }

    fn field(&self, path: &str) -> &Value {
        path.split('.').fold(&self.0, |schema, segment| {
            let schema = schema.get("items").unwrap_or(schema);
            &schema["properties"][segment.trim_end_matches("[]")]
        })
    }
}

/// Tries every field, and names all that fail, with what was said of each above.
pub(crate) fn each(schema: &Schema, test: impl Fn(&str)) {
    let fails = |path: &String| {
        let test = std::panic::AssertUnwindSafe(|| test(path));
        std::panic::catch_unwind(test).is_err()
    };
    let failed: Vec<String> = schema.fields().into_iter().filter(fails).collect();
    assert_eq!(failed, [""; 0]);
}

/// A bound, which a schema writes as any number.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a bound of an integer is one"
)]
fn bound(schema: &Value, name: &str) -> Option<i64> {
    schema[name].as_f64().map(|bound| bound as i64)
}

/// Where two values differ, as pointers with both.
pub(crate) fn differences(one: &Value, other: &Value) -> Vec<String> {
    fn walk(one: &Value, other: &Value, at: &str, found: &mut Vec<String>) {
        match (one, other) {
            (Value::Object(a), Value::Object(b)) => {
                let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
                for key in keys {
                    walk(&one[key], &other[key], &format!("{at}/{key}"), found);
                }
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                for (number, (a, b)) in a.iter().zip(b).enumerate() {
                    walk(a, b, &format!("{at}/{number}"), found);
                }
            }
            _ if one != other => found.push(format!("{at}: {one} and {other}")),
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(one, other, "", &mut found);
    found
}

fn rules(schema: &Value) -> impl Iterator<Item = &Value> {
    let rules = schema["x-kubernetes-validations"].as_array();
    rules.into_iter().flatten()
}

fn example(path: &str, schema: &Value) -> Value {
    let text = schema["description"].as_str().unwrap_or_default();
    let shown = text.split("Example:").nth(1).map(str::trim);
    let shown = shown.unwrap_or_else(|| panic!("{path} has no Example: in its documentation"));
    let shown = match shown.strip_prefix('`') {
        Some(quoted) => quoted.split('`').next().unwrap_or_default(),
        None => shown.trim_end_matches('.'),
    };
    let shown = shown.replace('\n', " ");
    let read = serde_json::from_str(&shown);
    match schema["type"].as_str() {
        Some("string") => json!(shown),
        // A quantity, or a number or share.
        None => read.unwrap_or(json!(shown)),
        Some(_) => {
            read.unwrap_or_else(|error| panic!("the Example: of {path} is not JSON: {error}"))
        }
    }
}

fn set(schema: &Value, at: &mut Value, segments: &[&str], value: &Value) {
    if at.is_null() {
        *at = json!({});
        for name in schema["required"].as_array().into_iter().flatten() {
            let name = name.as_str().unwrap();
            at[name] = example(name, &schema["properties"][name]);
        }
    }
    let (first, rest) = segments.split_first().unwrap();
    let name = first.trim_end_matches("[]");
    let field = &schema["properties"][name];
    if rest.is_empty() {
        at[name] = value.clone();
    } else if first.ends_with("[]") {
        if at[name].as_array().is_none_or(Vec::is_empty) {
            at[name] = json!([null]);
        }
        set(&field["items"], &mut at[name][0], rest, value);
    } else {
        set(field, &mut at[name], rest, value);
    }
}

fn mistakes(schema: &Value, example: &Value) -> Vec<(String, Value)> {
    let mut all = vec![(
        "another type".to_owned(),
        match schema["type"].as_str() {
            Some("string") => json!(["a"]),
            _ => json!({ "nonsense": [true] }),
        },
    )];
    let mut add = |what: &str, value: Value| all.push((what.to_owned(), value));
    if let Some(least) = bound(schema, "minimum") {
        add("less than the least", json!(least - 1));
    }
    if let Some(most) = bound(schema, "maximum") {
        add("more than the most", json!(most + 1));
    }
    match schema["type"].as_str() {
        Some("string") => {
            add("hostile text", json!(HOSTILE));
            if let Some(most) = schema["maxLength"].as_u64() {
                add(
                    "too long",
                    json!("x".repeat(usize::try_from(most).unwrap() + 1)),
                );
            }
        }
        Some("array") => {
            let first = example[0].clone();
            if let Some(most) = schema["maxItems"].as_u64() {
                let many = std::iter::repeat_n(first.clone(), usize::try_from(most).unwrap() + 1);
                add("too many", many.collect());
            }
            if first.is_string() {
                add("hostile text in the list", json!([HOSTILE]));
            }
        }
        Some("object") if schema["additionalProperties"].is_object() => {
            let (key, value) = example.as_object().unwrap().iter().next().unwrap();
            add("hostile key", json!({ HOSTILE: value }));
            add("hostile value", json!({ key: HOSTILE }));
            if let Some(most) = schema["maxProperties"].as_u64() {
                let many = (0..=most).map(|number| (format!("{key}{number}"), value.clone()));
                add("too many", Value::Object(many.collect::<Map<_, _>>()));
            }
        }
        // A quantity, or a number or share.
        None => add("hostile text", json!(HOSTILE)),
        _ => {}
    }
    all
}

fn refusal(schema: &Value, value: &Value, path: &str) -> Option<String> {
    let type_ = schema["type"].as_str().unwrap_or_default();
    let fits = match (type_, value) {
        ("string", Value::String(_))
        | ("boolean", Value::Bool(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_)) => true,
        ("integer", Value::Number(number)) => number.is_i64(),
        ("", _) => value.is_string() || value.is_number(),
        _ => false,
    };
    if !fits {
        return Some(format!("{path} is no {type_}"));
    }
    if schema["enum"]
        .as_array()
        .is_some_and(|list| !list.contains(value))
    {
        return Some(format!("{path} is none of those that there are"));
    }
    let count = match value {
        Value::String(text) => Some((text.chars().count(), "minLength", "maxLength")),
        Value::Array(list) => Some((list.len(), "minItems", "maxItems")),
        Value::Object(map) => Some((map.len(), "minProperties", "maxProperties")),
        _ => None,
    };
    let amount = value.as_i64().map(|amount| (amount, "minimum", "maximum"));
    let counted = count.map(|(count, least, most)| (i64::try_from(count).unwrap(), least, most));
    for (amount, least, most) in counted.into_iter().chain(amount) {
        let below = bound(schema, least).is_some_and(|least| amount < least);
        if below || bound(schema, most).is_some_and(|most| amount > most) {
            return Some(format!("{path} is out of its bounds"));
        }
    }
    match value {
        Value::Array(list) => {
            let mut items = list.iter();
            items.find_map(|item| refusal(&schema["items"], item, path))
        }
        Value::Object(map) => {
            let required = schema["required"].as_array().into_iter().flatten();
            let mut missing = required.filter(|name| !map.contains_key(name.as_str().unwrap()));
            if let Some(name) = missing.next() {
                return Some(format!("{path}.{name} is missing"));
            }
            map.iter().find_map(|(name, value)| {
                let known = schema["properties"].get(name);
                match known.or(schema.get("additionalProperties")) {
                    Some(schema) => refusal(schema, value, &format!("{path}.{name}")),
                    None => Some(format!("{path}.{name} is unknown")),
                }
            })
        }
        _ => None,
    }
}

#[test]
fn what_a_schema_refuses_is_refused() {
    let schema = Schema::of("TenantCluster");
    let base = json!({ "version": "1.35.4" });
    assert_eq!(schema.refusal(&base), None);
    assert!(
        schema.refusal(&json!({})).is_some(),
        "the version is required"
    );
    for (path, value) in [
        ("controlPlane.replicas", json!(0)),
        ("controlPlane.endpoint.type", json!("Ingress")),
        (
            "controlPlane.endpoint.sourceRanges",
            json!(vec!["10.0.0.0/8"; 33]),
        ),
        ("controlPlane.nonsense", json!(1)),
        ("paused", json!("yes")),
    ] {
        let spec = schema.with(&base, path, &value);
        assert!(schema.refusal(&spec).is_some(), "{spec}");
    }
    let spec = schema.with(
        &base,
        "nodes.registryMirrors[].registry",
        &json!("docker.io"),
    );
    let endpoints = schema.example("nodes.registryMirrors[].endpoints");
    assert_eq!(
        spec["nodes"]["registryMirrors"],
        json!([{ "registry": "docker.io", "endpoints": endpoints }])
    );
}
