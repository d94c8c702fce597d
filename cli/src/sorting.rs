//! The order of a list: by a column of its table, or by a field of its objects.
//!
//! Invariant: pure; what has no value stands last, and what is equal stays as it was.

use std::cmp::Ordering;

use insight_read::table::{ServerTable, of_cell};
use serde_json::Value;

/// What a list is ordered by.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum By {
    /// A column, by its heading.
    Column(String),
    /// A field, as a JSON pointer (RFC 6901).
    Field(String),
}

/// Reads `--sort-by`: `AGE`, `.spec.replicas`, or as kubectl takes it, `{.spec.replicas}`.
pub(crate) fn by(text: &str) -> Result<By, String> {
    let form = || "write a column, as AGE, or a field, as .spec.replicas".to_owned();
    let inner = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.unwrap_or(text);
    let Some(path) = inner.strip_prefix('.') else {
        let is_word = !inner.is_empty() && !inner.contains(['.', '{', '}', '[']);
        return if is_word {
            Ok(By::Column(inner.to_owned()))
        } else {
            Err(form())
        };
    };
    let names: Vec<_> = path.split('.').collect();
    if names
        .iter()
        .any(|name| name.is_empty() || name.contains(['[', '{', '}']))
    {
        return Err(form());
    }
    let names = names
        .iter()
        .map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1")));
    Ok(By::Field(names.collect()))
}

/// What decides where a line stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Key {
    /// Numbers and ages, the smallest first.
    Number(f64),
    /// Anything else, as it is written.
    Text(String),
    /// Nothing.
    None,
}

impl Key {
    /// Of a field or a cell.
    pub(crate) fn of(value: Option<&Value>) -> Self {
        match value {
            None | Some(Value::Null) => Self::None,
            Some(Value::Number(number)) => number.as_f64().map_or(Self::None, Self::Number),
            Some(Value::String(text)) => Self::of_text(text),
            Some(other) => Self::Text(of_cell(other)),
        }
    }

    fn of_text(text: &str) -> Self {
        match text {
            "" | "<none>" | "<unknown>" => return Self::None,
            _ => {}
        }
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        match number.or_else(|| age(text)) {
            Some(number) => Self::Number(number),
            None => Self::Text(text.to_owned()),
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Number(_) => 0,
            Self::Text(_) => 1,
            Self::None => 2,
        }
    }
}

/// Seconds of `3d4h`, as the API server writes ages.
fn age(text: &str) -> Option<f64> {
    let (mut all, mut digits) = (0.0, String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let count: f64 = digits.parse().ok()?;
        digits.clear();
        all += count
            * match c {
                'y' => 365.0 * 86_400.0,
                'd' => 86_400.0,
                'h' => 3600.0,
                'm' => 60.0,
                's' => 1.0,
                _ => return None,
            };
    }
    digits.is_empty().then_some(all)
}

/// The same things in the order of their keys.
pub(crate) fn ordered<T>(all: Vec<T>, keys: Vec<Key>) -> Vec<T> {
    let mut all: Vec<_> = keys.into_iter().zip(all).collect();
    all.sort_by(|(a, _), (b, _)| a.compare(b));
    all.into_iter().map(|(_, one)| one).collect()
}

/// The keys of a table's rows by a column; none where it has no such column.
pub(crate) fn column(table: &ServerTable, name: &str) -> Option<Vec<Key>> {
    let mut columns = table.column_definitions.iter();
    let at = columns.position(|column| column.name.eq_ignore_ascii_case(name))?;
    let keys = table.rows.iter().map(|row| Key::of(row.cells.get(at)));
    Some(keys.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_and_fields_are_told_apart() {
        assert_eq!(by("AGE"), Ok(By::Column("AGE".to_owned())));
        let field = Ok(By::Field("/spec/replicas".to_owned()));
        assert_eq!(
            (by(".spec.replicas"), by("{.spec.replicas}")),
            (field.clone(), field)
        );
        for bad in ["", ".", "{}", ".a..b", ".items[0].name", "a.b"] {
            assert!(by(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_ages_and_words_have_an_order_and_nothing_is_last() {
        let sorted = |values: &[Value]| {
            let keys = values.iter().map(|value| Key::of(Some(value))).collect();
            ordered(values.to_vec(), keys)
        };
        assert_eq!(
            sorted(&[json!("2d"), json!("100s"), json!(null), json!("3h2m")]),
            [json!("100s"), json!("3h2m"), json!("2d"), json!(null)]
        );
        assert_eq!(sorted(&[json!(10), json!("9")]), [json!("9"), json!(10)]);
        assert_eq!(
            sorted(&[json!("<none>"), json!("b"), json!("a")]),
            [json!("a"), json!("b"), json!("<none>")]
        );
        // A name that begins as an age does is none.
        assert_eq!(Key::of(Some(&json!("5min"))), Key::Text("5min".to_owned()));
    }

    #[test]
    fn a_column_is_found_by_its_heading() {
        let table: ServerTable = serde_json::from_value(json!({
            "columnDefinitions": [{"name": "Name"}, {"name": "Age"}],
            "rows": [{"cells": ["b", "2d"]}, {"cells": ["a", "5m"]}]}))
        .unwrap();
        let keys = column(&table, "AGE").unwrap();
        assert_eq!(keys, [Key::Number(172_800.0), Key::Number(300.0)]);
        let sorted = ordered(table.rows.clone(), keys);
        assert_eq!(sorted[0].cells[0], "a");
        assert_eq!(column(&table, "NOTHING"), None);
    }
}
