//! Reconciles BackupTargets: observe (the Jobs that check it) → plan → apply.
//!
//! Invariant: the operator reads none of the Secrets that a target names: the Job has them, in the operator's own
//! namespace, and what it says is the pod's last word, cut to a length. Where nothing changed nothing is written.

use std::sync::Arc;
use std::time::Duration;

use api::BackupTarget;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kit::lease::NotLeader;
use kit::panics::Panicked;
use kit_client::errors::{Class, Classify};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::runtime::controller::Action as Requeue;
use kube::{Api, ResourceExt};
use tenant_cp::backup::check_job;

pub mod observe;
pub mod plan;
#[cfg(test)]
mod tests;

use self::plan::{Doomed, Observed, Plan, plan};
use crate::context::Context;
use crate::{state, status};

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another replica leads.
    #[error("BackupTargets are another replica's work now")]
    Fence(#[source] NotLeader),
    /// The Jobs or their pods could not be listed.
    #[error("list what checks the BackupTarget")]
    Observe(#[source] Box<kube::Error>),
    /// The Job is not one, which is a bug.
    #[error("make the Job that checks the BackupTarget")]
    Job(#[source] serde_json::Error),
    /// The API refused the Job, or its end.
    #[error("write the Job that checks the BackupTarget")]
    Apply(#[source] Box<kube::Error>),
    /// The API refused the status, or did not answer.
    #[error("write the status of the BackupTarget")]
    Write(#[source] kit_client::write::Error),
    /// It panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Panicked(panicked) => panicked.class(),
            // Whoever leads now does it.
            Self::Fence(_) => Class::Transient,
            Self::Job(_) => Class::Bug,
            Self::Observe(source) | Self::Apply(source) => source.class(),
            Self::Write(source) => source.class(),
        }
    }
}

/// One reconcile, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(target: Arc<BackupTarget>, ctx: Arc<Context>) -> Result<Requeue, Error> {
    let (key, state) = (state::key_of(&*target), &ctx.target_state);
    let work = step(&ctx, &target);
    let again = state.measure(&ctx.progress, &key, work).await?;
    Ok(state.succeeded(&key, again))
}

async fn step(ctx: &Context, target: &BackupTarget) -> Result<Option<Duration>, Error> {
    let job = check_job::job(target, &ctx.settings);
    let jobs = jobs(ctx);
    let observed = Observed {
        checks: observe::checks(&ctx.client, &ctx.settings.operator_namespace, target)
            .await
            .map_err(|error| Error::Observe(Box::new(error)))?,
        wanted: job.name.clone(),
    };
    let Plan {
        status,
        make,
        delete,
        again,
    } = plan(target, &observed, Timestamp::now());
    let is_said = target.status.as_ref() == Some(&status);
    if !is_said || make || !delete.is_empty() {
        ctx.leadership.ensure().map_err(Error::Fence)?;
    }
    // First: what is said of a check must not go with its Job.
    if !is_said {
        let written = status::write_status(&ctx.client, target, &status).await;
        written.map_err(Error::Write)?;
    }
    for doomed in &delete {
        end(&jobs, doomed).await?;
    }
    if make {
        let job: Job = serde_json::from_value(job.value).map_err(Error::Job)?;
        match jobs.create(&PostParams::default(), &job).await {
            Ok(_) => {}
            // The answer was lost, or the one before is still going: its end wakes this.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(Error::Apply(Box::new(error))),
        }
    }
    Ok(again.and_then(|again| Duration::try_from(again).ok()))
}

/// Ends a Job with its pod; that very one.
async fn end(jobs: &Api<Job>, doomed: &Doomed) -> Result<(), Error> {
    let params = DeleteParams::background().preconditions(Preconditions {
        uid: Some(doomed.uid.clone()),
        resource_version: Some(doomed.resource_version.clone()),
    });
    match jobs.delete(&doomed.name, &params).await {
        Ok(_) => Ok(()),
        // It is gone, or another one by now, which is looked at again.
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        Err(error) => Err(Error::Apply(Box::new(error))),
    }
}

fn jobs(ctx: &Context) -> Api<Job> {
    Api::namespaced(ctx.client.clone(), &ctx.settings.operator_namespace)
}

/// When to try again after a failure: the class decides.
pub fn error_policy(target: Arc<BackupTarget>, error: &Error, ctx: Arc<Context>) -> Requeue {
    let class = error.class();
    let key = state::key_of(&*target);
    tracing::warn!(
        target.name = target.name_any(),
        error.class = class.label(),
        error = kit_client::errors::chain(error),
        "reconcile of BackupTarget {key} failed"
    );
    Requeue::requeue(ctx.target_state.retry(&key, class))
}
