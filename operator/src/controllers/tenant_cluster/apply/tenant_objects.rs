//! Writes what differs inside the tenant cluster.
//!
//! Invariant: rights are written, and objects deleted, as administrator; everything else with the
//! operator's ordinary identity. A tenant that takes more than its budget counts as silent.

use std::net::IpAddr;

use jiff::Timestamp;
use kit_objects::object::Object;
use kube::Client;
use tenant_cp::desired::bootstrap::rbac;

use super::deletion::delete;
use super::sessions::{administrator, enter, fell_silent, operator};
use super::{Error, release};
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::{Observed, Seen, Tenant};
use crate::controllers::tenant_cluster::plan::Changes;
use crate::tenant_session::bulkhead::Interrupted;
use crate::tenant_session::{requests, session};

/// Writes what differs inside the tenant cluster, and deletes what is left over there.
pub(super) async fn apply(
    ctx: &Context,
    address: (IpAddr, u16),
    changes: &Changes,
    observed: &mut Observed,
    now: Timestamp,
) -> Result<(), Error> {
    let uid = observed.cluster.identity_uid().to_owned();
    let result = match enter(ctx, observed) {
        Some(pass) => {
            let written = Box::pin(write_all(ctx, address, changes, observed, now));
            pass.within(written).await
        }
        None => Err(Interrupted::Busy),
    };
    if !matches!(result, Ok(Ok(()))) {
        ctx.tenants.suspect(&uid);
    }
    let result = match result {
        Ok(result) => result,
        Err(Interrupted::Exceeded(exceeded)) => Err(Error::Tenant(exceeded.into())),
        Err(Interrupted::Busy) => {
            observed.tenant = Tenant::Postponed;
            return Ok(());
        }
    };
    match result {
        // What was written until then is there; the next look finds what is left.
        Err(Error::Tenant(session::Error::Exceeded(exceeded))) => {
            let message = exceeded.to_string();
            if let Some(session) = operator(ctx, observed, address) {
                fell_silent(ctx, observed, (&session, address), &message).map_err(Error::Tenant)?;
            }
            observed.tenant = Tenant::Silent { message };
            Ok(())
        }
        result => result,
    }
}

async fn write_all(
    ctx: &Context,
    address: (IpAddr, u16),
    changes: &Changes,
    observed: &mut Observed,
    now: Timestamp,
) -> Result<(), Error> {
    let Some(session) = operator(ctx, observed, address) else {
        return Ok(());
    };
    let (mut rights, mut others): (Vec<_>, Vec<_>) =
        changes.apply.iter().partition(|o| rbac::is_privileged(o));
    let powers = !rights.is_empty() || !changes.delete.is_empty();
    if let Some(administrator) =
        administrator(ctx, observed, address, powers, now).map_err(Error::Issue)?
    {
        let client = administrator
            .client(&observed.budget)
            .map_err(Error::Tenant)?;
        apply_all(&client, &mut rights)
            .await
            .map_err(Error::Tenant)?;
        if changes.release {
            release::services(ctx, &client, &observed.budget).await?;
        }
        for target in &changes.delete {
            ctx.leadership.ensure().map_err(Error::Fence)?;
            let deleted = delete(&client, target).await;
            deleted.map_err(|source| Error::Tenant(session::Error::DeleteObject(source)))?;
        }
    }
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let client = session.client(&observed.budget).map_err(Error::Tenant)?;
    apply_all(&client, &mut others)
        .await
        .map_err(Error::Tenant)?;
    if let Tenant::Answers {
        seen: Seen::Objects(live),
        ..
    } = &mut observed.tenant
    {
        live.retain(|key, _| !changes.delete.iter().any(|target| target.key == *key));
        live.extend(
            changes
                .apply
                .iter()
                .map(|object| (object.key(), object.value.clone())),
        );
    }
    Ok(())
}

/// Applies objects; what is left afterwards is what failed.
pub(super) async fn apply_all(
    client: &Client,
    objects: &mut Vec<&Object>,
) -> Result<(), session::Error> {
    match requests::apply_in_order(client, objects).await {
        Ok(()) => objects.clear(),
        Err(left) => {
            *objects = left.objects;
            return Err(left.error);
        }
    }
    Ok(())
}
