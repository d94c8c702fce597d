//! Makes an object that is asked for once, beside the TenantCluster: its name says what for.
//!
//! Invariant: one that is there is never changed.

use kit_client::untyped;
use kit_objects::kinds::Kind;
use kit_objects::object::Object;
use kube::api::PostParams;
use serde::de::DeserializeOwned;

use crate::FIELD_MANAGER;
use crate::context::Context;

/// Makes it, and gives it back as it is, or, where one of its name was made before, as it was asked for.
pub(super) async fn create<T: DeserializeOwned>(
    ctx: &Context,
    kind: Kind,
    object: &Object,
) -> kube::Result<T> {
    let read = |value| serde_json::from_value(value).map_err(kube::Error::SerdeError);
    let api = untyped::of(kind, &ctx.client, object.namespace.as_deref());
    let asked = serde_json::from_value(object.value.clone()).map_err(kube::Error::SerdeError)?;
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let made = match api.create(&params, &asked).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(object.value.clone()),
        made => made.and_then(|made| serde_json::to_value(made).map_err(kube::Error::SerdeError)),
    };
    made.and_then(read)
}
