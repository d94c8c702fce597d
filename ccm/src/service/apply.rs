//! Carries one step of a Service out.
//!
//! Invariant: every write is fenced by the Lease; deletes carry UIDs; what an API answered is
//! believed at once, so the next plan does not depend on how late a watch is.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kit::apply::{Deleted, Deletion, Kind, kinds};
use kit::events::Notice;
use kube::api::{Patch, PatchParams, PropagationPolicy};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::plan::{Action, Observed, Slice};
use crate::error::Error;
use crate::run::Context;
use crate::{FIELD_MANAGER, names};

/// Does it, and brings `observed` up to what was answered. True when the rest of the plan has to be
/// made anew.
///
/// # Errors
/// [`Error`].
pub async fn apply(ctx: &Context, action: &Action, observed: &mut Observed) -> Result<bool, Error> {
    if !matches!(action, Action::MakeSure) {
        ctx.leadership.ensure()?;
    }
    let namespace = &ctx.settings.namespace;
    match action {
        Action::MakeSure => make_sure(ctx, observed).await.map(|()| true),
        Action::PatchService(patch) => {
            patch_service(ctx, observed, patch, false).await?;
            Ok(true)
        }
        Action::PatchStatus(patch) => {
            patch_service(ctx, observed, patch, true).await?;
            Ok(false)
        }
        Action::ApplyMirror(object) => {
            let applied = write(ctx, object).await?;
            saw_mirror(ctx, observed, decode(applied)?);
            Ok(true)
        }
        Action::DropSelector { name, patch } => {
            let services = Api::<Service>::namespaced(ctx.management.clone(), namespace);
            let params = PatchParams::default();
            let patched = services.patch(name, &params, &Patch::Merge(patch)).await;
            let patched = patched.map_err(|e| Error::request("change", "Service", name, e))?;
            saw_mirror(ctx, observed, patched);
            Ok(true)
        }
        Action::DeleteMirror { name, uid } => {
            if delete(ctx, kinds::SERVICE, name, uid).await? == Deleted::NotFound {
                observed.mirrors.retain(|m| m.uid().as_ref() != Some(uid));
                ctx.world.lose_mirror(uid);
            } else {
                // Whether it is gone already, or held by whoever allocated its address.
                look_for(ctx, observed, name).await?;
            }
            tracing::info!(mirror.name = %name, "deleted mirror {name}");
            Ok(true)
        }
        Action::ApplySlice(object) => {
            let slice: EndpointSlice = decode(write(ctx, object).await?)?;
            let slice = Slice::from(&slice);
            observed.slices.retain(|s| s.name != slice.name);
            ctx.world.learn_slice(&slice);
            observed.slices.push(slice);
            Ok(false)
        }
        Action::DeleteSlice { name, uid } => {
            delete(ctx, kinds::ENDPOINT_SLICE, name, uid).await?;
            observed.slices.retain(|s| s.uid != *uid);
            ctx.world.lose_slice(name);
            Ok(false)
        }
    }
}

async fn write(ctx: &Context, object: &Value) -> Result<kube::api::DynamicObject, Error> {
    let applied = kit::apply::apply(&ctx.management, object, FIELD_MANAGER, true).await;
    applied.map_err(unwritten)
}

async fn delete(ctx: &Context, kind: Kind, name: &str, uid: &str) -> Result<Deleted, Error> {
    let deletion = Deletion {
        kind,
        namespace: Some(&ctx.settings.namespace),
        name,
        uid,
        resource_version: None,
        propagation: PropagationPolicy::Background,
    };
    let deleted = kit::apply::delete(&ctx.management, &deletion).await;
    deleted.map_err(unwritten)
}

fn unwritten(source: kit::apply::Error) -> Error {
    Error::Write {
        doing: "write to the management cluster",
        source,
    }
}

fn decode<K: DeserializeOwned>(object: kube::api::DynamicObject) -> Result<K, Error> {
    let what = object.metadata.name.clone().unwrap_or_default();
    let value = serde_json::to_value(object);
    let decoded = value.and_then(serde_json::from_value);
    decoded.map_err(|source| Error::Answer { what, source })
}

/// Asks the management API whether there really is no mirror.
async fn make_sure(ctx: &Context, observed: &mut Observed) -> Result<(), Error> {
    let name = names::mirror(&ctx.settings.cluster_uid, &observed.uid);
    look_for(ctx, observed, &name).await?;
    if ctx.settings.adopt {
        look_for(ctx, observed, &names::legacy_mirror(&observed.uid)).await?;
    }
    observed.certain = observed.mirrors.is_empty();
    Ok(())
}

async fn look_for(ctx: &Context, observed: &mut Observed, name: &str) -> Result<(), Error> {
    let services = Api::<Service>::namespaced(ctx.management.clone(), &ctx.settings.namespace);
    let found = services.get_opt(name).await;
    let found = found.map_err(|e| Error::request("look for", "Service", name, e))?;
    match found.filter(|s| ctx.world.is_mirror_of(s, &observed.uid)) {
        Some(mirror) => saw_mirror(ctx, observed, mirror),
        None => {
            let named = |m: &Arc<Service>| m.name_any() == name;
            for gone in observed.mirrors.iter().filter(|m| named(m)) {
                ctx.world.lose_mirror(&gone.uid().unwrap_or_default());
            }
            observed.mirrors.retain(|m| !named(m));
        }
    }
    Ok(())
}

fn saw_mirror(ctx: &Context, observed: &mut Observed, mut mirror: Service) {
    mirror.metadata.managed_fields = None;
    let mirror = Arc::new(mirror);
    observed
        .mirrors
        .retain(|m| m.name_any() != mirror.name_any());
    observed.mirrors.push(Arc::clone(&mirror));
    observed.certain = false;
    ctx.world.learn_mirror(&mirror);
}

async fn patch_service(
    ctx: &Context,
    observed: &mut Observed,
    patch: &Value,
    status: bool,
) -> Result<(), Error> {
    let Some(service) = &observed.service else {
        return Ok(());
    };
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    let services = Api::<Service>::namespaced(ctx.tenant.clone(), &namespace);
    let params = PatchParams::default();
    let patch = Patch::Merge(patch);
    let patched = match status {
        true => services.patch_status(&name, &params, &patch).await,
        false => services.patch(&name, &params, &patch).await,
    };
    match patched {
        // Another one of the same name is not ours to look at now.
        Ok(patched) if patched.uid().as_deref() == Some(&observed.uid) => {
            let mut patched = patched;
            patched.metadata.managed_fields = None;
            let patched = Arc::new(patched);
            ctx.world.learn_service(&patched);
            observed.service = Some(patched);
            Ok(())
        }
        Ok(_) => {
            observed.service = None;
            Ok(())
        }
        Err(kube::Error::Api(answer)) if answer.code == 404 => {
            observed.service = None;
            Ok(())
        }
        Err(source) => Err(Error::request(
            "change",
            "Service",
            &format!("{namespace}/{name}"),
            source,
        )),
    }
}

fn reference(service: &Service) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Service".to_owned()),
        name: service.metadata.name.clone(),
        namespace: service.metadata.namespace.clone(),
        uid: service.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Publishes Events about a Service.
pub async fn tell(ctx: &Context, observed: &Observed, notices: &[Notice]) {
    if let Some(service) = &observed.service {
        let about = reference(service);
        for notice in notices {
            ctx.events.publish(&about, notice).await;
        }
    }
}

/// Tells what is wrong with a Service, once for as long as it does not change.
pub async fn complain(ctx: &Context, observed: &Observed, complaints: &[Notice]) {
    if ctx.world.tells(&observed.uid, complaints) {
        tell(ctx, observed, complaints).await;
    }
}
