//! Looks what runs of a tenant cluster that is to sleep, sleeps or wakes, and whether a request woke it.
//!
//! Invariant: of one that is awake and is to stay so nothing is asked. Pods are read live: what ends next is decided on
//! them.

use std::collections::BTreeMap;

use api::TenantCluster;
use api::names::{
    COMPONENT_ACTIVATOR, COMPONENT_WORKER, LABEL_COMPONENT, LABEL_TENANT_UID, SLEEPERS, wake_lease,
};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kit_client::untyped;
use kit_objects::kinds;
use kit_objects::object::Key;
use kube::{Api, ResourceExt};
use serde_json::Value;
use tenant_cp::names;

use super::restore::{Unread, list, unread};
use crate::context::Context;
use crate::hibernation;
use crate::hibernation::place;
use crate::hibernation::seen::{Asked, Seen};
use crate::pod_failures;

/// None where it is awake and to stay so.
pub(super) async fn read(
    ctx: &Context,
    cluster: &TenantCluster,
    ns: &str,
    objects: &mut BTreeMap<Key, Value>,
    now: Timestamp,
) -> Result<Option<Seen>, Unread> {
    if !hibernation::is_of_interest(cluster, now) {
        return Ok(None);
    }
    let uid = cluster.identity_uid();
    let pods = format!("{LABEL_COMPONENT}!={COMPONENT_WORKER},{LABEL_TENANT_UID}={uid}");
    let (pods, asked, place) = futures::try_join!(
        list(ctx, kinds::POD, ns, &pods),
        asked(ctx, cluster, uid),
        place(ctx, cluster, ns),
    )?;
    let machines = ctx.stores.machines.state();
    let machines = machines
        .iter()
        .filter(|machine| machine.spec.cluster_uid == uid);
    Ok(Some(Seen {
        machines: machines.count(),
        pods: pods.into_iter().map(|(_, pod)| pod).collect(),
        asked,
        place: place.map(|(place, slice)| {
            objects.extend(slice);
            place
        }),
        left: None,
        blocking: None,
    }))
}

/// The last request that asked that it wakes.
async fn asked(ctx: &Context, cluster: &TenantCluster, uid: &str) -> Result<Option<Asked>, Unread> {
    if !hibernation::wakes_on_request(cluster) {
        return Ok(None);
    }
    let name = wake_lease(uid);
    let leases = Api::<Lease>::namespaced(ctx.client.clone(), &ctx.settings.operator_namespace);
    let lease = leases.get_opt(&name).await;
    let lease = lease.map_err(|source| unread("Lease", &name, source))?;
    Ok(lease.and_then(|lease| {
        let spec = lease.spec?;
        let at = spec.renew_time?.0;
        let by = spec.holder_identity;
        Some(Asked { at, by })
    }))
}

/// Where the activator waits for it, and the slice that leads there; none where it was not sent to sleep.
async fn place(
    ctx: &Context,
    cluster: &TenantCluster,
    ns: &str,
) -> Result<Option<(place::Seen, Option<(Key, Value)>)>, Unread> {
    let status = cluster.status.as_ref();
    if status.is_none_or(|status| status.hibernation.is_none()) {
        return Ok(None);
    }
    let own = ctx.settings.operator_namespace.as_str();
    let activators = format!("{LABEL_COMPONENT}={COMPONENT_ACTIVATOR}");
    let maps = Api::<ConfigMap>::namespaced(ctx.client.clone(), own);
    let slices = untyped::of(kinds::ENDPOINT_SLICE, &ctx.client, Some(ns));
    let map = async {
        let map = maps.get_opt(SLEEPERS).await;
        map.map_err(|source| unread("ConfigMap", SLEEPERS, source))
    };
    let slice = async {
        let slice = slices.get_opt(names::ACTIVATOR_SLICE).await;
        slice.map_err(|source| unread("EndpointSlice", names::ACTIVATOR_SLICE, source))
    };
    let (pods, map, slice) =
        futures::try_join!(list(ctx, kinds::POD, own, &activators), map, slice)?;
    let serves = |pod: &&Value| {
        pod_failures::is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let pods = pods.iter().map(|(_, pod)| pod).filter(serves);
    let addresses = pods.filter_map(|pod| pod["status"]["podIP"].as_str()?.parse().ok());
    let map = map.unwrap_or_default();
    let place = place::Seen {
        addresses: addresses.collect(),
        version: map.metadata.resource_version,
        data: map.data.unwrap_or_default(),
        slice: slice.as_ref().and_then(ResourceExt::uid),
    };
    let slice = slice.map(|slice| {
        let key = Key::new(kinds::ENDPOINT_SLICE.kind, ns, names::ACTIVATOR_SLICE);
        let mut body = serde_json::to_value(&slice).unwrap_or_default();
        body["apiVersion"] = kinds::ENDPOINT_SLICE.api_version().into();
        body["kind"] = kinds::ENDPOINT_SLICE.kind.into();
        (key, body)
    });
    Ok(Some((place, slice)))
}
