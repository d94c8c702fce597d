//! What is really sent, against a fake API server.

use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use kube::client::Body;
use serde_json::json;
use tower::BoxError;

use super::*;

type Sent = Arc<Mutex<Vec<(String, Value)>>>;

/// A client whose server answers every request with `code`, and what it was asked.
fn client(code: u16) -> (Client, Sent) {
    let sent = Sent::default();
    let log = Arc::clone(&sent);
    let service = tower::service_fn(move |request: Request<Body>| {
        let log = Arc::clone(&log);
        async move {
            let line = format!("{} {}", request.method(), request.uri());
            let bytes = request.into_body().collect().await?.to_bytes();
            let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            log.lock().unwrap().push((line, body));
            let body = match code {
                200 => json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" } }),
                _ => json!({ "kind": "Status", "code": code, "message": "no", "reason": "R" }),
            };
            let body = Full::new(Bytes::from(body.to_string()));
            Response::builder()
                .status(code)
                .body(body)
                .map_err(BoxError::from)
        }
    });
    (Client::new(service, "default"), sent)
}

fn secret() -> Value {
    let metadata = json!({ "name": "a", "namespace": "team" });
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": { "k": "dg==" } })
}

fn deletion<'a>(resource_version: Option<&'a str>) -> Deletion<'a> {
    Deletion {
        kind: kinds::SECRET,
        namespace: Some("team"),
        name: "a",
        uid: "uid-1",
        resource_version,
        propagation: PropagationPolicy::Background,
    }
}

#[tokio::test]
async fn apply_is_one_patch_with_field_manager_and_the_object_as_it_is() {
    let (client, sent) = client(200);
    let stored = apply(&client, &secret(), "covey-operator", true)
        .await
        .unwrap();
    assert_eq!(stored.metadata.name.as_deref(), Some("a"));
    let sent = sent.lock().unwrap();
    let [(line, body)] = sent.as_slice() else {
        panic!("one request, not {sent:?}")
    };
    let path = "PATCH /api/v1/namespaces/team/secrets/a?";
    assert!(line.starts_with(path), "{line}");
    assert!(
        line.contains("force=true") && line.contains("fieldManager=covey-operator"),
        "{line}"
    );
    assert_eq!(*body, secret());
}

#[tokio::test]
async fn a_status_goes_to_its_subresource_and_force_is_the_callers_choice() {
    let (client, sent) = client(200);
    let object = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": "team" }, "status": {},
    });
    apply_status(&client, &object, "covey", false)
        .await
        .unwrap();
    let line = sent.lock().unwrap()[0].0.clone();
    let path = "/apis/covey.dev/v1alpha1/namespaces/team/tenantclusters/demo/status?";
    assert!(
        line.contains(path) && !line.contains("force=true"),
        "{line}"
    );
}

#[tokio::test]
async fn an_object_without_address_is_refused_before_anything_is_sent() {
    let (client, sent) = client(200);
    let mut nameless = secret();
    nameless["metadata"]["name"] = json!("");
    let mut homeless = secret();
    homeless["metadata"]["namespace"] = Value::Null;
    let mut unknown = secret();
    unknown["kind"] = json!("Mystery");
    for (object, message) in [
        (nameless, "object has no metadata.name"),
        (homeless, "object has no metadata.namespace"),
        (unknown, "kind Mystery of v1 is not in"),
    ] {
        let error = apply(&client, &object, "covey", true)
            .await
            .expect_err(message);
        assert!(error.to_string().starts_with(message), "{error}");
        assert_eq!(error.class(), Class::Bug);
    }
    assert!(sent.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_the_server_refuses_keeps_its_class_and_names_the_object() {
    for (code, class) in [
        (409, Class::Conflict),
        (422, Class::Invalid),
        (500, Class::Transient),
    ] {
        let (client, _) = client(code);
        let error = apply(&client, &secret(), "covey", false)
            .await
            .expect_err("refused");
        assert_eq!((error.class(), error.code()), (class, Some(code)));
        assert_eq!(error.to_string(), "could not apply Secret team/a");
    }
}

#[tokio::test]
async fn a_delete_carries_its_preconditions() {
    let (client, sent) = client(200);
    assert_eq!(
        delete(&client, &deletion(Some("7"))).await.unwrap(),
        Deleted::Accepted
    );
    assert_eq!(
        delete(&client, &deletion(None)).await.unwrap(),
        Deleted::Accepted
    );
    let sent = sent.lock().unwrap();
    assert!(
        sent[0]
            .0
            .starts_with("DELETE /api/v1/namespaces/team/secrets/a")
    );
    assert_eq!(
        sent[0].1["preconditions"],
        json!({ "uid": "uid-1", "resourceVersion": "7" })
    );
    assert_eq!(sent[0].1["propagationPolicy"], "Background");
    assert_eq!(sent[1].1["preconditions"], json!({ "uid": "uid-1" }));
}

#[tokio::test]
async fn deleting_what_is_gone_is_fine_and_a_namesake_is_a_conflict() {
    let (gone, _) = client(404);
    assert_eq!(
        delete(&gone, &deletion(None)).await.unwrap(),
        Deleted::NotFound
    );
    let (namesake, _) = client(409);
    let error = delete(&namesake, &deletion(None))
        .await
        .expect_err("another UID");
    assert_eq!(error.class(), Class::Conflict);
}
