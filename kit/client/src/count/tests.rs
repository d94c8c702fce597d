//! Names of requests as RBAC has them, and what is counted.

use super::*;

fn check(method: Method, uri: &str, verb: &str, resource: &str) {
    let request = Request::builder().method(method).uri(uri).body(()).unwrap();
    assert_eq!(
        verb_and_resource(&request),
        (verb, resource.to_owned()),
        "{uri}"
    );
}

#[test]
fn requests_are_named_as_rbac_names_them() {
    check(Method::GET, "/api/v1/namespaces", "list", "namespaces");
    check(Method::GET, "/api/v1/namespaces/a", "get", "namespaces");
    check(
        Method::PUT,
        "/api/v1/namespaces/a/finalize",
        "update",
        "namespaces/finalize",
    );
    check(
        Method::GET,
        "/api/v1/namespaces/a/secrets",
        "list",
        "secrets",
    );
    check(Method::GET, "/api/v1/secrets?limit=500", "list", "secrets");
    check(
        Method::GET,
        "/api/v1/secrets?a=b&watch=true",
        "watch",
        "secrets",
    );
    check(
        Method::POST,
        "/apis/apps/v1/namespaces/a/deployments",
        "create",
        "deployments",
    );
    check(
        Method::PATCH,
        "/apis/apps/v1/namespaces/a/deployments/b?force=true",
        "patch",
        "deployments",
    );
    let scale = "/apis/apps/v1/namespaces/a/deployments/b/scale";
    check(Method::PUT, scale, "update", "deployments/scale");
    check(
        Method::DELETE,
        "/api/v1/namespaces/a/pods/b",
        "delete",
        "pods",
    );
    check(
        Method::DELETE,
        "/api/v1/namespaces/a/pods",
        "deletecollection",
        "pods",
    );
    check(Method::GET, "/version", "get", "");
}

#[tokio::test]
async fn answers_and_failures_are_counted_by_code() {
    let counter = RequestCounter::new();
    let mut service =
        counter.layer().layer(tower::service_fn(
            async |request: Request<()>| match request.method() {
                &Method::GET => Ok(Response::new(())),
                _ => Err::<_, BoxError>("reset".into()),
            },
        ));
    for method in [Method::GET, Method::GET, Method::DELETE] {
        let uri = "/api/v1/namespaces/a/pods/secret-name";
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        let _ = service.call(request).await;
    }
    assert_eq!((counter.reads(), counter.writes()), (2, 1));
    let mut registry = Registry::default();
    counter.register(&mut registry, "management");
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let expected = r#"covey_kubernetes_requests_total{api="management",verb="get",resource="pods",code="200"} 2"#;
    assert!(text.contains(expected), "{text}");
    assert!(
        text.contains(r#",verb="delete",resource="pods",code="error"} 1"#),
        "{text}"
    );
    assert!(!text.contains("secret-name"), "{text}");
    let listed = [monitoring::catalogue::REQUESTS];
    let found = monitoring::exposition::differences(&listed, &text);
    assert_eq!(found, [""; 0]);
}
