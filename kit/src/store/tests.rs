//! What a store holds and tells, whatever watches and lists say, and in which order.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::runtime::reflector;
use serde_json::json;
use tokio::sync::mpsc;

use super::*;

fn guard(name: &str, uid: &str, readable: bool) -> DeserializeGuard<ConfigMap> {
    let data = match readable {
        true => json!({}),
        false => json!("no map"),
    };
    let meta = json!({ "name": name, "namespace": "users", "uid": uid });
    serde_json::from_value(json!({ "metadata": meta, "data": data })).unwrap()
}

/// Names that are in the store after these events, and what was told: `+` or `-`, the name and the UID.
async fn after(events: Vec<Event<DeserializeGuard<ConfigMap>>>) -> (Vec<String>, Vec<String>) {
    let (store, writer) = reflector::store();
    let known = writer.as_reader();
    let events = stream::iter(events.into_iter().map(Ok));
    let events = events
        .filter_map(|event| std::future::ready(decoded(event, &known).map(|event| (0, event))));
    let mut told = Vec::new();
    let mut tell = |object: &ConfigMap, there: bool| {
        let sign = if there { '+' } else { '-' };
        let (name, uid) = (object.name_any(), object.uid().unwrap());
        // Who is told of it finds it.
        assert_eq!(
            store.state().iter().any(|c| c.uid().as_ref() == Some(&uid)),
            there
        );
        told.push(format!("{sign}{name}/{uid}"));
    };
    keep(events, writer, &Relist::default(), &mut tell).await;
    let mut names: Vec<_> = store.state().iter().map(|c| c.name_any()).collect();
    names.sort();
    (names, told)
}

async fn names(events: Vec<Event<DeserializeGuard<ConfigMap>>>) -> Vec<String> {
    after(events).await.0
}

#[tokio::test]
async fn what_cannot_be_read_any_more_stays_as_it_was_also_when_all_is_listed_anew() {
    let listed = |readable| {
        [
            Event::Init,
            Event::InitApply(guard("a", "1", readable)),
            Event::InitApply(guard("b", "2", true)),
            Event::InitDone,
        ]
    };
    let mut events = Vec::from(listed(true));
    events.push(Event::Apply(guard("a", "1", false)));
    assert_eq!(names(events.clone()).await, ["a", "b"]);
    events.extend(listed(false));
    assert_eq!(names(events.clone()).await, ["a", "b"]);
    events.push(Event::Delete(guard("a", "1", false)));
    assert_eq!(names(events).await, ["b"]);
}

#[tokio::test]
async fn one_of_the_same_name_that_cannot_be_read_is_not_the_one_before() {
    let events = vec![
        Event::Init,
        Event::InitApply(guard("a", "1", true)),
        Event::InitDone,
        Event::Init,
        Event::InitApply(guard("a", "another", false)),
        Event::InitDone,
    ];
    assert!(names(events).await.is_empty());
}

#[tokio::test]
async fn what_vanished_between_two_lists_is_told_of_as_what_was_deleted() {
    let events = vec![
        Event::Init,
        Event::InitApply(guard("a", "1", true)),
        Event::InitApply(guard("b", "2", true)),
        Event::InitDone,
        Event::Init,
        Event::InitApply(guard("b", "another", true)),
        Event::InitDone,
    ];
    let (names, told) = after(events).await;
    assert_eq!(names, ["b"]);
    let mut second = told[2..].to_vec();
    second.sort();
    assert_eq!(second, ["+b/another", "-a/1", "-b/2"]);
}

#[tokio::test]
async fn list_that_is_asked_for_is_a_new_one_however_silent_the_watch_is() {
    let (store, writer) = reflector::store();
    let (relist, made) = (Relist::default(), Arc::new(AtomicU64::new(0)));
    let (lists, mut listed) = mpsc::unbounded_channel();
    let task = {
        let (relist, made) = (relist.clone(), Arc::clone(&made));
        tokio::spawn(async move {
            let begin = || {
                let number = made.fetch_add(1, Ordering::SeqCst);
                let object: ConfigMap = serde_json::from_value(json!({
                    "metadata": { "name": format!("list-{number}"), "namespace": "users" },
                }))
                .unwrap();
                let list = [Event::Init, Event::InitApply(object), Event::InitDone];
                // And then never a word.
                stream::iter(list).chain(stream::pending())
            };
            let tell = move |object: &ConfigMap, there: bool| {
                let _ = lists.send((object.name_any(), there));
            };
            keep(relist.watches(begin), writer, &relist, &mut { tell }).await;
        })
    };
    let first = ("list-0".to_owned(), true);
    assert_eq!(listed.recv().await, Some(first));
    for round in 1..3 {
        relist.now().await;
        let names: Vec<_> = store.state().iter().map(|c| c.name_any()).collect();
        assert_eq!(names, [format!("list-{round}")]);
        assert_eq!(made.load(Ordering::SeqCst), round + 1);
    }
    task.abort();
}
