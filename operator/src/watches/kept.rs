//! Watches on all objects of some kinds of the management cluster, for somebody who keeps a little of each.
//!
//! Invariant: lists come in pages, and nothing is kept here.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kit::watch::Event;
use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

/// How often it is asked whether the API knows a kind by now: no watch tells of a management cluster that
/// was upgraded, or was given a kind.
const SERVED: Duration = Duration::from_secs(600);
/// How soon an API that did not answer that is asked again.
const AGAIN: Duration = Duration::from_secs(5);

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
        // Of these kinds nothing is read that has to be there.
        Event::Unreadable(_) | Event::DeletedUnread(_) => {}
    };
    kit::watch::keep(api, Config::default(), kind, on_event)
}

/// Waits until the API knows a kind, which logs call `what`; tells each time that it does not.
pub async fn until_served<K>(client: &Client, what: &str, absent: impl Fn() + Send)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let api = Api::<DeserializeGuard<K>>::all(client.clone());
    loop {
        let wait = match api.list(&ListParams::default().limit(1)).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.code == 404 => {
                absent();
                SERVED
            }
            Err(error) => {
                let error = kit_client::errors::chain(&error);
                tracing::warn!(error, "cannot list {what}");
                AGAIN
            }
        };
        tokio::time::sleep(wait).await;
    }
}
