//! Asks the tenant's API what is left on nodes of one that is put to sleep.
//!
//! Invariant: it has a bounded time of its own, because nothing but sleep waits for it; whatever goes wrong is told as
//! something that is not known.

use std::fmt::Debug;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kit_client::errors::chain;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::sessions;
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::hibernation::seen::Left;
use crate::tenant_session::budget::Budget;

/// Longest time for all questions.
const PATIENCE: Duration = Duration::from_secs(4);

pub(super) async fn ask(ctx: &Context, address: (IpAddr, u16), observed: &mut Observed) {
    let left = left(ctx, address, observed).await;
    if let Some(seen) = &mut observed.hibernation {
        seen.left = Some(left.unwrap_or_else(Left::Unknown));
    }
}

async fn left(ctx: &Context, address: (IpAddr, u16), observed: &Observed) -> Result<Left, String> {
    if !sessions::lets(ctx, observed) {
        return Err("others that are slow to answer are asked first".to_owned());
    }
    let budget = Budget::waiting(PATIENCE);
    let session = sessions::operator(ctx, observed, address);
    let session = session.ok_or("keys of the operator are missing")?;
    let client = session.client(&budget).map_err(|error| chain(&error))?;
    let asking = Box::pin(ask_all(&client));
    let asked = budget.within(asking).await;
    asked.map_err(|error| error.to_string())?
}

async fn ask_all(client: &Client) -> Result<Left, String> {
    let all = ListParams::default().limit(1);
    // As `kubectl --field-selector` writes it: those that are on a node.
    let on_nodes = all.clone().fields("spec.nodeName!=");
    let (node, attachment, pod) = futures::try_join!(
        first::<Node>(client, &all, "node"),
        first::<VolumeAttachment>(client, &all, "volume attachment"),
        first::<Pod>(client, &on_nodes, "pod"),
    )?;
    let left = [node, attachment, pod].into_iter().flatten().next();
    Ok(left.map_or(Left::Nothing, Left::Some))
}

/// The first of them, for people; none where there is none.
async fn first<K>(
    client: &Client,
    params: &ListParams,
    what: &str,
) -> Result<Option<String>, String>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let list = Api::<K>::all(client.clone());
    let list = list.list_metadata(params).await;
    let list = list.map_err(|error| format!("list {what}s: {}", chain(&error)))?;
    let more = list.metadata.remaining_item_count.unwrap_or_default();
    Ok(list.items.first().map(|object| {
        let name = object.name_any();
        let name = object
            .namespace()
            .map_or(name.clone(), |namespace| format!("{namespace}/{name}"));
        match more {
            0 => format!("{what} {name}"),
            more => format!("{what} {name} and {more} more"),
        }
    }))
}
