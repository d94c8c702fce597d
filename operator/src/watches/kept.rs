//! Watches on all objects of some kinds of the management cluster, for somebody who keeps a little of each.
//!
//! Invariant: lists come in pages, and nothing is kept here.

use std::fmt::Debug;
use std::sync::Arc;

use futures::future::BoxFuture;
use kit::watch::Event;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

/// Who keeps what watches tell.
pub trait Keeper: Send + Sync + 'static {
    /// What is watched.
    type Kind: Copy + Debug + Send + Sync + 'static;
    /// An object of one of the kinds.
    type Object;

    /// A list begins.
    fn begin(&self, kind: Self::Kind);
    /// A list is over: what it did not name is gone.
    fn end(&self, kind: Self::Kind);
    /// An object is there or changed.
    fn apply(&self, seen: &Self::Object);
    /// An object is gone.
    fn delete(&self, seen: &Self::Object);
}

/// Tells of all objects of one kind. Ends never.
pub fn run<C, K>(
    keeper: &Arc<C>,
    client: &Client,
    kind: C::Kind,
    seen: fn(K) -> C::Object,
) -> BoxFuture<'static, ()>
where
    C: Keeper,
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let keeper = Arc::clone(keeper);
    let api = Api::<DeserializeGuard<K>>::all(client.clone());
    let on_event = move |event| match event {
        Event::Begin => keeper.begin(kind),
        Event::End => keeper.end(kind),
        Event::Applied(object) => keeper.apply(&seen(object)),
        Event::Deleted(object) => keeper.delete(&seen(object)),
        // These kinds are Kubernetes' own, whose fields are all optional to us.
        Event::Unreadable(_) | Event::DeletedUnread(_) => {}
    };
    kit::watch::keep(api, Config::default(), kind, on_event)
}
