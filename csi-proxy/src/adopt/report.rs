//! What is told of volumes: columns for people, or JSON.
//!
//! Invariant: pure; what an API answered is in it only as sentences that the plan or an error made.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::plan::{Line, Next};

/// Sentences of steps that an API refused, by volume.
pub type Failures = BTreeMap<String, String>;

/// State and sentence of a volume.
fn state<'a>(line: &'a Line, failures: &'a Failures) -> (&'static str, &'a str) {
    if let Some(why) = failures.get(&line.volume) {
        return ("Failed", why);
    }
    match &line.next {
        Next::Write(what, _) => ("Planned", what),
        Next::Wait(why) => ("Waiting", why),
        Next::Refused(why) => ("Refused", why),
        Next::Done => ("Adopted", ""),
    }
}

/// Columns.
#[must_use]
pub fn table(lines: &[Line], failures: &Failures) -> String {
    let mut rows = vec![["VOLUME", "CLAIM", "STATE", "NEXT"].map(str::to_owned)];
    for line in lines {
        let (state, why) = state(line, failures);
        let cells = [line.volume.as_str(), &line.claim, state, why];
        rows.push(cells.map(str::to_owned));
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let mut text = String::new();
    for [volume, claim, state, next] in &rows {
        let [a, b, c] = widths;
        let row = format!("{volume:a$}  {claim:b$}  {state:c$}  {next}");
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

/// A list of objects.
#[must_use]
pub fn json(lines: &[Line], failures: &Failures) -> Value {
    let one = |line: &Line| {
        let (state, next) = state(line, failures);
        json!({
            "volume": line.volume,
            "claim": line.claim,
            "managementClaim": line.id,
            "state": state,
            "next": next,
        })
    };
    lines.iter().map(one).collect()
}

/// How many volumes are not adopted.
#[must_use]
pub fn left(lines: &[Line], failures: &Failures) -> usize {
    let left = |line: &&Line| state(line, failures).0 != "Adopted";
    lines.iter().filter(left).count()
}
