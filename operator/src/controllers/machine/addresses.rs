//! Writes down which addresses a Machine has, where those who map traffic onto it may read it.
//!
//! Invariant: what is added replaces only entries of the same addresses, because the cluster network gives
//! each to one pod; what is taken out is taken out of the object as it was read, because another Machine may
//! have been given the address since.

use api::machine_addresses::{self, PublishedAddresses};
use api::{MachineAddresses, names};
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
    let spec = &machine.spec;
    let namespace = names::tenant_namespace(&spec.cluster_name, &spec.cluster_uid);
    let published = observed.published.as_ref();
    let change = machine_addresses::change(&machine.name_any(), published, addresses);
    let mut patch = json!({ "spec": { "addresses": change } });
    if takes_out(&change) {
        let all = ObjectRef::new(machine_addresses::NAME).within(&namespace);
        let read = ctx.stores.addresses.get(&all);
        patch["metadata"]["resourceVersion"] = json!(read.and_then(|all| all.resource_version()));
    }
    let api = Api::<MachineAddresses>::namespaced(ctx.client.clone(), &namespace);
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(&patch);
    let apply = || api.patch(machine_addresses::NAME, &params, &patch);
    let uid = machine.uid().unwrap_or_default();
    let record = |answer: &MachineAddresses| ctx.publications.record(&uid, answer, addresses);
    match apply().await {
        Err(kube::Error::Api(status)) if status.code == 404 && addresses.is_some() => {}
        // With the tenant namespace.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        patched => {
            record(&patched?);
            return Ok(());
        }
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
    record(&apply().await?);
    Ok(())
}

fn takes_out(change: &Value) -> bool {
    let mut owners = change
        .as_object()
        .into_iter()
        .flat_map(|change| change.values());
    owners.any(Value::is_null)
}
