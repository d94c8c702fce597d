//! Looks for the Restore of a tenant cluster that is under way or next, and for what there is of it.
//!
//! Invariant: where there is no Restore nothing is asked. What is decided about data is read live.

use std::collections::BTreeMap;

use api::names::{COMPONENT_WORKER, LABEL_COMPONENT, LABEL_TENANT_UID};
use api::{BackupTarget, Restore, TenantCluster};
use kit_client::untyped;
use kit_objects::kinds::{self, Kind};
use kit_objects::object::Key;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use serde_json::Value;
use tenant_cp::names;

use super::{Error, body, read};
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::restore::RestoreSeen;
use crate::restoring::begin;

/// Most pods of a tenant namespace beside those of machines, and most Jobs; a second page is never asked for, because
/// there is none.
const MOST: u32 = 500;

/// None where there is none; Jobs are put to the other objects.
pub(super) async fn look(
    ctx: &Context,
    cluster: &TenantCluster,
    ns: &str,
    objects: &mut BTreeMap<Key, Value>,
) -> Result<Option<RestoreSeen>, Error> {
    let namespace = cluster.namespace().unwrap_or_default();
    let status = cluster.status.as_ref();
    let progress = status.and_then(|status| status.restore.as_ref());
    let named = match progress {
        Some(progress) => Some((progress.name.clone(), progress.uid.clone())),
        None => begin::first(&ctx.stores.restores.state(), cluster),
    };
    let Some((name, uid)) = named else {
        return Ok(None);
    };
    let restores = Api::<Restore>::namespaced(ctx.client.clone(), &namespace);
    let found = restores.get_opt(&name).await;
    let found = found.map_err(|error| read("Restore", &name, error))?;
    let target = cluster.spec.backup.as_ref().and_then(|backup| {
        let named = ObjectRef::<BackupTarget>::new(&backup.target);
        ctx.stores.targets.get(&named)
    });
    let mut seen = RestoreSeen {
        restore: found.filter(|found| found.uid().as_deref() == Some(uid.as_str())),
        target,
        ..RestoreSeen::default()
    };
    if progress.is_some() {
        let own = cluster.uid().unwrap_or_default();
        let pods = format!("{LABEL_TENANT_UID}={own},{LABEL_COMPONENT}!={COMPONENT_WORKER}");
        let pods = list(ctx, kinds::POD, ns, &pods).await?;
        seen.pods = pods.into_iter().map(|(_, pod)| pod).collect();
        let jobs = format!("{LABEL_COMPONENT}={}", names::ETCD_RESTORE);
        objects.extend(list(ctx, kinds::JOB, ns, &jobs).await?);
    }
    Ok(Some(seen))
}

async fn list(
    ctx: &Context,
    kind: Kind,
    ns: &str,
    labels: &str,
) -> Result<Vec<(Key, Value)>, Error> {
    let params = ListParams::default().labels(labels).limit(MOST);
    let found = untyped::of(kind, &ctx.client, Some(ns)).list(&params).await;
    let found = found.map_err(|error| read(kind.kind, ns, error))?;
    let one = |o: &DynamicObject| (Key::new(kind.kind, ns, &o.name_any()), body(kind, o));
    Ok(found.items.iter().map(one).collect())
}
