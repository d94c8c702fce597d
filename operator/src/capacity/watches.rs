//! The watches on nodes, pods and quotas of the management cluster, and which node pools they wake.
//!
//! Invariant: what is listed comes in pages, and nothing of an object is kept but what [`super::cache`]
//! does; a pool is woken at once, and then no more often than once per [`PERIOD`].

use std::sync::Arc;
use std::time::Duration;

use api::NodePool;
use futures::future::join_all;
use futures::{Stream, StreamExt, stream};
use kube::Client;
use kube::runtime::reflector::ObjectRef;

use super::Capacity;
use super::cache::{Kind, WatchedObject};
use super::kinds::{Node, Pod, ResourceQuota};
use crate::throttle::throttle;
use crate::watches::kept;

/// How long changes are throttled before it is looked at whom they concern: pods come and go all the
/// time, and where room is just about enough each of them turns the answer over.
const PERIOD: Duration = Duration::from_secs(2);

/// Keeps what is known of capacity up to date. Ends never.
pub async fn run(capacity: Arc<Capacity>, client: Client) {
    let watches = [
        kept::run::<_, Node>(&capacity, &client, Kind::Node, WatchedObject::Node),
        kept::run::<_, Pod>(&capacity, &client, Kind::Pod, WatchedObject::Pod),
        kept::run::<_, ResourceQuota>(&capacity, &client, Kind::Quota, WatchedObject::Quota),
    ];
    join_all(watches).await;
}

/// The node pools whose answer is another one than they were given.
pub fn flips(capacity: Arc<Capacity>) -> impl Stream<Item = ObjectRef<NodePool>> + Send {
    let changes = stream::unfold(capacity.changes(), |mut changes| async move {
        // Fails once nobody keeps what is known any more, and then nobody needs waking.
        changes.changed().await.ok()?;
        Some(((), changes))
    });
    throttle(changes.boxed(), PERIOD).flat_map(move |()| stream::iter(capacity.flipped()))
}
