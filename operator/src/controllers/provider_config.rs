//! Reconciles ProviderConfigs: what Machines need is kept → the cloud is asked whether it lets us in → the sweep → plan →
//! one write of the status.
//!
//! Invariant: nothing of the credentials is in a status, an Event or a log; what nobody has any more is looked for only
//! where the cloud let us in and the account is the one that was recorded; where nothing changed nothing is written.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::{Machine, ProviderConfig};
use jiff::Timestamp;
use kit::events::Notice;
use kit::panics::Panicked;
use kit_client::errors::{Class, Classify};
use kube::api::{ListParams, PartialObjectMeta};
use kube::runtime::controller::Action as Requeue;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Client, Resource as _, ResourceExt};
use providers::Doubt;

pub mod gaps;
pub mod keeping;
pub mod plan;

use self::plan::{Observed, plan};
use crate::clouds::Swept;
use crate::context::Context;
use crate::controllers::status_only;
use crate::node_templates;
use crate::state;

/// Machines of one page.
const PAGE: u32 = 500;

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What Machines need could not be kept, or let go of.
    #[error(transparent)]
    Keeping(#[from] keeping::Error),
    /// The status could not be written.
    #[error(transparent)]
    Status(#[from] status_only::Error),
    /// It panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Keeping(source) => source.class(),
            Self::Status(source) => source.class(),
            Self::Panicked(panicked) => panicked.class(),
        }
    }
}

/// One reconcile, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(config: Arc<ProviderConfig>, ctx: Arc<Context>) -> Result<Requeue, Error> {
    let (key, state) = (state::key_of(&*config), &ctx.config_state);
    let work = step(&ctx, &config);
    let again = state.measure(&ctx.progress, &key, work).await?;
    Ok(state.succeeded(&key, again))
}

async fn step(ctx: &Context, config: &ProviderConfig) -> Result<Option<Duration>, Error> {
    // Before anything is asked of a cloud, which may not answer.
    let kept = Box::pin(keeping::run(ctx, config)).await?;
    if config.metadata.deletion_timestamp.is_some() {
        // Let go of, it is gone, or about to be. The last of its Machines wakes it.
        let status = plan::going(config, &kept.in_use, Timestamp::now());
        if kept.is_kept && config.status.as_ref() != Some(&status) {
            status_only::write(ctx, config, &status).await?;
        }
        return Ok(kept.is_kept.then_some(plan::GOING));
    }
    // Before the Secret is read, so that no change of it is missed.
    ctx.credentials.ensure(config);
    let checked = ctx.clouds.check(config).await;
    let gaps = gaps::known(config, ctx.leadership.gap());
    let doubts = gaps::doubts(config, &gaps);
    let swept = match &checked {
        Ok(checked) if plan::may_sweep(config, checked) => sweep(ctx, config, &doubts).await?,
        _ => None,
    };
    if checked.is_ok() {
        wake_pools(ctx, config);
    }
    let budget = ctx.cloud_limits.budget(&ctx.stores, &ctx.clouds, config);
    let observed = Observed {
        checked: &checked,
        budget: budget.as_ref(),
        swept: swept.as_ref(),
        gaps: &gaps,
        in_use: &kept.in_use,
    };
    let plan = plan(config, &observed, Timestamp::now());
    if config.status.as_ref() != Some(&plan.status) {
        status_only::write(ctx, config, &plan.status).await?;
        if let Some((reason, message)) = plan.event {
            let notice = Notice::warning(reason, message);
            let regarding = config.object_ref(&());
            ctx.config_state.events.publish(&regarding, &notice).await;
        }
    }
    Ok(Some(plan.again))
}

/// Has pools looked at that may say by now what their nodes offer: what there is to be had was read, or has changed.
fn wake_pools(ctx: &Context, config: &ProviderConfig) {
    let name = config.name_any();
    for pool in ctx.stores.pools.state() {
        let places = pool.spec.places();
        let mut names = places.iter().map(|place| place.provider.config_name());
        if pool.namespace() == config.namespace()
            && names.any(|named| named == Some(name.as_str()))
            && node_templates::is_news(&pool, &node_templates::known(&ctx.providers, &pool))
        {
            // Ends with the controllers.
            let _ = ctx.triggers.changed_pools.send(ObjectRef::from_obj(&*pool));
        }
    }
}

/// None where nobody knows what is left.
async fn sweep(
    ctx: &Context,
    config: &ProviderConfig,
    doubts: &[Doubt],
) -> Result<Option<Swept>, Error> {
    // What is deleted in a cloud is a write, too.
    let ensured = ctx.leadership.ensure();
    ensured.map_err(status_only::Error::Fence)?;
    let machines = Box::pin(machines(&ctx.client));
    match ctx.clouds.sweep(config, doubts, machines).await {
        Ok(swept) => Ok(Some(swept)),
        Err(error) => {
            tracing::warn!(
                config.name = config.name_any(),
                config.namespace = config.namespace().unwrap_or_default(),
                error = kit_client::errors::chain(&error),
                "could not look for what is left of Machines that are gone"
            );
            Ok(None)
        }
    }
}

/// UIDs of all Machines of the management cluster, read live: what a store does not show yet is nobody's leak.
async fn machines(client: &Client) -> Result<BTreeSet<String>, providers::Error> {
    let all = Api::<PartialObjectMeta<Machine>>::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut uids = BTreeSet::new();
    loop {
        let page = all.list_metadata(&params).await;
        let page = page.map_err(|source| providers::Error::Request {
            verb: "list",
            object: "Machines".to_owned(),
            source: Box::new(source),
        })?;
        uids.extend(
            page.items
                .iter()
                .filter_map(|machine| machine.metadata.uid.clone()),
        );
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(uids),
        }
    }
}

/// When to try again after a failure: the class decides.
pub fn error_policy(config: Arc<ProviderConfig>, error: &Error, ctx: Arc<Context>) -> Requeue {
    let class = error.class();
    let key = state::key_of(&*config);
    tracing::warn!(
        config.name = config.name_any(),
        config.namespace = config.namespace().unwrap_or_default(),
        error.class = class.label(),
        error = kit_client::errors::chain(error),
        "reconcile of ProviderConfig {key} failed"
    );
    Requeue::requeue(ctx.config_state.retry(&key, class))
}
