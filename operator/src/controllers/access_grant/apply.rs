//! Carries the plan of an AccessGrant out, one step after the other.
//!
//! Invariant: every write is fenced by the Lease; the first error ends it, and what was done until then is found by the next
//! look. The certificate is the last that is written, so it is told to nobody before its rights are there.

use api::access_grant::USER_PREFIX;
use api::{AccessGrant, AccessGrantStatus, names};
use jiff::Timestamp;
use kit_client::write::{self, Deletion};
use kit_objects::kinds;
use kube::api::{Patch, PatchParams, PostParams, PropagationPolicy};
use kube::core::DynamicObject;
use kube::{Api, Resource as _, ResourceExt};
use pki::Want;
use serde_json::json;
use tenant_cp::names::USERS_CA;

use super::error::Error;
use super::observe::{Reached, Seen, group};
use super::plan::{Action, Plan};
use crate::FIELD_MANAGER;
use crate::context::Context;
use crate::status;

/// Longest life of a certificate by itself, in hours; the plan's end is sooner.
const HOURS: u32 = 48;

/// Carries it out.
///
/// # Errors
/// The first one.
pub(super) async fn apply(
    ctx: &Context,
    grant: &AccessGrant,
    seen: &Seen,
    plan: &Plan,
    now: Timestamp,
) -> Result<(), Error> {
    let mut status = plan.status.clone();
    let mut is_gone = false;
    for action in &plan.actions {
        ctx.leadership.ensure().map_err(Error::Fence)?;
        match action {
            Action::AddFinalizer => write_finalizers(ctx, grant, true).await?,
            Action::RemoveFinalizer => {
                write_finalizers(ctx, grant, false).await?;
                is_gone = grant.metadata.deletion_timestamp.is_some();
            }
            Action::Bind { role } => bind(grant, seen.inside.as_ref(), role).await?,
            Action::Unbind { uid } => unbind(grant, seen.inside.as_ref(), uid).await?,
            Action::Sign { until } => {
                status.certificate = Some(sign(grant, seen, *until, now)?);
            }
            Action::DeleteSelf => {
                delete(ctx, grant).await?;
                is_gone = true;
            }
        }
    }
    if !is_gone {
        report(ctx, grant, &status).await?;
    }
    if let Some(notice) = &plan.notice {
        let events = &ctx.access_grant_state.events;
        events.publish(&grant.object_ref(&()), notice).await;
    }
    Ok(())
}

async fn report(
    ctx: &Context,
    grant: &AccessGrant,
    status: &AccessGrantStatus,
) -> Result<(), Error> {
    if grant.status.as_ref() == Some(status) {
        return Ok(());
    }
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let written = status::write_status(&ctx.client, grant, status).await;
    written.map(drop).map_err(Error::Write)
}

/// A certificate for the key of the request, and for names of ours.
fn sign(
    grant: &AccessGrant,
    seen: &Seen,
    until: Timestamp,
    now: Timestamp,
) -> Result<String, Error> {
    let signer = seen.signer.as_ref().ok_or(Error::Unreached)?;
    let read = pki::request::read(grant.spec.request.as_bytes()).ok_or(Error::Unreached)?;
    let user = format!("{USER_PREFIX}{}", grant.spec.user);
    let mut organizations = vec![group(grant)];
    organizations.extend(grant.spec.groups.iter().cloned());
    let want = Want {
        organizations,
        ..Want::client("grant", USERS_CA, &user, HOURS)
    };
    pki::issue::sign(&want, &read.public_key, signer, until, now).map_err(Error::Make)
}

async fn bind(grant: &AccessGrant, inside: Option<&Reached>, role: &str) -> Result<(), Error> {
    let Reached { client, budget } = inside.ok_or(Error::Unreached)?;
    let group = group(grant);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {
            "name": group,
            "labels": { names::LABEL_ACCESS_GRANT: grant.uid().unwrap_or_default() },
        },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group }],
    });
    let binding: DynamicObject = serde_json::from_value(binding)
        .map_err(|error| Error::Inside(Box::new(kube::Error::SerdeError(error))))?;
    let bindings = kit_client::untyped::of(kinds::CLUSTER_ROLE_BINDING, client, None);
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let made = budget.within(bindings.create(&params, &binding)).await;
    let made = made.map_err(Error::Exceeded)?;
    made.map(drop)
        .map_err(|source| Error::Inside(Box::new(source)))
}

async fn unbind(grant: &AccessGrant, inside: Option<&Reached>, uid: &str) -> Result<(), Error> {
    let Reached { client, budget } = inside.ok_or(Error::Unreached)?;
    let name = group(grant);
    let deletion = Deletion {
        kind: kinds::CLUSTER_ROLE_BINDING,
        namespace: None,
        name: &name,
        uid,
        resource_version: None,
        propagation: PropagationPolicy::Background,
    };
    let deleted = budget.within(write::delete(client, &deletion)).await;
    let deleted = deleted.map_err(Error::Exceeded)?;
    deleted.map(drop).map_err(Error::Write)
}

async fn delete(ctx: &Context, grant: &AccessGrant) -> Result<(), Error> {
    let namespace = grant.namespace().unwrap_or_default();
    let deletion = Deletion {
        kind: kinds::ACCESS_GRANT,
        namespace: Some(&namespace),
        name: &grant.name_any(),
        uid: &grant.uid().unwrap_or_default(),
        resource_version: None,
        propagation: PropagationPolicy::Background,
    };
    let deleted = write::delete(&ctx.client, &deletion).await;
    deleted.map(drop).map_err(Error::Write)
}

async fn write_finalizers(ctx: &Context, grant: &AccessGrant, has: bool) -> Result<(), Error> {
    let mut finalizers = grant.finalizers().to_vec();
    finalizers.retain(|finalizer| finalizer != names::FINALIZER_ACCESS_GRANT);
    if has {
        finalizers.push(names::FINALIZER_ACCESS_GRANT.to_owned());
    }
    // Somebody else's change of the list meanwhile makes it a conflict.
    let patch = json!({ "metadata": {
        "finalizers": finalizers, "resourceVersion": grant.resource_version(),
    }});
    let namespace = grant.namespace().unwrap_or_default();
    let grants = Api::<AccessGrant>::namespaced(ctx.client.clone(), &namespace);
    let (name, params) = (grant.name_any(), PatchParams::default());
    match grants.patch(&name, &params, &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        // Gone: that is what taking the finalizer off is for.
        Err(kube::Error::Api(status)) if status.code == 404 && !has => Ok(()),
        Err(error) => Err(Error::Own(Box::new(error))),
    }
}
