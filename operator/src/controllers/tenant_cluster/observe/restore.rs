//! Looks for the Restore of a tenant cluster that is under way or next, and for what there is of it.
//!
//! Invariant: where there is no Restore nothing is asked. What is decided about data is read live.

use std::collections::BTreeMap;

use api::names::{
    ANNOTATION_KEPT_FOR_RESTORE, ANNOTATION_MADE_FOR, ANNOTATION_MADE_FOR_NAMESPACE,
    ANNOTATION_ORPHAN, COMPONENT_LOAD_BALANCER, COMPONENT_WORKER, LABEL_COMPONENT,
    LABEL_TENANT_UID, is_orphan,
};
use api::restore::Orphan;
use api::{BackupTarget, Restore, TenantCluster};
use kit_client::untyped;
use kit_objects::kinds::{self, Kind};
use kit_objects::object::Key;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use serde_json::Value;
use tenant_cp::names;

use crate::context::Context;
use crate::controllers::tenant_cluster::observed::restore::{Balancer, RestoreSeen};
use crate::restoring::{Mark, begin};
use crate::status::one_line;

/// Objects of one page: more than there are pods in a tenant namespace beside those of machines, or Jobs.
const MOST: u32 = 500;
/// Most pages: more load balancers than a tenant cluster may have.
const PAGES: usize = 20;

/// Most addresses of a load balancer that are told.
const ADDRESSES: usize = 8;

/// What could not be read.
pub(in crate::controllers) struct Unread {
    /// Kind.
    pub(in crate::controllers) kind: &'static str,
    /// Name or namespace.
    pub(in crate::controllers) name: String,
    /// What the API said.
    pub(in crate::controllers) source: Box<kube::Error>,
}

/// None where there is none; Jobs are put to the other objects.
pub(super) async fn read(
    ctx: &Context,
    cluster: &TenantCluster,
    ns: &str,
    objects: &mut BTreeMap<Key, Value>,
) -> Result<Option<RestoreSeen>, Unread> {
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
    let found = found.map_err(|source| unread("Restore", &name, source))?;
    let target = cluster.spec.backup.as_ref().and_then(|backup| {
        let named = ObjectRef::<BackupTarget>::new(&backup.target);
        ctx.stores.targets.get(&named)
    });
    let mut seen = RestoreSeen {
        restore: found.filter(|found| found.uid().as_deref() == Some(uid.as_str())),
        target,
        ..RestoreSeen::default()
    };
    if let Some(progress) = progress {
        let own = cluster.identity_uid();
        let pods = format!("{LABEL_COMPONENT}!={COMPONENT_WORKER},{LABEL_TENANT_UID}={own}");
        let pods = list(ctx, kinds::POD, ns, &pods).await?;
        seen.pods = pods.into_iter().map(|(_, pod)| pod).collect();
        let jobs = format!("{LABEL_COMPONENT}={}", names::ETCD_RESTORE);
        objects.extend(list(ctx, kinds::JOB, ns, &jobs).await?);
        seen.balancers = balancers(ctx, ns, &progress.uid).await?;
    }
    Ok(Some(seen))
}

pub(super) async fn list(
    ctx: &Context,
    kind: Kind,
    ns: &str,
    labels: &str,
) -> Result<Vec<(Key, Value)>, Unread> {
    let mut params = ListParams::default().labels(labels).limit(MOST);
    let api = untyped::of(kind, &ctx.client, Some(ns));
    let mut found = Vec::new();
    for _ in 0..PAGES {
        let page = api.list(&params).await;
        let page = page.map_err(|source| unread(kind.kind, ns, source))?;
        found.extend(page.items);
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            break;
        }
    }
    let one = |object: &DynamicObject| {
        let key = Key::new(kind.kind, ns, &object.name_any());
        let mut body = serde_json::to_value(object).unwrap_or_default();
        body["apiVersion"] = kind.api_version().into();
        body["kind"] = kind.kind.into();
        (key, body)
    };
    Ok(found.iter().map(one).collect())
}

/// Load balancers of a tenant namespace by name, and whether they are kept for the Restore of this UID.
pub(in crate::controllers) async fn balancers(
    ctx: &Context,
    ns: &str,
    restore: &str,
) -> Result<BTreeMap<String, Balancer>, Unread> {
    let labels = format!("{LABEL_COMPONENT}={COMPONENT_LOAD_BALANCER}");
    let all = list(ctx, kinds::SERVICE, ns, &labels).await?;
    let one = |(key, service): &(Key, Value)| {
        let found = balancer(&key.name, service, restore)?;
        Some((key.name.clone(), found))
    };
    Ok(all.iter().filter_map(one).collect())
}

fn balancer(name: &str, service: &Value, restore: &str) -> Option<Balancer> {
    let meta = &service["metadata"];
    let annotation = |key: &str| meta["annotations"][key].as_str();
    let mark = match annotation(ANNOTATION_KEPT_FOR_RESTORE) {
        Some(kept) if kept == restore => match is_orphan(annotation(ANNOTATION_ORPHAN), restore) {
            None => Mark::Unknown,
            Some(false) => Mark::Known,
            Some(true) => Mark::Orphan,
        },
        // Of one that is over: what it was decided of then is decided anew.
        Some(_) | None => Mark::None,
    };
    let (namespace, made_for) = (ANNOTATION_MADE_FOR_NAMESPACE, ANNOTATION_MADE_FOR);
    let made_for = annotation(namespace).zip(annotation(made_for));
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array();
    let address = |one: &Value| {
        let address = one["ip"].as_str().or_else(|| one["hostname"].as_str())?;
        Some(one_line(address, 253))
    };
    let addresses = ingress.into_iter().flatten().filter_map(address);
    Some(Balancer {
        uid: meta["uid"].as_str()?.to_owned(),
        mark,
        told: Orphan {
            kind: kinds::SERVICE.kind.to_owned(),
            name: name.to_owned(),
            made_for: made_for
                .map(|(namespace, name)| one_line(&format!("{namespace}/{name}"), 320)),
            addresses: addresses.take(ADDRESSES).collect(),
        },
    })
}

pub(super) fn unread(kind: &'static str, name: &str, source: kube::Error) -> Unread {
    Unread {
        kind,
        name: name.to_owned(),
        source: Box::new(source),
    }
}
