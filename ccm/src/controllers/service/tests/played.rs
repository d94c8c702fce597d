//! What the played management API answers, as a table: `ccm/tests/t1/played.rs` asks a real one the same.
//!
//! Invariant: each answer of the table is one that [`families::admit`] and [`families::DEFAULTS`] give now.

use std::path::Path;

use serde_json::{Value, json};

use super::clusters::families;

const V4: &str = "IPv4";
const V6: &str = "IPv6";

/// What can be said of families, and of their policy.
fn said() -> impl Iterator<Item = Value> {
    let all = [
        json!(null),
        json!([V4]),
        json!([V6]),
        json!([V4, V6]),
        json!([V6, V4]),
    ];
    let policies = [
        json!(null),
        json!("SingleStack"),
        json!("PreferDualStack"),
        json!("RequireDualStack"),
    ];
    all.into_iter().flat_map(move |families| {
        let policies = policies.clone().into_iter();
        policies.map(move |policy| json!({ "ipFamilies": families, "ipFamilyPolicy": policy }))
    })
}

/// What becomes of what is said; none when it is refused.
fn answer(said: &Value, old: &Value, stacks: &[&str]) -> Option<Value> {
    let old = (!old.is_null()).then(|| serde_json::from_value(old.clone()).unwrap());
    let mut spec = said.clone();
    families::admit(&mut spec, old.as_ref(), stacks).ok()?;
    Some(spec)
}

fn table() -> String {
    let mut lines = Vec::new();
    for stacks in [vec![V4], vec![V4, V6]] {
        let mut olds = vec![Value::Null];
        for old in said().filter_map(|said| answer(&said, &Value::Null, &stacks)) {
            if !olds.contains(&old) {
                olds.push(old);
            }
        }
        for old in olds {
            for said in said() {
                let answer = answer(&said, &old, &stacks);
                let case = json!({ "stacks": stacks, "old": old, "said": said, "answer": answer });
                lines.push(format!("    {case}"));
            }
        }
    }
    let defaults: serde_json::Map<_, _> = families::DEFAULTS
        .iter()
        .map(|(field, value)| ((*field).to_owned(), json!(value)))
        .collect();
    let (defaults, families) = (json!(defaults), lines.join(",\n"));
    format!("{{\n  \"defaults\": {defaults},\n  \"families\": [\n{families}\n  ]\n}}\n")
}

#[test]
fn table_of_what_the_played_api_answers_is_what_it_answers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/t1/played.json");
    if std::env::var_os("COVEY_UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        std::fs::write(&path, table()).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == table(),
        "{} is another one: write it anew with COVEY_UPDATE_GOLDEN=1, review it, and see whether a real \
         API server answers the same (T1, `played`)",
        path.display()
    );
}
