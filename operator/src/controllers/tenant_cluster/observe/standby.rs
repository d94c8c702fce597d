//! Which control planes that wait may be taken over, and whether one was.
//!
//! Invariant: what a store has not heard of is not absent: whoever claims an identity is asked for live before it counts
//! as gone.

use api::TenantCluster;
use api::tenant_cluster::TenantIdentity;
use kit_objects::object::Key;
use kube::ResourceExt as _;
use serde_json::Value;

use crate::context::Context;
use crate::standby::fit::{self, is_standby};
use crate::standby::takeover::{self, Taker};

/// Whose identity it may take over: the one that it has taken over before it could say so, or those that wait.
pub(super) async fn candidates(
    ctx: &Context,
    cluster: &TenantCluster,
) -> Result<Vec<TenantIdentity>, kube::Error> {
    let (all, settings) = (ctx.stores.clusters.state(), &ctx.settings);
    if !all.iter().any(|other| is_standby(other, settings)) || is_standby(cluster, settings) {
        return Ok(Vec::new());
    }
    let uid = cluster.uid().unwrap_or_default();
    Ok(match takeover::taken_by(&ctx.client, &uid).await? {
        Some(identity) => vec![identity],
        None => fit::candidates(cluster, &all, settings),
    })
}

/// Whoever took it over, as its tenant namespace says.
pub(super) async fn taker(
    ctx: &Context,
    cluster: &TenantCluster,
    namespace: Option<&(Key, Value)>,
) -> Result<Option<Taker>, kube::Error> {
    let label = namespace
        .and_then(|(_, live)| live["metadata"]["labels"][api::names::LABEL_TAKEN_OVER_BY].as_str());
    let own = cluster.metadata.uid.as_deref().unwrap_or_default();
    let Some(uid) = label.filter(|uid| *uid != own) else {
        return Ok(None);
    };
    let all = ctx.stores.clusters.state();
    let known = all
        .iter()
        .find(|other| other.metadata.uid.as_deref() == Some(uid));
    if let Some(known) = known {
        let bears = known.identity_uid() == cluster.identity_uid();
        return Ok(Some(if bears { Taker::Bears } else { Taker::May }));
    }
    let is_there = takeover::is_there(&ctx.client, |found| found == uid).await?;
    Ok(Some(if is_there { Taker::May } else { Taker::Gone }))
}
