//! Objects of an installation that `covey up` made, by their labels.
//!
//! Invariant: definitions are never among them, because with one go all objects of its kind; what is deleted is what was
//! read, and no other object of its name.

use std::fmt::Debug;

use futures::{StreamExt as _, TryStreamExt as _, pin_mut, stream};
use kit_client::untyped;
use kit_client::write::{Deletion, delete as delete_object};
use kube::api::{Api, ListParams, PropagationPolicy};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use super::wait::is_refused;
use crate::exit::{Exit, Failure};
use crate::install::{NAMESPACE, Object, SELECTOR, kinds};
use insight_read::request::{self, PAGES};

/// Requests at once.
pub(super) const AT_ONCE: usize = 8;

/// All of them, in the order in which they are applied.
pub(super) async fn ours(client: &Client) -> Result<Vec<Object>, Failure> {
    let lists = stream::iter(kinds()).map(|kind| async move {
        let api = untyped::of(kind, client, Some(NAMESPACE));
        let params = ListParams::default().labels(SELECTOR);
        let found = request::all(&api, params, PAGES).await;
        let act = format!("list {}", kind.plural);
        let found = found.map_err(|unread| Failure::unread(&act, &unread))?;
        let objects = found.into_iter().map(|object| {
            let value = serde_json::to_value(object);
            let value = value.map_err(|error| {
                Failure::new(Exit::Failed, &format!("cannot {act}: {error}"), "")
            })?;
            Ok(Object { kind, value })
        });
        objects.collect::<Result<Vec<_>, Failure>>()
    });
    let all: Vec<_> = lists.buffered(AT_ONCE).try_collect().await?;
    Ok(all.into_iter().flatten().collect())
}

/// Deletes one; that it is gone already is fine.
pub(super) async fn delete(client: &Client, object: &Object) -> Result<(), Failure> {
    let deletion = Deletion {
        kind: object.kind,
        namespace: object.namespace(),
        name: object.name(),
        uid: object.value["metadata"]["uid"].as_str().unwrap_or_default(),
        resource_version: None,
        propagation: PropagationPolicy::Background,
    };
    let deleted = delete_object(client, &deletion).await;
    let act = format!("delete {}", object.id());
    deleted.map_err(|error| match error {
        kit_client::write::Error::Request { source, .. } => Failure::of(&act, &source),
        other => Failure::new(Exit::Failed, &format!("cannot {act}: {other}"), ""),
    })?;
    Ok(())
}

/// Waits until an object is so; none: until it is gone.
pub(super) async fn reached<K>(
    api: &Api<K>,
    name: &str,
    is: &impl Fn(Option<&K>) -> bool,
) -> Result<(), Failure>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let watch = watcher::watch_object(api.clone(), name).default_backoff();
    pin_mut!(watch);
    while let Some(shown) = watch.next().await {
        match shown {
            Ok(object) if is(object.as_ref()) => return Ok(()),
            Err(error) if is_refused(&error) => {
                let said = kit_client::errors::chain(&error);
                let what = format!("cannot watch the {} {name}: {said}", K::kind(&()));
                let mend = "ask for the right to watch it, or do not wait: `--wait=false`";
                return Err(Failure::new(Exit::NotAllowed, &what, mend));
            }
            // The watch comes back by itself.
            Ok(_) | Err(_) => {}
        }
    }
    let what = format!("the watch of the {} {name} has ended", K::kind(&()));
    Err(Failure::new(Exit::Failed, &what, "try again"))
}
