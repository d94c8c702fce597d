//! Frees the tenant's Services from what the cloud controller manager left on them.
//!
//! Invariant: page by page, so that a tenant with any number of Services costs bounded memory; a
//! Service is written to [`MOST`] times at most, whatever the tenant's API answers.

use futures::{StreamExt, TryStreamExt, stream};
use kit_client::untyped;
use kit_objects::kinds;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};

use super::Error;
use crate::FIELD_MANAGER;
use crate::context::Context;
use crate::controllers::tenant_cluster::plan::tenant_objects::release::{MOST, Release, release};
use crate::tenant_session::budget::{Budget, PAGE};
use crate::tenant_session::session;

/// Services written to at the same time.
const PARALLEL_WRITES: usize = 8;

/// Releases every Service that needs it.
pub(super) async fn services(ctx: &Context, client: &Client, budget: &Budget) -> Result<(), Error> {
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let list = untyped::of(kinds::SERVICE, client, None)
            .list(&params)
            .await;
        let list = list.map_err(|e| Error::Tenant(session::Error::ListManaged(Box::new(e))))?;
        let taken = budget.take_items("Services", list.items.len());
        taken.map_err(|e| Error::Tenant(e.into()))?;
        let each: Vec<_> = list
            .items
            .into_iter()
            .map(|s| one(ctx, client, s))
            .collect();
        let all = stream::iter(each).buffer_unordered(PARALLEL_WRITES);
        all.try_collect::<()>().await?;
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}

async fn one(ctx: &Context, client: &Client, mut service: DynamicObject) -> Result<(), Error> {
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    let services = untyped::of(kinds::SERVICE, client, Some(&namespace));
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    for _ in 0..MOST {
        let live = serde_json::to_value(&service).unwrap_or_default();
        let Some(next) = release(&live) else { break };
        ctx.leadership.ensure().map_err(Error::Fence)?;
        let written = match next {
            Release::Status(patch) => {
                let patch = Patch::Merge(patch);
                services.patch_status(&name, &params, &patch).await
            }
            Release::Finalizers(patch) => {
                services.patch(&name, &params, &Patch::Merge(patch)).await
            }
        };
        service = match written {
            Ok(service) => service,
            // Gone: that is fine too.
            Err(kube::Error::Api(status)) if status.code == 404 => break,
            Err(e) => return Err(Error::Tenant(session::Error::ReleaseService(Box::new(e)))),
        };
    }
    Ok(())
}
