//! Observation of one Service: what the watches told, and, where the plan asks for it, what the
//! management API says of a mirror when it is asked by name.
//!
//! Invariant: nothing is decided here; what an API answered is in `observed` and in the cache.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

use super::plan::types::Observed;
use crate::cache::events::Write;
use crate::cache::services::is_mirror_of;
use crate::context::Context;
use crate::error::Error;
use crate::names;

/// Everything about one Service; its load balancer has a place from now on, if there is one.
#[must_use]
pub fn observe(ctx: &Context, uid: &str) -> Observed {
    let (over, room) = ctx.cache.admit(uid);
    ctx.on_change(room.as_slice());
    ctx.cache.read(|state| {
        let service = state.service(uid).cloned();
        let local = service.as_ref().map(|s| state.local_endpoints(s));
        Observed {
            uid: uid.to_owned(),
            service,
            mirrors: state.mirrors_of(uid),
            slices: state.slices_of(uid),
            certain: false,
            targets: state.targets(),
            unmapped_nodes: state.unmapped_nodes(),
            local: local.unwrap_or_default(),
            accepted: state.accepted(uid).cloned(),
            over,
            refused: Vec::new(),
        }
    })
}

/// Asks the management API for the mirror that was written without an answer, if it was: before that is known,
/// its place in the limits is nobody else's.
///
/// # Errors
/// [`Error`]; it is asked again.
pub async fn settle(ctx: &Context, uid: &str) -> Result<(), Error> {
    if ctx.cache.read(|state| state.is_doubted(uid)) {
        make_sure(ctx, &mut observe(ctx, uid)).await?;
        ctx.cache.settle(uid);
    }
    Ok(())
}

/// Asks the management API whether there really is no mirror.
///
/// # Errors
/// [`Error`].
pub async fn make_sure(ctx: &Context, observed: &mut Observed) -> Result<(), Error> {
    let name = names::mirror(&ctx.settings.cluster_uid, &observed.uid);
    read_mirror(ctx, observed, &name).await?;
    if ctx.settings.adopt {
        read_mirror(ctx, observed, &names::legacy_mirror(&observed.uid)).await?;
    }
    observed.certain = observed.mirrors.is_empty();
    Ok(())
}

/// Asks the management API for the mirror of this name.
///
/// # Errors
/// [`Error`].
pub async fn read_mirror(ctx: &Context, observed: &mut Observed, name: &str) -> Result<(), Error> {
    let found = ctx.client.mirror(name).await?;
    match found.filter(|s| is_mirror_of(s, &observed.uid, &ctx.settings)) {
        Some(mirror) => saw_mirror(ctx, observed, mirror),
        None => {
            let named = |m: &Arc<Service>| m.name_any() == name;
            for gone in observed.mirrors.iter().filter(|m| named(m)) {
                let uid = gone.uid().unwrap_or_default();
                ctx.observe_write(Write::MirrorGone(uid));
            }
            observed.mirrors.retain(|m| !named(m));
        }
    }
    Ok(())
}

/// A mirror as an API answered it.
pub fn saw_mirror(ctx: &Context, observed: &mut Observed, mut mirror: Service) {
    mirror.metadata.managed_fields = None;
    let mirror = Arc::new(mirror);
    observed
        .mirrors
        .retain(|m| m.name_any() != mirror.name_any());
    observed.mirrors.push(Arc::clone(&mirror));
    observed.certain = false;
    ctx.observe_write(Write::Mirror(mirror));
}
