//! The query of a request: its parameters, and which objects it selects.
//!
//! Invariant: a selector that this cannot read selects nothing, so that a test notices.

use http::Uri;
use serde_json::Value;

/// The parameters, decoded, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn new(uri: &Uri) -> Self {
        let pairs = uri.query().unwrap_or_default().split('&');
        let one = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        };
        Self(pairs.filter(|pair| !pair.is_empty()).map(one).collect())
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(name, _)| name == key);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    pub(super) fn is(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|value| value == "true" || value == "1")
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.parse().ok()
    }

    /// Whether an object has the labels and fields that are asked for.
    pub(super) fn selects(&self, object: &Value) -> bool {
        let labels = self.get("labelSelector").unwrap_or_default();
        let fields = self.get("fieldSelector").unwrap_or_default();
        terms(labels).all(|term| has_label(term, &object["metadata"]["labels"]))
            && terms(fields).all(|term| has_field(term, object))
    }

    pub(super) fn has_selector(&self) -> bool {
        self.get("labelSelector").is_some() || self.get("fieldSelector").is_some()
    }
}

/// The terms of a selector; commas within brackets divide none.
fn terms(selector: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let divides = move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    selector
        .split(divides)
        .map(str::trim)
        .filter(|term| !term.is_empty())
}

fn has_label(term: &str, labels: &Value) -> bool {
    let value = |key: &str| labels[key.trim()].as_str();
    let within = |list: &str, value: &str| {
        let list = list.trim().trim_start_matches('(').trim_end_matches(')');
        list.split(',').any(|item| item.trim() == value)
    };
    if let Some((key, list)) = term.split_once(" notin ") {
        return value(key).is_none_or(|value| !within(list, value));
    }
    if let Some((key, list)) = term.split_once(" in ") {
        return value(key).is_some_and(|value| within(list, value));
    }
    if let Some((key, other)) = term.split_once("!=") {
        return value(key) != Some(other.trim());
    }
    if let Some((key, wanted)) = term.split_once('=') {
        return value(key) == Some(wanted.trim_start_matches('=').trim());
    }
    match term.strip_prefix('!') {
        Some(key) => value(key).is_none(),
        None => value(term).is_some(),
    }
}

fn has_field(term: &str, object: &Value) -> bool {
    let value = |key: &str| {
        let pointer = format!("/{}", key.trim().replace('.', "/"));
        object
            .pointer(&pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    match (term.split_once("!="), term.split_once('=')) {
        (Some((key, other)), _) => value(key) != other.trim(),
        (None, Some((key, wanted))) => value(key) == wanted.trim_start_matches('=').trim(),
        (None, None) => false,
    }
}

/// Percent-decoding, with `+` for a space.
fn decode(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                let digits = std::str::from_utf8(&digits).unwrap_or_default();
                decoded.extend(u8::from_str_radix(digits, 16).ok());
            }
            b'+' => decoded.push(b' '),
            other => decoded.push(other),
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_of_all_forms_are_read() {
        let object = json!({ "metadata": { "name": "n", "labels": { "a/b": "c" } }, "type": "t" });
        let selects = |query: &str| {
            Query::new(&format!("/api/v1/secrets?{query}").parse().unwrap()).selects(&object)
        };
        for query in [
            "labelSelector=a%2Fb",
            "labelSelector=a%2Fb%3Dc%2C%21x",
            "labelSelector=a%2Fb+in+%28x%2Cc%29",
            "labelSelector=a%2Fb%20notin%20(x)",
            "labelSelector=a%2Fb!%3Dx",
            "fieldSelector=metadata.name%3Dn,type!=u",
            "limit=5",
        ] {
            assert!(selects(query), "{query}");
        }
        for query in [
            "labelSelector=x",
            "labelSelector=%21a%2Fb",
            "labelSelector=a%2Fb%3Dd",
            "labelSelector=a%2Fb+in+%28x%29",
            "fieldSelector=metadata.name%3Dm",
            "fieldSelector=metadata.name",
        ] {
            assert!(!selects(query), "{query}");
        }
    }
}
