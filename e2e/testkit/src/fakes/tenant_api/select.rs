//! Which of the stored objects a list or a watch speaks of.
//!
//! Invariant: a collection without a namespace holds the objects of all namespaces, as with the real
//! one; selectors that this cannot read select nothing, so that a test notices.

use http::Uri;
use serde_json::Value;

/// What a list or a watch asks for.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    path: String,
    labels: Vec<String>,
    fields: Vec<String>,
}

impl Selection {
    pub(super) fn new(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let list = |key: &str| {
            let pair = query.split('&').find_map(|pair| pair.strip_prefix(key));
            let terms = pair.map(decode).unwrap_or_default();
            terms
                .split(',')
                .filter(|term| !term.is_empty())
                .map(str::to_owned)
                .collect()
        };
        Self {
            path: uri.path().to_owned(),
            labels: list("labelSelector="),
            fields: list("fieldSelector="),
        }
    }

    /// Whether the object at this path is meant.
    pub(super) fn holds(&self, path: &str, object: &Value) -> bool {
        self.covers(path)
            && self
                .labels
                .iter()
                .all(|term| is(term, |key| &object["metadata"]["labels"][key]))
            && self.fields.iter().all(|term| {
                is(term, |key| {
                    let pointer = format!("/{}", key.replace('.', "/"));
                    object.pointer(&pointer).unwrap_or(&Value::Null)
                })
            })
    }

    fn covers(&self, path: &str) -> bool {
        let below = path.strip_prefix(&format!("{}/", self.path));
        if below.is_some_and(|name| !name.contains('/')) {
            return true;
        }
        // `/apis/apps/v1/deployments` holds `/apis/apps/v1/namespaces/a/deployments/b`.
        let Some((base, resource)) = self.path.rsplit_once('/') else {
            return false;
        };
        let within = path.strip_prefix(&format!("{base}/namespaces/"));
        let parts: Vec<_> = within
            .into_iter()
            .flat_map(|rest| rest.split('/'))
            .collect();
        matches!(parts.as_slice(), [_, kind, _] if *kind == resource)
    }
}

fn is<'a>(term: &str, value: impl Fn(&str) -> &'a Value) -> bool {
    match term.split_once('=') {
        Some((key, wanted)) => value(key) == wanted.trim_start_matches('='),
        None => value(term).is_string(),
    }
}

fn decode(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        let hex = match byte {
            b'%' => [bytes.next(), bytes.next()],
            b'+' => [Some(b'2'), Some(b'0')],
            other => {
                decoded.push(other);
                continue;
            }
        };
        let digits: Vec<u8> = hex.into_iter().flatten().collect();
        let code = std::str::from_utf8(&digits)
            .ok()
            .and_then(|t| u8::from_str_radix(t, 16).ok());
        decoded.extend(code);
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn holds(uri: &str, path: &str) -> bool {
        let object = json!({ "metadata": { "labels": { "a/b": "c" } }, "spec": { "x": "y" } });
        Selection::new(&uri.parse().unwrap()).holds(path, &object)
    }

    #[test]
    fn collections_hold_what_is_in_them_and_what_is_selected() {
        let path = "/apis/apps/v1/namespaces/n/deployments/d";
        assert!(holds("/apis/apps/v1/deployments", path));
        assert!(holds("/apis/apps/v1/namespaces/n/deployments", path));
        assert!(!holds("/apis/apps/v1/namespaces/m/deployments", path));
        assert!(!holds("/apis/apps/v1/daemonsets", path));
        assert!(holds("/api/v1/nodes", "/api/v1/nodes/a"));
        assert!(!holds("/api/v1/namespaces", "/api/v1/namespaces/n/pods/p"));
        assert!(holds(
            "/apis/apps/v1/deployments?labelSelector=a%2Fb%3Dc&limit=5",
            path
        ));
        assert!(holds("/apis/apps/v1/deployments?labelSelector=a%2Fb", path));
        assert!(!holds(
            "/apis/apps/v1/deployments?labelSelector=a%2Fb%3Dd",
            path
        ));
        assert!(holds(
            "/apis/apps/v1/deployments?fieldSelector=spec.x%3Dy",
            path
        ));
        assert!(!holds(
            "/apis/apps/v1/deployments?fieldSelector=spec.x%3Dz",
            path
        ));
        assert!(!holds(
            "/apis/apps/v1/deployments?labelSelector=a%20in%20(b)",
            path
        ));
    }
}
