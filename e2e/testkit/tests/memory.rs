//! The API in memory through a kube client: what the real server is known for, one sentence each.
//!
//! Invariant: nothing here starts a program or waits for a time.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::sync::Arc;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy, WatchEvent, WatchParams,
};
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::memory::{Memory, Young};

fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn map(name: &str, more: Value) -> ConfigMap {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "a" },
    });
    for (key, value) in more.as_object().unwrap() {
        match key.as_str() {
            "data" => object["data"] = value.clone(),
            key => object["metadata"][key] = value.clone(),
        }
    }
    of(object)
}

async fn with_namespace(memory: &Memory) -> Client {
    let client = memory.admin();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = of(json!({ "metadata": { "name": "a" } }));
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    client
}

async fn start() -> (Memory, Api<ConfigMap>) {
    let memory = Memory::new();
    let client = with_namespace(&memory).await;
    (memory, Api::namespaced(client, "a"))
}

fn code<T>(result: Result<T, kube::Error>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason),
        Err(other) => panic!("{other}"),
        Ok(_) => (200, String::new()),
    }
}

fn reason(code: u16, reason: &str) -> (u16, String) {
    (code, reason.to_owned())
}

async fn apply(
    maps: &Api<ConfigMap>,
    manager: &str,
    force: bool,
    data: Value,
) -> Result<ConfigMap, kube::Error> {
    let params = PatchParams {
        force,
        ..PatchParams::apply(manager)
    };
    maps.patch(
        "m",
        &params,
        &Patch::Apply(map("m", json!({ "data": data }))),
    )
    .await
}

#[tokio::test]
async fn a_field_has_owners_who_are_told_of_conflicts_and_can_be_overruled() {
    let (_memory, maps) = start().await;
    apply(&maps, "x", false, json!({ "a": "1", "b": "1" }))
        .await
        .unwrap();
    // With one value, both own it.
    apply(&maps, "y", false, json!({ "a": "1", "c": "1" }))
        .await
        .unwrap();
    let refused = apply(&maps, "y", false, json!({ "b": "2" })).await;
    assert_eq!(code(refused), reason(409, "Conflict"));
    let forced = apply(&maps, "y", true, json!({ "b": "2" })).await.unwrap();
    // What y no longer says goes, but for what x says too.
    assert_eq!(json!(forced.data), json!({ "a": "1", "b": "2" }));
    // x has lost b, so leaving it out takes nothing away.
    let left = apply(&maps, "x", false, json!({})).await.unwrap();
    assert_eq!(json!(left.data), json!({ "b": "2" }));
    let same = apply(&maps, "x", false, json!({})).await.unwrap();
    assert_eq!(
        same.resource_version(),
        left.resource_version(),
        "nothing changed"
    );
}

#[tokio::test]
async fn a_status_write_changes_the_status_alone_and_only_the_spec_counts_generations() {
    let memory = Memory::new();
    let client = with_namespace(&memory).await;
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(client, "a");
    let spec =
        json!({ "replicas": 1, "selector": {}, "template": { "spec": { "containers": [] } } });
    let object =
        of(json!({ "metadata": { "name": "d" }, "spec": spec, "status": { "replicas": 7 } }));
    let made = deployments
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
    assert_eq!(
        made.status.unwrap().replicas,
        None,
        "a status is not created"
    );
    let patch = json!({ "spec": { "replicas": 2 }, "status": { "readyReplicas": 1 } });
    let patch = Patch::Merge(patch);
    let told = deployments
        .patch_status("d", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(
        (told.spec.unwrap().replicas, told.metadata.generation),
        (Some(1), Some(1))
    );
    assert_eq!(told.status.unwrap().ready_replicas, Some(1));
    let changed = deployments
        .patch("d", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(
        (changed.spec.unwrap().replicas, changed.metadata.generation),
        (Some(2), Some(2))
    );
}

#[tokio::test]
async fn preconditions_hold_or_it_is_a_conflict() {
    let (_memory, maps) = start().await;
    let made = maps
        .create(&PostParams::default(), &map("m", json!({})))
        .await
        .unwrap();
    let again = maps
        .create(&PostParams::default(), &map("m", json!({})))
        .await;
    assert_eq!(code(again), reason(409, "AlreadyExists"));
    let other = map("m", json!({ "resourceVersion": "1" }));
    let merged = maps
        .patch("m", &PatchParams::default(), &Patch::Merge(&other))
        .await;
    assert_eq!(code(merged), reason(409, "Conflict"));
    let delete = |uid: String| {
        let preconditions = Preconditions {
            uid: Some(uid),
            resource_version: None,
        };
        DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        }
    };
    let refused = maps.delete("m", &delete("other".to_owned())).await;
    assert_eq!(code(refused), reason(409, "Conflict"));
    maps.delete("m", &delete(made.uid().unwrap()))
        .await
        .unwrap();
    assert_eq!(code(maps.get("m").await), reason(404, "NotFound"));
    // A UID says that there is one already.
    let mine = map("m", json!({ "uid": made.uid() }));
    let applied = maps
        .patch("m", &PatchParams::apply("x"), &Patch::Apply(mine))
        .await;
    assert_eq!(code(applied), reason(409, "Conflict"));
}

#[tokio::test]
async fn what_has_finalizers_stays_until_the_last_is_off() {
    let (_memory, maps) = start().await;
    let held = map("m", json!({ "finalizers": ["example.com/a"] }));
    maps.create(&PostParams::default(), &held).await.unwrap();
    maps.delete("m", &DeleteParams::default()).await.unwrap();
    let going = maps.get("m").await.unwrap();
    assert!(going.metadata.deletion_timestamp.is_some());
    let off = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    maps.patch("m", &PatchParams::default(), &off)
        .await
        .unwrap();
    assert_eq!(maps.get_opt("m").await.unwrap(), None);
}

#[tokio::test]
async fn dependents_go_with_their_owner_unless_they_are_orphaned() {
    for (policy, left) in [
        (PropagationPolicy::Background, 0),
        (PropagationPolicy::Foreground, 0),
        (PropagationPolicy::Orphan, 1),
    ] {
        let (_memory, maps) = start().await;
        let owner = maps
            .create(&PostParams::default(), &map("m", json!({})))
            .await
            .unwrap();
        let reference =
            json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": owner.uid() }]);
        let owned = map("n", json!({ "ownerReferences": reference }));
        maps.create(&PostParams::default(), &owned).await.unwrap();
        let params = DeleteParams {
            propagation_policy: Some(policy.clone()),
            ..DeleteParams::default()
        };
        maps.delete("m", &params).await.unwrap();
        let found = maps.list(&ListParams::default()).await.unwrap().items;
        assert_eq!(found.len(), left, "{policy:?}");
        assert!(found.iter().all(|map| map.owner_references().is_empty()));
    }
}

#[tokio::test]
async fn a_namespace_takes_nothing_new_and_goes_after_its_contents() {
    let (memory, maps) = start().await;
    let held = map("m", json!({ "finalizers": ["example.com/a"] }));
    maps.create(&PostParams::default(), &held).await.unwrap();
    maps.create(&PostParams::default(), &map("n", json!({})))
        .await
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(memory.admin());
    namespaces
        .delete("a", &DeleteParams::default())
        .await
        .unwrap();
    let names = maps.list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = names
        .into_iter()
        .map(|map: ConfigMap| map.name_any())
        .collect();
    assert_eq!(names, ["m"]);
    let refused = maps
        .create(&PostParams::default(), &map("o", json!({})))
        .await;
    assert_eq!(code(refused), reason(403, "Forbidden"));
    let phase = namespaces.get("a").await.unwrap().status.unwrap().phase;
    assert_eq!(phase.as_deref(), Some("Terminating"));
    let off = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    maps.patch("m", &PatchParams::default(), &off)
        .await
        .unwrap();
    assert_eq!(namespaces.get_opt("a").await.unwrap(), None);
}

#[tokio::test]
async fn lists_come_in_pages_and_a_page_of_an_old_list_is_refused() {
    let (_memory, maps) = start().await;
    for name in ["x", "y", "z"] {
        maps.create(&PostParams::default(), &map(name, json!({})))
            .await
            .unwrap();
    }
    let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    assert_eq!(
        (first.items.len(), first.metadata.remaining_item_count),
        (2, Some(1))
    );
    let next = ListParams::default().limit(2).continue_token(&token);
    let second = maps.list(&next).await.unwrap();
    assert_eq!(second.items[0].name_any(), "z");
    assert_eq!(second.metadata.continue_.unwrap_or_default(), "");
    maps.delete("x", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(maps.list(&next).await), reason(410, "Expired"));
}

#[tokio::test]
async fn a_watch_tells_what_comes_into_its_selection_and_what_leaves_it() {
    let (memory, maps) = start().await;
    let from = maps
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let label = |value: &str| json!({ "labels": { "l": value } });
    maps.create(&PostParams::default(), &map("m", label("x")))
        .await
        .unwrap();
    for value in ["y", "x"] {
        let patch = Patch::Merge(json!({ "metadata": label(value) }));
        maps.patch("m", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    maps.delete("m", &DeleteParams::default()).await.unwrap();
    let params = WatchParams::default().labels("l=x");
    let events = maps.watch(&params, &from).await.unwrap();
    let mut events = Box::pin(events);
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(match events.try_next().await.unwrap().unwrap() {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(told, ["added", "deleted", "added", "deleted"]);
    memory.compact();
    let mut late = Box::pin(maps.watch(&params, &from).await.unwrap());
    match late.try_next().await.unwrap().unwrap() {
        WatchEvent::Error(status) => assert_eq!(status.code, 410),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_after_its_time_with_a_bookmark() {
    let (_memory, maps) = start().await;
    let params = WatchParams::default().timeout(30);
    let mut events = Box::pin(maps.watch(&params, "1").await.unwrap());
    match events.try_next().await.unwrap().unwrap() {
        WatchEvent::Bookmark(_) => {}
        other => panic!("{other:?}"),
    }
    assert!(events.try_next().await.unwrap().is_none());
}

#[tokio::test]
async fn services_get_addresses_of_their_own_and_keep_them() {
    let (memory, _maps) = start().await;
    let services: Api<Service> = Api::namespaced(memory.admin(), "a");
    let service = |name: &str, type_: &str| -> Service {
        of(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
            "spec": { "type": type_, "ports": [{ "port": 1 }] },
        }))
    };
    let mut given = Vec::new();
    for (name, type_) in [("s", "ClusterIP"), ("t", "NodePort")] {
        let params = PatchParams::apply("x");
        let first = services
            .patch(name, &params, &Patch::Apply(service(name, type_)))
            .await
            .unwrap();
        let mut more = service(name, type_);
        more.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        let second = services
            .patch(name, &params, &Patch::Apply(more))
            .await
            .unwrap();
        let of = |service: &Service| service.spec.clone().unwrap().cluster_ip;
        assert_eq!(of(&first), of(&second));
        given.push(of(&first).unwrap());
        let port = second.spec.unwrap().ports.unwrap()[0].node_port;
        assert_eq!(port.is_some(), type_ == "NodePort");
    }
    assert_ne!(given[0], given[1]);
}

#[tokio::test]
async fn a_kind_of_request_that_was_never_recorded_is_refused_by_name() {
    let known = ["create namespaces", "list configmaps"].map(str::to_owned);
    let memory = Memory::new().strict(known.into());
    let client = with_namespace(&memory).await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "a");
    maps.list(&ListParams::default()).await.unwrap();
    assert!(memory.refused().is_empty());
    let patch = Patch::Merge(json!({}));
    let refused = maps.patch("m", &PatchParams::default(), &patch).await;
    assert_eq!(code(refused), reason(501, "NotImplemented"));
    assert_eq!(memory.refused(), ["patch configmaps merge"]);
}

#[tokio::test]
async fn a_new_binding_allows_nothing_for_so_many_requests() {
    let young = Young {
        requests: 2,
        governed: Arc::new(|info| info.resource == "configmaps"),
    };
    let memory = Memory::new().young(young);
    let admin = with_namespace(&memory).await;
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> = Api::namespaced(admin, "a");
    let binding = of(json!({
        "metadata": { "name": "b" }, "roleRef": { "kind": "ClusterRole", "name": "r" },
    }));
    bindings
        .create(&PostParams::default(), &binding)
        .await
        .unwrap();
    let user = Client::new(memory.service(true), "a");
    let maps: Api<ConfigMap> = Api::namespaced(user, "a");
    for expected in [403, 403, 200] {
        assert_eq!(code(maps.list(&ListParams::default()).await).0, expected);
    }
}

#[tokio::test]
async fn two_instances_that_are_asked_the_same_answer_the_same() {
    let mut answers = Vec::new();
    for _ in 0..2 {
        let memory = Memory::with_clock(Arc::new(|| jiff::Timestamp::UNIX_EPOCH));
        let maps: Api<ConfigMap> = Api::namespaced(with_namespace(&memory).await, "a");
        apply(&maps, "x", true, json!({ "a": "1" })).await.unwrap();
        answers.push(json!(maps.get("m").await.unwrap()));
    }
    assert_eq!(answers[0], answers[1]);
}
