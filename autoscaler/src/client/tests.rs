//! What is sent, against an API that answers as it is told.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Mutex;

use kube::client::Body;
use serde_json::json;

use super::*;
use crate::error::Refusal;
use crate::testing::{cache, changed, machine, machine_event, named, pool, pool_event, settings};

type Sent = Arc<Mutex<Vec<(String, Value)>>>;

/// Answers one after another; what was asked is noted.
fn api(answers: Vec<(u16, Value)>) -> (Client, Sent) {
    let sent = Sent::default();
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let noted = Arc::clone(&sent);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (noted, answers) = (Arc::clone(&noted), Arc::clone(&answers));
        async move {
            let method = request.method().to_string();
            let body = request.into_body().collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            noted.lock().unwrap().push((method, body));
            let (status, answer) = answers.lock().unwrap().pop_front().unwrap();
            let answer = http::Response::builder()
                .status(status)
                .body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, Infallible>(answer.unwrap())
        }
    });
    (Client::new(service, "team"), sent)
}

fn conflict() -> (u16, Value) {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": "Conflict", "code": 409, "message": "the object has been modified" });
    (409, status)
}

fn json_of(pool: &NodePool) -> Value {
    serde_json::to_value(pool).unwrap()
}

fn three() -> NodePool {
    pool("workers", 3, 0, 5)
}

/// A client that knows of `known`, and one machine.
fn node_pools(known: &NodePool, answers: Vec<(u16, Value)>) -> (NodePools, Sent, Arc<Cache>) {
    let machine = machine("workers-a", "workers", "Running");
    let cache = cache([pool_event(known), machine_event(&machine)]);
    let (client, sent) = api(answers);
    let node_pools = NodePools::new(&client, &settings(), Arc::clone(&cache));
    (node_pools, sent, cache)
}

fn take_a(group: Group<'_>, state: &State) -> Decision {
    node_group::decide::delete(group, state, &[named("workers-a")])
}

#[tokio::test]
async fn size_and_names_are_one_write_that_states_its_version_and_is_believed_at_once() {
    let known = three();
    let written = json!({ "metadata": { "annotations": { ANNOTATION_DELETE_MACHINE: "workers-a" } },
        "spec": { "replicas": 2 } });
    let written = changed(&known, written);
    let (node_pools, sent, cache) = node_pools(&known, vec![(200, json_of(&written))]);
    let change = node_pools
        .change("workers.x", take_a)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(change.replicas, 2);
    let expected = json!({
        "metadata": { "annotations": { ANNOTATION_DELETE_MACHINE: "workers-a" },
            "resourceVersion": known.metadata.resource_version, "uid": "uid-workers" },
        "spec": { "replicas": 2 },
    });
    assert_eq!(*sent.lock().unwrap(), [("PATCH".to_owned(), expected)]);
    assert_eq!(cache.read(|state| state.pools["workers"].replicas), 2);
    assert_eq!(node_pools.change("workers.x", take_a).await.unwrap(), None);
    assert_eq!(
        sent.lock().unwrap().len(),
        1,
        "asked again, nothing is sent"
    );
}

#[tokio::test]
async fn after_a_conflict_the_newest_is_read_and_decided_on_anew() {
    let known = three();
    let newer = changed(&known, json!({ "spec": { "replicas": 5 } }));
    let written = changed(&newer, json!({ "spec": { "replicas": 4 } }));
    let answers = vec![conflict(), (200, json_of(&newer)), (200, json_of(&written))];
    let (node_pools, sent, _) = node_pools(&known, answers);
    let change = node_pools
        .change("workers.x", take_a)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(change.replicas, 4);
    let sent = sent.lock().unwrap();
    let methods: Vec<_> = sent.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(methods, ["PATCH", "GET", "PATCH"]);
    let stated = &sent[2].1["metadata"]["resourceVersion"];
    assert_eq!(stated.as_str(), newer.metadata.resource_version.as_deref());
}

#[tokio::test]
async fn after_a_conflict_a_wish_may_be_refused() {
    let known = three();
    let newer = json!({ "spec": { "autoscaling": { "min": 3 } } });
    let answers = vec![conflict(), (200, json_of(&changed(&known, newer)))];
    let (node_pools, _, _) = node_pools(&known, answers);
    let refused = node_pools.change("workers.x", take_a).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::Bounds(_)))));
}

#[tokio::test]
async fn it_does_not_go_on_for_ever() {
    let known = three();
    let read = json_of(&known);
    let answers = (0..TRIES).flat_map(|_| [conflict(), (200, read.clone())]);
    let (node_pools, _, _) = node_pools(&known, answers.collect());
    let error = node_pools.change("workers.x", take_a).await;
    assert!(matches!(error, Err(Error::Contended(_))));
}

#[tokio::test]
async fn a_group_that_is_gone_is_unknown() {
    let (node_pools, _, _) = node_pools(&three(), Vec::new());
    let error = node_pools.change("others.x", take_a).await;
    assert!(matches!(error, Err(Error::Unknown(_))));
}

#[test]
fn the_annotation_is_written_only_when_it_changes_and_taken_off_when_it_is_empty() {
    let names = json!({ "metadata": { "annotations": { ANNOTATION_DELETE_MACHINE: "b,a" } } });
    let pool = Pool::read(&changed(&three(), names));
    let annotations = |names: &[&str]| {
        let named = names.iter().map(|name| (*name).to_owned()).collect();
        let patch = patch(&pool, &Change { replicas: 1, named });
        patch["metadata"].get("annotations").cloned()
    };
    assert_eq!(annotations(&["a", "b"]), None);
    assert_eq!(
        annotations(&["a"]),
        Some(json!({ ANNOTATION_DELETE_MACHINE: "a" }))
    );
    assert_eq!(
        annotations(&[]),
        Some(json!({ ANNOTATION_DELETE_MACHINE: null }))
    );
}
