//! Filters of lists: `(field = "value") (field eq "pattern")`, all of which have to hold.
//!
//! Invariant: a filter that is none chooses nothing, and is refused. Of patterns only what begins with `.*` is known here.

use serde_json::Value;

/// Whether a filter chooses a thing; none where it is no filter.
pub(super) fn chooses(filter: &str, thing: &Value) -> Option<bool> {
    let mut all = true;
    for part in filter.split(") (") {
        let part = part.trim_start_matches('(').trim_end_matches(')');
        let mut words = part.splitn(3, ' ');
        let (field, operator, value) = (words.next()?, words.next()?, words.next()?);
        let value = value.trim_matches('"');
        let mut found = thing;
        for step in field.split('.') {
            found = found.get(step).unwrap_or(&Value::Null);
        }
        let found = found.as_str().unwrap_or_default();
        all &= match (operator, value.strip_prefix(".*")) {
            ("=", _) | ("eq", None) => found == value,
            ("eq", Some(end)) => found.ends_with(end),
            _ => return None,
        };
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn filters_of_the_documentation() {
        let thing =
            json!({ "name": "a", "labels": { "env": "prod" }, "targetLink": "x/instances/a" });
        for (filter, chosen) in [
            ("name = a", true),
            ("labels.env = \"prod\"", true),
            ("(labels.env = \"prod\") (name = \"b\")", false),
            ("(labels.env = \"prod\") (name = \"a\")", true),
            ("labels.other = \"prod\"", false),
            ("(targetLink eq \".*/instances/a\")", true),
            ("(targetLink eq \".*/instances/b\")", false),
        ] {
            assert_eq!(chooses(filter, &thing), Some(chosen), "{filter}");
        }
        assert_eq!(chooses("name", &thing), None);
        assert_eq!(chooses("name ? a", &thing), None);
    }
}
