//! Watches on the Jobs that check BackupTargets, and on their pods, in the operator's own namespace.
//!
//! Invariant: metadata only, and of nothing else in that namespace.

use api::{BackupTarget, names};
use futures::stream::{BoxStream, SelectAll};
use futures::{StreamExt, future};
use kit_objects::kinds::{self, Kind};
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};

/// BackupTargets of which a check came, changed or went.
pub fn checked(
    client: &Client,
    namespace: &str,
    targets: &Store<BackupTarget>,
) -> BoxStream<'static, ObjectRef<BackupTarget>> {
    let of = |kind| checked_by(kind, client, namespace, targets);
    SelectAll::from_iter([kinds::JOB, kinds::POD].map(of)).boxed()
}

fn checked_by(
    kind: Kind,
    client: &Client,
    namespace: &str,
    targets: &Store<BackupTarget>,
) -> BoxStream<'static, ObjectRef<BackupTarget>> {
    let config = watcher::Config::default().labels(names::LABEL_BACKUP_TARGET);
    let api =
        Api::<PartialObjectMeta>::namespaced_with(client.clone(), namespace, &kind.resource());
    let (events, targets) = (watcher(api, config).default_backoff(), targets.clone());
    let of_target = events.filter_map(move |event| {
        let found = match event {
            Ok(Event::Apply(object) | Event::Delete(object) | Event::InitApply(object)) => {
                let uid = object.labels().get(names::LABEL_BACKUP_TARGET).cloned();
                let all = targets.state();
                let found = all
                    .iter()
                    .find(|target| uid.is_some() && target.uid() == uid);
                found.map(|target| ObjectRef::from_obj(&**target))
            }
            Ok(Event::Init | Event::InitDone) => None,
            Err(error) => {
                let error = kit_client::errors::chain(&error);
                tracing::warn!(kind = kind.kind, error, "watch is interrupted");
                None
            }
        };
        future::ready(found)
    });
    of_target.boxed()
}
