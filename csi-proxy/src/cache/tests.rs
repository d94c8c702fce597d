//! What the cache believes when answers and watches overtake each other.

use api::names::LABEL_TENANT_UID;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;

use super::*;

/// A claim of ours, as it was at this version.
fn claim(name: &str, uid: &str, version: u64) -> Object {
    let claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": {
            "name": name, "uid": uid, "resourceVersion": version.to_string(),
            "labels": {
                LABEL_TENANT_UID: "uid",
                api::names::LABEL_COMPONENT: crate::names::COMPONENT,
            },
        },
        "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "class" },
    }))
    .unwrap();
    Object::Claim(Box::new(claim))
}

fn listed(objects: impl IntoIterator<Item = Object>) -> Cache {
    let cache = Cache::new("uid");
    list(&cache, objects);
    cache
}

fn list(cache: &Cache, objects: impl IntoIterator<Item = Object>) {
    cache.observe(&WatchEvent::Init(Kind::Volume));
    for object in objects {
        cache.observe(&WatchEvent::Applied(object));
    }
    cache.observe(&WatchEvent::InitDone(Kind::Volume));
}

/// Names and versions.
fn volumes(cache: &Cache) -> Vec<(String, u64)> {
    let version = |volume: &Volume| (volume.id.clone(), volume.version.number);
    cache.read(|state| state.volumes.values().map(version).collect())
}

#[test]
fn answer_that_was_on_its_way_while_its_object_was_deleted_brings_nothing_back() {
    let cache = listed([claim("vol-a", "1", 5)]);
    cache.observe(&WatchEvent::Deleted(claim("vol-a", "1", 9)));
    cache.observe_answer(&claim("vol-a", "1", 5));
    assert_eq!(volumes(&cache), []);
}

#[test]
fn answer_is_believed_before_a_watch_tells_it() {
    let cache = listed([claim("vol-a", "1", 5)]);
    cache.observe_answer(&claim("vol-a", "1", 7));
    cache.observe_answer(&claim("vol-b", "2", 8));
    let now = [("vol-a".to_owned(), 7), ("vol-b".to_owned(), 8)];
    assert_eq!(volumes(&cache), now);
    // What a watch tells late takes nothing back.
    cache.observe(&WatchEvent::Applied(claim("vol-a", "1", 6)));
    assert_eq!(volumes(&cache), now);
}

#[test]
fn answer_about_another_object_of_a_name_is_believed() {
    let cache = listed([claim("vol-a", "1", 5)]);
    cache.observe(&WatchEvent::Deleted(claim("vol-a", "1", 9)));
    cache.observe_answer(&claim("vol-a", "2", 10));
    assert_eq!(volumes(&cache), [("vol-a".to_owned(), 10)]);
}

#[test]
fn list_tells_nothing_of_what_it_has_not_named_yet() {
    let cache = listed([]);
    cache.observe(&WatchEvent::Init(Kind::Volume));
    cache.observe(&WatchEvent::Applied(claim("vol-a", "1", 9)));
    // Its turn comes; until then the answer is the newest there is.
    cache.observe_answer(&claim("vol-b", "2", 7));
    assert_eq!(
        volumes(&cache),
        [("vol-a".to_owned(), 9), ("vol-b".to_owned(), 7)]
    );
    cache.observe(&WatchEvent::Applied(claim("vol-b", "2", 7)));
    cache.observe(&WatchEvent::InitDone(Kind::Volume));
    assert_eq!(volumes(&cache).len(), 2);
}

#[test]
fn what_a_new_list_does_not_name_is_not_brought_back_by_an_older_answer() {
    let cache = listed([claim("vol-a", "1", 5), claim("vol-b", "2", 6)]);
    cache.observe(&WatchEvent::Init(Kind::Volume));
    cache.observe_answer(&claim("vol-a", "1", 5));
    cache.observe(&WatchEvent::Applied(claim("vol-b", "2", 6)));
    cache.observe(&WatchEvent::InitDone(Kind::Volume));
    assert_eq!(volumes(&cache), [("vol-b".to_owned(), 6)]);
    cache.observe_answer(&claim("vol-a", "1", 5));
    assert_eq!(volumes(&cache).len(), 1);
}
