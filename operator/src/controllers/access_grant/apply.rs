//! Carries the plan of an AccessGrant out, one step after the other.
//!
//! Invariant: every write is fenced by the Lease; the first error ends it, and what was done until then is found by the next
//! look. The certificate is the last that is written, so it is told to nobody before its rights are there. A key that is made
//! here goes into the Secret and nowhere else.

use api::{AccessGrant, AccessGrantStatus, names};
use jiff::Timestamp;
use kit_client::write::{self, Deletion};
use kit_objects::kinds;
use kube::api::{Patch, PatchParams, PostParams, PropagationPolicy};
use kube::core::DynamicObject;
use kube::{Api, Resource as _, ResourceExt};
use pki::KeyPair;
use serde_json::json;

use super::error::Error;
use super::observe::{Reached, Seen};
use super::plan::{Action, Plan};
use super::secret::{self, Found, group};
use super::token::{drop_account, issue_token, subjects};
use crate::FIELD_MANAGER;
use crate::context::Context;
use crate::status;

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
            Action::IssueToken { seconds } => {
                let token = issue_token(grant, seen.inside.as_ref(), *seconds).await?;
                status.sealed_token = Some(token.sealed);
                status.token_not_after = Some(token.until.to_string());
            }
            Action::DropAccount => drop_account(grant, seen.inside.as_ref()).await?,
            Action::Sign { until } => {
                let request = grant.spec.request.as_deref().unwrap_or_default();
                status.certificate = Some(sign(grant, seen, request, (*until, now))?);
            }
            Action::IssueSecret { until } => {
                let (request, key) = pki::issue::request("grant").map_err(Error::Make)?;
                let certificate = sign(grant, seen, &request, (*until, now))?;
                status.certificate = Some(certificate.clone());
                let pair = KeyPair { certificate, key };
                write_secret(ctx, grant, seen, Some(&pair)).await?;
            }
            Action::CorrectSecret => {
                let Found::Own(own) = &seen.secret else {
                    return Err(Error::Unreached);
                };
                write_secret(ctx, grant, seen, own.pair.as_ref()).await?;
            }
            Action::EmptySecret => empty_secret(ctx, grant, seen).await?,
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
    request: &str,
    (until, now): (Timestamp, Timestamp),
) -> Result<String, Error> {
    let signer = seen.signer.as_ref().ok_or(Error::Unreached)?;
    let read = pki::request::read(request.as_bytes()).ok_or(Error::Unreached)?;
    let want = secret::want(grant);
    pki::issue::sign(&want, &read.public_key, signer, until, now).map_err(Error::Make)
}

/// Takes the kubeconfig out. One that is immutable, or that nobody lets us write any more, stays until it goes with its owner:
/// it must not hold up the end of the rights.
async fn empty_secret(ctx: &Context, grant: &AccessGrant, seen: &Seen) -> Result<(), Error> {
    match write_secret(ctx, grant, seen, None).await {
        Err(Error::Secret(error)) if is_refusal(&error) => {
            tracing::warn!(
                grant.name = grant.name_any(),
                grant.namespace = grant.namespace().unwrap_or_default(),
                error = kit_client::errors::chain(&error),
                "the Secret of an AccessGrant cannot be emptied"
            );
            Ok(())
        }
        other => other,
    }
}

fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if [403, 404, 422].contains(&status.code))
}

/// Writes a kubeconfig with this certificate and key, or none, into the grant's Secret. One that somebody else made or
/// changed meanwhile makes it a conflict.
async fn write_secret(
    ctx: &Context,
    grant: &AccessGrant,
    seen: &Seen,
    pair: Option<&KeyPair>,
) -> Result<(), Error> {
    let name = grant.spec.secret_name.as_deref().unwrap_or_default();
    let namespace = grant.namespace().unwrap_or_default();
    let value = match pair {
        Some(pair) => {
            let site = seen.site().ok_or(Error::Unreached)?;
            secret::kubeconfig(grant, &site, pair)
        }
        None => String::new(),
    };
    let secrets = kit_client::untyped::of(kinds::SECRET, &ctx.client, Some(&namespace));
    let manager = Some(FIELD_MANAGER.to_owned());
    let written = match &seen.secret {
        Found::Own(own) => {
            let params = PatchParams {
                field_manager: manager,
                ..PatchParams::default()
            };
            let change = Patch::Merge(secret::change(own, value));
            secrets.patch(name, &params, &change).await
        }
        Found::Absent => {
            let cluster = seen.observed.cluster.as_ref().there();
            let cluster = cluster.and_then(|cluster| cluster.uid());
            let cluster = cluster.ok_or(Error::Unreached)?;
            let object = secret::object(grant, &cluster, value);
            let object: DynamicObject = serde_json::from_value(object)
                .map_err(|error| Error::Secret(Box::new(kube::Error::SerdeError(error))))?;
            let params = PostParams {
                field_manager: manager,
                ..PostParams::default()
            };
            secrets.create(&params, &object).await
        }
        Found::NotLooked | Found::Foreign(_) => return Err(Error::Unreached),
    };
    let written = written.map(drop);
    written.map_err(|source| Error::Secret(Box::new(source)))
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
        "subjects": subjects(grant),
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
