//! Writes into the ConfigMap of sleepers at which port the activator waits for a tenant cluster.
//!
//! Invariant: each write carries the version that it was decided on, so of two that want the same port one decides anew.

use api::names::SLEEPERS;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::FIELD_MANAGER;
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::hibernation::place::Entry;

pub(super) async fn write(
    ctx: &Context,
    Entry { port, sleeper }: &Entry,
    observed: &mut Observed,
) -> Result<(), kube::Error> {
    let seen = observed.hibernation.as_mut();
    let Some(place) = seen.and_then(|seen| seen.place.as_mut()) else {
        return Ok(());
    };
    let text = sleeper.as_ref().map(serde_json::to_string).transpose();
    let text = text.map_err(kube::Error::SerdeError)?;
    let api = Api::<ConfigMap>::namespaced(ctx.client.clone(), &ctx.settings.operator_namespace);
    let written = match &place.version {
        Some(version) => {
            let patch = json!({
                "metadata": { "resourceVersion": version },
                "data": { port.to_string(): text },
            });
            let params = PatchParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            api.patch(SLEEPERS, &params, &Patch::Merge(patch)).await
        }
        None => {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(SLEEPERS.to_owned());
            map.data = text.map(|text| [(port.to_string(), text)].into());
            let params = PostParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PostParams::default()
            };
            api.create(&params, &map).await
        }
    };
    let written = written?;
    place.version = written.metadata.resource_version;
    place.data = written.data.unwrap_or_default();
    Ok(())
}
