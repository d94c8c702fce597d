//! Pages of a list, and lists of metadata only.
//!
//! Invariant: a token to go on with is the number of the next object, in the order of paths; a list that is
//! asked for without a limit is one page.

use http::request::Parts;
use http::{Uri, header};
use serde_json::{Value, json};

/// Which objects of a list are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    from: usize,
    limit: Option<usize>,
    /// Only the objects' metadata.
    pub(super) metadata: bool,
}

impl Page {
    pub(super) fn of(head: &Parts) -> Self {
        let accepts = head.headers.get(header::ACCEPT);
        let accepts = accepts.and_then(|value| value.to_str().ok());
        Self {
            from: number(&head.uri, "continue=").unwrap_or(0),
            limit: number(&head.uri, "limit=").filter(|limit| *limit > 0),
            metadata: accepts.is_some_and(|value| value.contains("as=PartialObjectMetadata")),
        }
    }

    /// Of so many objects.
    pub(super) fn range(self, all: usize) -> std::ops::Range<usize> {
        let end = self.limit.map_or(all, |limit| self.from + limit);
        self.from.min(all)..end.min(all)
    }

    /// Metadata of the list.
    pub(super) fn header(self, revision: &Value, all: usize) -> Value {
        let end = self.range(all).end;
        match end < all {
            true => json!({ "resourceVersion": revision, "continue": end.to_string() }),
            false => json!({ "resourceVersion": revision }),
        }
    }

    /// As much of an object as is asked for.
    pub(super) fn shown(self, object: &Value) -> Value {
        match self.metadata {
            true => json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": object["metadata"],
            }),
            false => object.clone(),
        }
    }

    /// The page of a whole list.
    pub(super) fn cut(self, mut list: Value) -> Value {
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let shown = items[self.range(items.len())].iter();
        list["items"] = shown.map(|object| self.shown(object)).collect();
        list["metadata"] = self.header(&list["metadata"]["resourceVersion"], items.len());
        list
    }
}

fn number(uri: &Uri, key: &str) -> Option<usize> {
    let query = uri.query().unwrap_or_default();
    let text = query.split('&').find_map(|pair| pair.strip_prefix(key));
    text?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(query: &str, accept: &str) -> Value {
        let request = http::Request::get(format!("/api/v1/pods?{query}"))
            .header(header::ACCEPT, accept)
            .body(());
        let (head, ()) = request.unwrap().into_parts();
        let item = |name: &str| json!({ "metadata": { "name": name }, "data": "x" });
        let items: Vec<_> = ["a", "b", "c"].into_iter().map(item).collect();
        Page::of(&head).cut(json!({ "metadata": { "resourceVersion": "7" }, "items": items }))
    }

    #[test]
    fn pages_follow_each_other_to_the_end() {
        let first = ask("limit=2", "*/*");
        assert_eq!(first["items"].as_array().unwrap().len(), 2);
        assert_eq!(first["metadata"]["continue"], "2");
        let second = ask("limit=2&continue=2", "*/*");
        assert_eq!(second["items"][0]["metadata"]["name"], "c");
        assert_eq!(second["metadata"], json!({ "resourceVersion": "7" }));
        assert_eq!(ask("", "*/*")["items"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn metadata_only_is_without_content() {
        let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let list = ask("", accept);
        assert_eq!(list["items"][0]["metadata"]["name"], "a");
        assert!(list["items"][0]["data"].is_null());
    }
}
