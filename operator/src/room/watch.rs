//! The watches on nodes, pods and quotas of the management cluster, and which node pools they wake.
//!
//! Invariant: what is listed comes in pages, and nothing of an object is kept but what [`super::world`]
//! does; a pool is woken at once, and then no more often than once per [`PERIOD`].

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api::NodePool;
use futures::future::{BoxFuture, join_all};
use futures::{Stream, StreamExt, stream};
use kube::core::DeserializeGuard;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::Room;
use super::kinds::{Node, Pod, ResourceQuota};
use super::world::{Kind, Seen};
use crate::gather::gather;

/// How long changes are gathered before it is looked at whom they concern: pods come and go all the
/// time, and where room is just about enough each of them turns the answer over.
const PERIOD: Duration = Duration::from_secs(2);

/// Keeps the room up to date. Ends never.
pub async fn keep(room: Arc<Room>, client: Client) {
    let watches = [
        kind::<Node>(&room, &client, Kind::Node, Seen::Node),
        kind::<Pod>(&room, &client, Kind::Pod, Seen::Pod),
        kind::<ResourceQuota>(&room, &client, Kind::Quota, Seen::Quota),
    ];
    join_all(watches).await;
}

fn kind<K>(
    room: &Arc<Room>,
    client: &Client,
    kind: Kind,
    seen: fn(K) -> Seen,
) -> BoxFuture<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let room = Arc::clone(room);
    let api = Api::<DeserializeGuard<K>>::all(client.clone());
    let tell = move |event| match event {
        Event::Init => room.begin(kind),
        Event::InitDone => room.end(kind),
        Event::Apply(object) | Event::InitApply(object) => room.apply(&seen(object)),
        Event::Delete(object) => room.delete(&seen(object)),
    };
    kit::watch::keep(api, Config::default(), kind, tell)
}

/// The node pools whose answer is another one than they were given.
pub fn flips(room: Arc<Room>) -> impl Stream<Item = ObjectRef<NodePool>> + Send {
    let changes = stream::unfold(room.changes(), |mut changes| async move {
        // Fails once the room is gone, and then nobody needs waking.
        changes.changed().await.ok()?;
        Some(((), changes))
    });
    gather(changes.boxed(), PERIOD).flat_map(move |()| stream::iter(room.flipped()))
}
