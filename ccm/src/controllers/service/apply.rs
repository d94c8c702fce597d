//! Carries one step of a Service out.
//!
//! Invariant: what an API answered is believed at once, so the next plan does not depend on how late
//! a watch is.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ObjectReference, Service};
use kit::events::{Notice, Published};
use kit_client::write::Deleted;
use kube::ResourceExt;

use super::observe::{make_sure, read_mirror, saw_mirror};
use super::plan::mirror::accepted;
use super::plan::types::{Action, Observed};
use crate::cache::endpoint_slices::Slice;
use crate::cache::events::Write;
use crate::cache::triggers::Key;
use crate::context::Context;
use crate::error::Error;

/// When what nobody could be told is told again.
const TELL_AGAIN: Duration = Duration::from_secs(20);

/// Does it, and brings `observed` up to what was answered. True when the rest of the plan has to be
/// made anew. What is `urgent` of slices does not wait behind other requests.
///
/// # Errors
/// [`Error`].
pub async fn apply(
    ctx: &Context,
    action: &Action,
    observed: &mut Observed,
    urgent: bool,
) -> Result<bool, Error> {
    let client = &ctx.client;
    match action {
        Action::MakeSure => make_sure(ctx, observed).await.map(|()| true),
        Action::PatchService(patch) => {
            if let Some((namespace, name)) = place(observed) {
                let patched = client.patch_service(&namespace, &name, patch).await?;
                saw_service(ctx, observed, patched);
            }
            Ok(true)
        }
        Action::PatchStatus(patch) => {
            if let Some((namespace, name)) = place(observed) {
                let patched = client
                    .patch_service_status(&namespace, &name, patch)
                    .await?;
                saw_service(ctx, observed, patched);
            }
            Ok(false)
        }
        Action::ApplyMirror(object) => {
            let answer = client.apply_mirror(object).await?;
            observed.accepted = accepted(object, &answer);
            ctx.cache.accept(&observed.uid, observed.accepted.clone());
            saw_mirror(ctx, observed, answer);
            Ok(true)
        }
        Action::PatchMirror { name, patch } => {
            saw_mirror(ctx, observed, client.patch_mirror(name, patch).await?);
            Ok(true)
        }
        Action::DeleteMirror { name, uid } => {
            if client.delete_mirror(name, uid).await? == Deleted::NotFound {
                observed.mirrors.retain(|m| m.uid().as_ref() != Some(uid));
                ctx.observe_write(Write::MirrorGone(uid.clone()));
            } else {
                // Whether it is gone already, or held by whoever allocated its address.
                read_mirror(ctx, observed, name).await?;
            }
            tracing::info!(mirror.name = %name, "deleted mirror {name}");
            Ok(true)
        }
        Action::ApplySlice(object) => {
            let slice = Slice::from(&client.apply_slice(object, urgent).await?);
            observed.slices.retain(|s| s.name != slice.name);
            ctx.observe_write(Write::Slice(slice.clone()));
            observed.slices.push(slice);
            Ok(false)
        }
        Action::DeleteSlice { name, uid } => {
            client.delete_slice(name, uid, urgent).await?;
            observed.slices.retain(|s| s.uid != *uid);
            ctx.observe_write(Write::SliceGone(name.clone()));
            Ok(false)
        }
    }
}

fn place(observed: &Observed) -> Option<(String, String)> {
    let service = observed.service.as_ref()?;
    Some((service.namespace().unwrap_or_default(), service.name_any()))
}

/// The tenant's Service as its API answered it. Another one of the same name is not ours now.
fn saw_service(ctx: &Context, observed: &mut Observed, patched: Option<Service>) {
    let same = patched.filter(|service| service.uid().as_deref() == Some(&observed.uid));
    observed.service = same.map(|mut patched| {
        patched.metadata.managed_fields = None;
        let patched = Arc::new(patched);
        ctx.observe_write(Write::Service(Arc::clone(&patched)));
        patched
    });
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

/// Publishes Events about a Service. Gives whether its people know of all of them then.
pub async fn publish(ctx: &Context, observed: &Observed, notices: &[Notice]) -> bool {
    let Some(service) = &observed.service else {
        return true;
    };
    let about = reference(service);
    let mut known = true;
    for notice in notices {
        known &= ctx.events.publish(&about, notice).await != Published::Failed;
    }
    known
}

/// Publishes what is wrong with a Service, once for as long as it does not change. Nobody looks at a Service that waits,
/// so where its people could not be told it is told again.
pub async fn complain(ctx: &Context, observed: &Observed, complaints: &[Notice]) {
    let uid = &observed.uid;
    if ctx.cache.are_news(uid, complaints) && !publish(ctx, observed, complaints).await {
        ctx.cache.was_not_told(uid);
        ctx.queue.add_after(Key::Service(uid.clone()), TELL_AGAIN);
    }
}
