//! Controller of priorities: tells the Cluster Autoscaler which pools grow first, in the ConfigMap of
//! its priority expander.
//!
//! Invariant: every group is in it, because the expander passes over those that are not when any
//! other is; the text is the same for the same pools, and written only when it is another.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use api::names::PRIORITY_EXPANDER;
use k8s_openapi::api::core::v1::ConfigMap;
use kit_client::errors::Classify;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::cache::state::State;
use crate::context::Context;
use crate::names::FIELD_MANAGER;
use crate::node_group;

/// Where the ConfigMap is, in the tenant cluster.
const NAMESPACE: &str = "kube-system";
/// Its key.
const KEY: &str = "priorities";
/// Between two times that what is there is read: people may write it.
const EVERY: Duration = Duration::from_secs(60);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// The text: by priority, patterns of group ids, whatever the shape of the pool.
#[must_use]
pub fn text(state: &State) -> String {
    let mut by_priority: BTreeMap<i32, Vec<&str>> = BTreeMap::new();
    for group in node_group::groups(state) {
        let pools = by_priority.entry(group.autoscaling.priority).or_default();
        pools.push(&group.pool.name);
    }
    if by_priority.is_empty() {
        // An empty text is an error to the expander, an empty map is not.
        return "{}\n".to_owned();
    }
    let mut text = String::new();
    for (priority, pools) in by_priority {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{priority}:");
        for pool in pools {
            let _ = writeln!(text, "- '^{pool}\\.[0-9a-f]{{8}}$'");
        }
    }
    text
}

/// Whether the text has to be written: another one stands there, or none.
#[must_use]
pub fn due(live: &ConfigMap, wanted: &str) -> bool {
    let data = live.data.as_ref();
    data.and_then(|data| data.get(KEY))
        .is_none_or(|text| text != wanted)
}

/// Keeps the ConfigMap right. Ends never.
pub async fn run(ctx: Arc<Context>) {
    let maps: Api<ConfigMap> = Api::namespaced(ctx.tenant.clone(), NAMESPACE);
    let mut changes = ctx.cache.changes();
    ctx.cache.listed().await;
    loop {
        changes.mark_unchanged();
        let wanted = ctx.cache.read(text);
        let run = ctx.metrics.priorities.begin(Duration::ZERO);
        let written = write(&maps, &wanted).await;
        run.finish(written.as_ref().err().map(Classify::class));
        if let Err(error) = written {
            let error = kit_client::errors::chain(&error);
            tracing::warn!(error, "could not write the priorities of pools");
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let another = async {
            while ctx.cache.read(text) == wanted {
                // The sender is the cache's, so waiting cannot fail.
                let _ = changes.changed().await;
            }
        };
        let _ = tokio::time::timeout(EVERY, another).await;
    }
}

async fn write(maps: &Api<ConfigMap>, wanted: &str) -> Result<(), kube::Error> {
    let live = maps.get(PRIORITY_EXPANDER).await?;
    if !due(&live, wanted) {
        return Ok(());
    }
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": PRIORITY_EXPANDER, "namespace": NAMESPACE },
        "data": { KEY: wanted },
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    maps.patch(PRIORITY_EXPANDER, &params, &Patch::Apply(map))
        .await?;
    tracing::info!("wrote the priorities of pools");
    Ok(())
}

#[cfg(test)]
mod tests;
