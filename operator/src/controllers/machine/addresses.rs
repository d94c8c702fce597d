//! Writes down which addresses a Machine has, where those who map traffic onto it may read it, and what the cloud
//! controller manager is told of one that it does not see itself.
//!
//! Invariant: what is added replaces only entries of the same addresses, because the cluster network gives
//! each to one pod; what is taken out is taken out of the object as it was read, because another Machine may
//! have been given the address since.

use api::MachineAddresses;
use api::machine_addresses::{self, PublishedAddresses, RemoteMachine};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::observed::Observed;
use crate::FIELD_MANAGER;
use crate::context::Context;

/// Publishes the addresses of the Machine; none: that it has none any more.
pub(super) async fn publish(
    ctx: &Context,
    observed: &Observed,
    addresses: Option<&PublishedAddresses>,
) -> Result<(), kube::Error> {
    let machine = &observed.machine;
    let namespace = machine.tenant_namespace();
    let published = observed.published.as_ref();
    let change = machine_addresses::change(&machine.name_any(), published, addresses);
    let mut patch = json!({ "spec": { "addresses": change } });
    if takes_out(&change) {
        let all = ObjectRef::new(machine_addresses::NAME).within(&namespace);
        let read = ctx.stores.addresses.get(&all);
        patch["metadata"]["resourceVersion"] = json!(read.and_then(|all| all.resource_version()));
    }
    let answer = write(ctx, &namespace, &patch, addresses.is_some()).await?;
    if let Some(answer) = answer {
        let uid = machine.uid().unwrap_or_default();
        ctx.publications.record(&uid, &answer, addresses);
    }
    Ok(())
}

/// How long it is told that a machine is gone, where its Node may be there still.
const TOLD: SignedDuration = SignedDuration::from_hours(24);

/// Publishes what the cloud controller manager is to know of the Machine; none: nothing any more. An entry is of one
/// Machine by its name, which is never used twice.
pub(super) async fn publish_machine(
    ctx: &Context,
    observed: &Observed,
    now: Option<&RemoteMachine>,
) -> Result<(), kube::Error> {
    let machine = &observed.machine;
    let namespace = machine.tenant_namespace();
    // What is absent now takes out what was there.
    let mut machines = json!({ machine.name_any(): now });
    let all = ObjectRef::new(machine_addresses::NAME).within(&namespace);
    let read = ctx.stores.addresses.get(&all);
    let then = Timestamp::now()
        .saturating_sub(TOLD)
        .unwrap_or(Timestamp::MIN);
    for old in read.iter().flat_map(|all| all.gone_before(&Time(then))) {
        if *old != machine.name_any() {
            machines[old] = Value::Null;
        }
    }
    let patch = json!({ "spec": { "machines": machines } });
    let answer = write(ctx, &namespace, &patch, now.is_some()).await?;
    if let Some(answer) = answer {
        let uid = machine.uid().unwrap_or_default();
        ctx.remote_publications.record(&uid, &answer, now);
    }
    Ok(())
}

/// Merges into the one object of the tenant namespace, which is made where `makes` says so. None where it is not
/// there.
async fn write(
    ctx: &Context,
    namespace: &str,
    patch: &Value,
    makes: bool,
) -> Result<Option<MachineAddresses>, kube::Error> {
    let api = Api::<MachineAddresses>::namespaced(ctx.client.clone(), namespace);
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(patch);
    let apply = || api.patch(machine_addresses::NAME, &params, &patch);
    match apply().await {
        Err(kube::Error::Api(status)) if status.code == 404 && makes => {}
        // With the tenant namespace.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        patched => return patched.map(Some),
    }
    let empty = MachineAddresses::new(machine_addresses::NAME, Default::default());
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    match api.create(&params, &empty).await {
        // Another Machine was first.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        made => drop(made?),
    }
    apply().await.map(Some)
}

fn takes_out(change: &Value) -> bool {
    let mut owners = change
        .as_object()
        .into_iter()
        .flat_map(|change| change.values());
    owners.any(Value::is_null)
}
