//! What a restore does that is no write of an object of ours: Leases of before are deleted from etcd, and load balancers of
//! the tenant namespace are marked to stay while it is not decided what becomes of those that the tenant cluster does not
//! know any more, until the mark is taken off.
//!
//! Invariant: only the Service that was seen, and nothing of it but the mark, and what was answered for one of before.

use std::collections::BTreeSet;

use api::names::{ANNOTATION_KEPT_FOR_RESTORE, ANNOTATION_ORPHAN};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::etcd::leases;
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::types::Action;
use crate::restoring::Mark;

/// Writes at the same time.
const PARALLEL_WRITES: usize = 8;

/// Carries it out, and says how much was written. What came of it is noted in the observation; what failed is asked again.
pub(super) async fn act(ctx: &Context, action: &Action, observed: &mut Observed) -> usize {
    match action {
        Action::ForgetLeases { members } => {
            leases::forget(ctx, members, observed).await;
            1
        }
        Action::MarkBalancers {
            restore,
            keep,
            release,
        } => {
            mark(ctx, observed, (keep, restore), release).await;
            keep.len() + release.len()
        }
        _ => 0,
    }
}

async fn mark(
    ctx: &Context,
    observed: &mut Observed,
    (keep, restore): (&BTreeSet<String>, &str),
    release: &BTreeSet<String>,
) {
    let api = Api::<Service>::namespaced(ctx.client.clone(), &observed.tenant_namespace());
    let Some(seen) = &mut observed.restore else {
        return;
    };
    let kept = keep.iter().map(|name| (name, json!(restore)));
    let all = kept.chain(release.iter().map(|name| (name, Value::Null)));
    let all = all.filter_map(|(name, value)| {
        let uid = seen.balancers.get(name)?.uid.clone();
        Some((name.clone(), uid, value))
    });
    let patches: Vec<_> = all.collect();
    let write = |(name, uid, value): (String, String, Value)| {
        let api = api.clone();
        async move {
            let is_marked = !value.is_null();
            let patch = Patch::Merge(json!({ "metadata": {
                "uid": uid, "annotations": { ANNOTATION_KEPT_FOR_RESTORE: value, ANNOTATION_ORPHAN: null },
            } }));
            let params = PatchParams::default();
            let written = api.patch_metadata(&name, &params, &patch).await;
            (name, is_marked, written.map(drop))
        }
    };
    let writes = stream::iter(patches).map(write);
    let mut writes = writes.buffer_unordered(PARALLEL_WRITES);
    while let Some((name, is_marked, written)) = writes.next().await {
        match written {
            Ok(()) => {
                if let Some(balancer) = seen.balancers.get_mut(&name) {
                    balancer.mark = match is_marked {
                        true => Mark::Unknown,
                        false => Mark::None,
                    };
                }
            }
            // Another one of its name is seen next time.
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {
                seen.balancers.remove(&name);
            }
            Err(error) => {
                let error = kit_client::errors::chain(&error);
                tracing::info!(
                    service.name = name,
                    error,
                    "a load balancer could not be marked"
                );
            }
        }
    }
}
