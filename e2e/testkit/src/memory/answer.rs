//! What the API in memory answers to one request.
//!
//! Invariant: every refusal is a `Status` with code and reason of the real server; what is not
//! modelled is refused with 501, never answered by a guess.

use http::{HeaderValue, Response, StatusCode, header, request::Parts};
use serde_json::{Value, json};

use super::query::Query;
use super::resources::{self, Resource};
use super::store::{Change, Preconditions, Propagation, Refusal, Store, Write};
use crate::request::RequestInfo;

/// Code and body.
pub(super) type Answer = (u16, Value);

/// As [`RequestInfo`], with what else a request is about.
pub(super) struct Asked<'a> {
    pub(super) info: &'a RequestInfo,
    pub(super) query: &'a Query,
    /// Content type of a patch.
    pub(super) content: &'a str,
    /// Only metadata is asked for.
    pub(super) partial: bool,
    pub(super) body: Value,
}

/// Whether metadata alone is asked for.
pub(super) fn is_partial(head: &Parts) -> bool {
    let accept = head.headers.get(header::ACCEPT);
    let accept = accept
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    accept.contains("as=PartialObjectMetadata")
}

/// Answers everything but watches.
pub(super) fn answer(store: &mut Store, asked: &Asked<'_>) -> Answer {
    let result = match asked.info.group.as_str() {
        "authorization.k8s.io" => Ok(review(asked)),
        _ => match resources::find(asked.info) {
            Some(resource) => carry_out(store, resource, asked),
            None => Err(Refusal::not_found(
                "the server could not find the requested resource",
            )),
        },
    };
    result.unwrap_or_else(|refusal| (refusal.code, status(&refusal)))
}

/// The body of a refusal.
pub(super) fn status(refusal: &Refusal) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": refusal.message, "reason": refusal.reason, "code": refusal.code,
    })
}

pub(super) fn reply((code, body): &Answer) -> Response<Vec<u8>> {
    let mut response = Response::new(body.to_string().into_bytes());
    *response.status_mut() =
        StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// Everybody may do everything, but what [`super::Young`] refuses.
fn review(asked: &Asked<'_>) -> Answer {
    let mut review = asked.body.clone();
    review["status"] = json!({ "allowed": true });
    (201, review)
}

fn carry_out(
    store: &mut Store,
    resource: &'static Resource,
    asked: &Asked<'_>,
) -> Result<Answer, Refusal> {
    let info = asked.info;
    let namespace = info.namespace.as_deref().unwrap_or_default();
    let name = match (&info.name, info.verb.as_str()) {
        (None, "create") => asked.body["metadata"]["name"].as_str().unwrap_or_default(),
        (name, _) => name.as_deref().unwrap_or_default(),
    };
    let manager = asked.query.get("fieldManager").unwrap_or("unknown");
    let write = Write {
        status: info.subresource.as_deref() == Some("status") && resource.status,
        dry: info.dry_run,
        ..Write::new(resource, namespace, name, manager)
    };
    if info.subresource.is_some() && !write.status {
        return Err(missing(info));
    }
    match info.verb.as_str() {
        "get" => match store.get(&write.key) {
            Some(object) => Ok((200, shown(&object, asked.partial))),
            None => Err(Refusal::not_found(&write.what())),
        },
        "list" => list(store, resource, asked),
        "create" if name.is_empty() => Err(Refusal::new(
            501,
            "NotImplemented",
            "generateName is not modelled",
        )),
        "create" => {
            let (_, object) = store.create(&write, asked.body.clone())?;
            Ok((201, shown(&object, asked.partial)))
        }
        "update" | "patch" => {
            let change = change(asked)?;
            let (new, object) = store.change(&write, change)?;
            Ok((if new { 201 } else { 200 }, shown(&object, asked.partial)))
        }
        "delete" => {
            let (wanted, propagation) = options(&asked.body);
            let (gone, object) = store.delete(&write, &wanted, propagation)?;
            // Objects of some kinds are shown as they were last; nobody of ours reads it.
            match gone {
                true => Ok((200, deleted(resource, &object))),
                false => Ok((200, shown(&object, asked.partial))),
            }
        }
        "deletecollection" => {
            let (wanted, propagation) = options(&asked.body);
            let found = store.list(resource, namespace);
            let found = found.filter(|(_, object)| asked.query.selects(object));
            let keys: Vec<_> = found.map(|(key, _)| key.clone()).collect();
            let listed = list(store, resource, asked)?;
            for key in keys {
                // One that another one's deletion took along is gone already.
                let write = Write {
                    key,
                    ..Write::new(resource, "", "", manager)
                };
                match store.delete(&write, &wanted, propagation) {
                    Ok(_) => {}
                    Err(refusal) if refusal.code == 404 => {}
                    Err(refusal) => return Err(refusal),
                }
            }
            Ok(listed)
        }
        _ => Err(missing(info)),
    }
}

fn missing(info: &RequestInfo) -> Refusal {
    let message = format!("{} {} is not modelled", info.verb, info.kind());
    Refusal::new(501, "NotImplemented", message)
}

fn change(asked: &Asked<'_>) -> Result<Change, Refusal> {
    let body = asked.body.clone();
    match (asked.info.verb.as_str(), asked.content) {
        ("update", _) => Ok(Change::Replace(body)),
        (_, "application/apply-patch+yaml") => Ok(Change::Apply {
            config: body,
            force: asked.query.is("force"),
        }),
        (_, "application/merge-patch+json") => Ok(Change::Merge(body)),
        (_, other) => {
            let message = format!("patches of type {other} are not modelled");
            Err(Refusal::new(501, "NotImplemented", message))
        }
    }
}

fn options(body: &Value) -> (Preconditions, Propagation) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let wanted = Preconditions {
        uid: text(&body["preconditions"]["uid"]),
        resource_version: text(&body["preconditions"]["resourceVersion"]),
    };
    let propagation = match body["propagationPolicy"].as_str() {
        Some("Foreground") => Propagation::Foreground,
        Some("Orphan") => Propagation::Orphan,
        _ => Propagation::Background,
    };
    (wanted, propagation)
}

fn deleted(resource: &Resource, object: &Value) -> Value {
    let mut details = json!({
        "name": object["metadata"]["name"], "kind": resource.plural, "uid": object["metadata"]["uid"],
    });
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}

/// A page is cut from what there is now, not from what there was when the first one was: between two
/// pages of one list nothing may have changed, or the list is to be begun anew (410).
fn list(store: &Store, resource: &'static Resource, asked: &Asked<'_>) -> Result<Answer, Refusal> {
    let namespace = asked.info.namespace.as_deref().unwrap_or_default();
    let (revision, after) = match asked.query.get("continue") {
        None => (store.revision(), None),
        Some(token) => {
            let (revision, after) = token.split_once(':').unwrap_or_default();
            if revision != store.revision().to_string() {
                let message = "The provided continue parameter is too old";
                return Err(Refusal::new(410, "Expired", message));
            }
            (store.revision(), Some(after.to_owned()))
        }
    };
    let of = |namespace: &str, name: &str| format!("{namespace}/{name}");
    let found = store.list(resource, namespace);
    let mut found = found
        .filter(|(_, object)| asked.query.selects(object))
        .filter(|((_, namespace, name), _)| {
            let after = after.as_deref();
            after.is_none_or(|after| of(namespace, name).as_str() > after)
        });
    let limit = asked.query.number("limit").filter(|limit| *limit > 0);
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let mut items = Vec::new();
    let mut last = String::new();
    for ((_, namespace, name), object) in found.by_ref().take(limit) {
        last = of(namespace, name);
        let mut object = shown(object, asked.partial);
        // The items of built-in kinds leave it to the list.
        if let Some(map) = object
            .as_object_mut()
            .filter(|_| !resource.is_custom() && !asked.partial)
        {
            map.remove("apiVersion");
            map.remove("kind");
        }
        items.push(object);
    }
    let left = found.count();
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if left > 0 {
        metadata["continue"] = json!(format!("{revision}:{last}"));
        if !asked.query.has_selector() {
            metadata["remainingItemCount"] = json!(left);
        }
    }
    let (kind, version) = match asked.partial {
        true => (
            "PartialObjectMetadataList".to_owned(),
            "meta.k8s.io/v1".to_owned(),
        ),
        false => (format!("{}List", resource.kind), resource.api_version()),
    };
    let list = json!({ "kind": kind, "apiVersion": version, "metadata": metadata, "items": items });
    Ok((200, list))
}

/// The object, or its metadata.
pub(super) fn shown(object: &Value, partial: bool) -> Value {
    match partial {
        false => object.clone(),
        true => json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": object["metadata"],
        }),
    }
}
