//! What is asked to see the objects inside, against an API that is played.

use std::sync::{Arc, Mutex};

use http::{Request, Response, header};
use http_body_util::Full;
use hyper::body::Bytes;
use kube::client::Body;
use tower::BoxError;

use super::*;

type Asked = Arc<Mutex<Vec<(String, bool)>>>;

/// Has ConfigMaps and nothing else; `pages` of strangers follow the first. What was asked: path, and whether
/// for metadata only.
fn api(pages: usize) -> (Client, Asked) {
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let accept = request.headers().get(header::ACCEPT);
        let accept = accept.and_then(|value| value.to_str().ok());
        let metadata = accept.is_some_and(|a| a.contains("as=PartialObjectMetadata"));
        let uri = request.uri().clone();
        log.lock().unwrap().push((uri.path().to_owned(), metadata));
        let (code, body) = answer(&uri, pages);
        let response = Response::builder().status(code);
        let response = response.body(Full::new(Bytes::from(body.to_string())));
        std::future::ready(response.map_err(BoxError::from))
    });
    (Client::new(service, "default"), asked)
}

fn answer(uri: &http::Uri, pages: usize) -> (u16, Value) {
    let object = |name: &str, addon: bool, manager: &str| {
        let mut object = json!({ "metadata": {
            "name": name, "namespace": "kube-system", "uid": name, "resourceVersion": "1",
            "managedFields": [{ "manager": manager }],
        }});
        if addon {
            object["metadata"]["labels"] = json!({ api::names::LABEL_ADDON: "x" });
        }
        object
    };
    match uri.path() {
        "/api/v1/configmaps" => {
            let query = uri.query().unwrap_or_default();
            assert!(query.contains("limit=50"), "{query}");
            let token = query.split('&').find_map(|p| p.strip_prefix("continue="));
            let page: usize = token.map_or(0, |token| token.parse().unwrap());
            let items = match page {
                0 => vec![
                    object("wanted", true, "kubectl"),
                    object("left-over", true, crate::FIELD_MANAGER),
                    object("copy", true, "kubectl"),
                    object("no-addon", false, crate::FIELD_MANAGER),
                ],
                _ => vec![object(&format!("stranger-{page}"), false, "kubectl")],
            };
            let next = if page < pages {
                (page + 1).to_string()
            } else {
                String::new()
            };
            let list = json!({
                "apiVersion": "v1", "kind": "List", "metadata": { "continue": next },
                "items": items,
            });
            (200, list)
        }
        "/api/v1/namespaces/kube-system/configmaps/wanted" => {
            let mut whole = object("wanted", true, crate::FIELD_MANAGER);
            whole["data"] = json!({ "a": "b" });
            (200, whole)
        }
        _ => {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                "reason": "NotFound", "message": "",
            });
            (404, status)
        }
    }
}

fn wanted() -> [Key; 2] {
    ["wanted", "missing"].map(|name| Key::new("ConfigMap", "kube-system", name))
}

#[tokio::test]
async fn only_what_is_wanted_is_read_in_full_and_of_strangers_nothing_is_kept() {
    let (client, asked) = api(3);
    let live = list_managed(&client, &Budget::default(), &wanted()).await;
    let live = live.unwrap().unwrap();
    let names: Vec<_> = live.keys().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["left-over", "wanted"]);
    assert_eq!(live[&wanted()[0]]["data"]["a"], "b");
    let manager = &live[&wanted()[0]]["metadata"]["managedFields"][0]["manager"];
    assert_eq!(*manager, crate::FIELD_MANAGER);
    let asked = asked.lock().unwrap();
    let whole: Vec<_> = asked.iter().filter(|(_, metadata)| !metadata).collect();
    assert_eq!(whole.len(), 1, "{whole:?}");
    let lists = asked
        .iter()
        .filter(|(path, _)| path == "/api/v1/configmaps");
    assert_eq!(lists.count(), 4);
}

#[tokio::test]
async fn too_many_pages_of_a_kind_are_an_error_that_names_it() {
    let (client, asked) = api(usize::MAX);
    let error = list_managed(&client, &Budget::default(), &wanted()).await;
    let error = error.expect_err("there is no end");
    assert!(matches!(error, Error::Exceeded(_)), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("ConfigMap") && text.contains("1000"),
        "{text}"
    );
    let asked = asked.lock().unwrap();
    let lists = asked
        .iter()
        .filter(|(path, _)| path == "/api/v1/configmaps");
    assert_eq!(lists.count(), 20);
}
