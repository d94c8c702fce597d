//! What a stand-in answers to one request.
//!
//! Invariant: no I/O; every refusal is a `Status`, as clients of the real server see it.

use http::{HeaderValue, Method, Response, StatusCode, header, request::Parts};
use serde_json::{Value, json};

use super::evict;
use super::page::Page;
use super::select::Selection;
use super::state::State;
use super::store::{Outcome, Store};
use crate::faults::status_response;
use crate::request::RequestInfo;

/// Namespaces that every API server makes for itself.
const BUILT_IN: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// `known`: the caller has a client certificate of the tenant's authority.
pub(super) fn answer(head: &Parts, body: &[u8], state: &State, known: bool) -> Response<Vec<u8>> {
    let path = head.uri.path();
    match path {
        "/readyz" | "/livez" | "/healthz" => return Response::new(b"ok".to_vec()),
        "/version" => return version(&state.version()),
        _ if !known => return status_response(401, None),
        _ => {}
    }
    let info = RequestInfo::new(&head.method, &head.uri);
    if info.resource.is_empty() {
        return status_response(404, None);
    }
    let mut store = state.store();
    let outcome = match (head.method.clone(), info.name.is_some()) {
        (Method::GET, true) => match store.get(path).or_else(|| built_in(path)) {
            Some(object) => Outcome::Found(object),
            None => Outcome::NotFound,
        },
        (Method::GET, false) if info.verb == "list" => {
            Outcome::Found(Page::of(head).cut(store.list(&Selection::new(&head.uri))))
        }
        (Method::DELETE, true) => store.delete(path, info.dry_run),
        (Method::PATCH | Method::PUT | Method::POST, _) => match serde_json::from_slice(body) {
            Ok(object) if info.subresource.as_deref() == Some("eviction") => {
                return eviction(&mut store, head, &info, &object);
            }
            Ok(object) => write(&mut store, head, &info, object),
            Err(_) => return status_response(400, None),
        },
        _ => return status_response(405, None),
    };
    match outcome {
        Outcome::Found(object) => reply(200, &object),
        Outcome::Created(object) => reply(201, &object),
        Outcome::NotFound => status_response(404, None),
        Outcome::Exists => status_response(409, None),
    }
}

/// A namespace that nobody has to make.
fn built_in(path: &str) -> Option<Value> {
    let name = path.strip_prefix("/api/v1/namespaces/")?;
    BUILT_IN.contains(&name).then(|| {
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "labels": { "kubernetes.io/metadata.name": name } },
        })
    })
}

fn write(store: &mut Store, head: &Parts, info: &RequestInfo, object: Value) -> Outcome {
    let path = head.uri.path();
    let is_there = |name: &String| {
        BUILT_IN.contains(&name.as_str())
            || store.get(&format!("/api/v1/namespaces/{name}")).is_some()
    };
    let namespace = info
        .namespace
        .as_ref()
        .filter(|_| info.resource != "namespaces");
    if namespace.is_some_and(|name| !is_there(name)) {
        return Outcome::NotFound;
    }
    let content = head
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    match (&head.method, content) {
        (&Method::PATCH, Some("application/apply-patch+yaml")) => {
            store.apply(path, &manager(head), object, info.dry_run)
        }
        (&Method::PATCH, _) => match info.subresource.as_deref() {
            Some("approval" | "status") => {
                let (path, part) = of_status(path, &object);
                store.merge(path, &part, info.dry_run)
            }
            _ => store.merge(path, &object, info.dry_run),
        },
        (&Method::PUT, _) => store.replace(path, object, info.dry_run),
        _ => {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{path}/{name}");
            store.create(&path, object, info.dry_run)
        }
    }
}

/// Path of the object, and what its subresource may change.
fn of_status<'a>(path: &'a str, patch: &Value) -> (&'a str, Value) {
    let object = path.rsplit_once('/').map_or(path, |(object, _)| object);
    let mut part = json!({ "metadata": {} });
    for key in ["uid", "resourceVersion"] {
        if let Some(wanted) = patch["metadata"].get(key) {
            part["metadata"][key] = wanted.clone();
        }
    }
    if let Some(status) = patch.get("status") {
        part["status"] = status.clone();
    }
    (object, part)
}

fn eviction(
    store: &mut Store,
    head: &Parts,
    info: &RequestInfo,
    object: &Value,
) -> Response<Vec<u8>> {
    let path = head.uri.path();
    let pod = path.strip_suffix("/eviction");
    match pod.filter(|_| head.method == Method::POST && info.resource == "pods") {
        Some(pod) => match evict::evict(store, pod, object, info.dry_run).code() {
            201 => {
                let done = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "code": 201,
                });
                reply(201, &done)
            }
            code => status_response(code, None),
        },
        None => status_response(405, None),
    }
}

fn manager(head: &Parts) -> String {
    let query = head.uri.query().unwrap_or_default();
    let manager = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("fieldManager="));
    manager.unwrap_or_default().to_owned()
}

fn version(version: &str) -> Response<Vec<u8>> {
    let mut numbers = version.trim_start_matches('v').split('.');
    let mut number = || numbers.next().unwrap_or_default().to_owned();
    let (major, minor) = (number(), number());
    let body = json!({
        "major": major, "minor": minor, "gitVersion": version, "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "",
        "compiler": "", "platform": "linux/amd64",
    });
    reply(200, &body)
}

fn reply(code: u16, body: &Value) -> Response<Vec<u8>> {
    let mut response = Response::new(body.to_string().into_bytes());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::OK);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
