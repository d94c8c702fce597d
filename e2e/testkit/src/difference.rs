//! Where two JSON values differ.
//!
//! Invariant: pure; every difference is told once, with its path.

use serde_json::Value;

/// Tells of each place where `found` is not as `wanted`: its path, what was wanted there and what is.
/// What one of them lacks is null.
pub fn each(
    path: &str,
    wanted: &Value,
    found: &Value,
    tell: &mut impl FnMut(&str, &Value, &Value),
) {
    match (wanted, found) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let null = &Value::Null;
                let (a, b) = (a.get(key).unwrap_or(null), b.get(key).unwrap_or(null));
                each(&format!("{path} .{key}"), a, b, tell);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                each(&format!("{path} [{index}]"), a, b, tell);
            }
        }
        (a, b) if a != b => tell(path, a, b),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_place_is_told_once_with_what_is_there() {
        let wanted = json!({ "same": 1, "gone": 2, "list": [1, 2], "long": [1] });
        let found = json!({ "same": 1, "new": 3, "list": [1, 4], "long": [1, 2] });
        let mut told = Vec::new();
        each("x", &wanted, &found, &mut |path, a, b| {
            told.push(format!("{path}: {a} {b}"));
        });
        told.sort();
        let expected = [
            "x .gone: 2 null",
            "x .list [1]: 2 4",
            "x .long: [1] [1,2]",
            "x .new: null 3",
        ];
        assert_eq!(told, expected);
    }
}
