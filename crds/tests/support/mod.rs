//! The schema of a kind, and its CEL rules without an API server.
//!
//! Invariant: defaults are filled in as an API server does before a rule is evaluated.
#![allow(dead_code)] // each test binary uses a part

use std::collections::BTreeSet;

use kube::core::cel::Validator;
use serde_json::Value;

/// A row of a table of mistakes.
pub(crate) struct Case {
    pub(crate) old: Option<Value>,
    pub(crate) new: Value,
    pub(crate) message: &'static str,
}

pub(crate) fn create(new: Value, message: &'static str) -> Case {
    Case {
        old: None,
        new,
        message,
    }
}

pub(crate) fn change(old: Value, new: Value, message: &'static str) -> Case {
    Case {
        old: Some(old),
        new,
        message,
    }
}

/// The schema of a kind.
pub(crate) fn schema(kind: &str) -> Value {
    let mut crds = api::crds().into_iter();
    let crd = crds.find(|crd| crd.spec.names.kind == kind).unwrap();
    let crd = serde_json::to_value(crd).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Messages of the rules that refuse.
pub(crate) fn refusals(schema: &Value, old: Option<&Value>, new: &Value) -> Vec<String> {
    match Validator::new().validate(schema, new, old) {
        Ok(()) => Vec::new(),
        Err(errors) => errors
            .into_vec()
            .into_iter()
            .map(|error| error.message)
            .collect(),
    }
}

/// Every case is refused with its sentence and no other, and every rule has a case.
pub(crate) fn check(kind: &str, cases: &[Case]) {
    let schema = schema(kind);
    for Case { old, new, message } in cases {
        assert_eq!(
            refusals(&schema, old.as_ref(), new),
            [*message],
            "old {old:?}\nnew {new}"
        );
    }
    let mut rules = BTreeSet::new();
    collect_messages(&schema, &mut rules);
    let tested = cases.iter().map(|case| case.message.to_owned());
    assert_eq!(rules, tested.collect());
}

fn collect_messages(schema: &Value, messages: &mut BTreeSet<String>) {
    let rules = schema["x-kubernetes-validations"].as_array();
    for rule in rules.into_iter().flatten() {
        messages.insert(rule["message"].as_str().unwrap().to_owned());
    }
    match schema {
        Value::Object(map) => map.values().for_each(|v| collect_messages(v, messages)),
        Value::Array(list) => list.iter().for_each(|v| collect_messages(v, messages)),
        _ => {}
    }
}
