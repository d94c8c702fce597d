//! Asks each kube-apiserver of a tenant cluster what it has counted of use, and looks whether an activator runs.
//!
//! Invariant: it has a bounded time of its own, because nothing but sleep waits for it; all of them are asked, or it is not
//! known.

use std::net::IpAddr;
use std::time::Duration;

use api::names::{COMPONENT_ACTIVATOR, LABEL_COMPONENT};
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kit_client::errors::chain;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;
use tenant_cp::names;

use super::sessions;
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::hibernation::idle::Look;
use crate::pod_failures;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::usage;

/// Longest time for all questions.
const PATIENCE: Duration = Duration::from_secs(4);

pub(super) async fn ask(ctx: &Context, observed: &mut Observed, now: Timestamp) {
    let counted = counted(ctx, observed).await;
    let wakes = wakes(ctx).await;
    // What is not known now may be as it was.
    let before = observed.usage.newest().filter(|_| counted.is_err());
    let look = Look {
        at: now,
        blocking: before.and_then(|before| before.blocking.clone()),
        counted,
        wakes,
    };
    let uid = observed.cluster.identity_uid().to_owned();
    ctx.usage_looks.record(&uid, look.clone());
    observed.usage.now = Some(look);
}

async fn counted(ctx: &Context, observed: &Observed) -> Result<Option<String>, String> {
    if !sessions::lets(ctx, observed) {
        return Err("others that are slow to answer are asked first".to_owned());
    }
    let pods = pods(ctx, &observed.tenant_namespace(), names::CONTROL_PLANE).await?;
    let port = u16::try_from(names::API_PORT).map_err(|error| chain(&error))?;
    let budget = Budget::waiting(PATIENCE);
    let within = &budget;
    let servers = pods.iter().map(|pod| async move {
        let address: Option<IpAddr> = pod["status"]["podIP"]
            .as_str()
            .and_then(|address| address.parse().ok());
        let address = address.filter(|_| lasts(pod));
        let address = address.ok_or("not all kube-apiservers are ready")?;
        let session = sessions::operator(ctx, observed, (address, port));
        let session = session.ok_or("keys of the operator are missing")?;
        let client = session.client(within).map_err(|error| chain(&error))?;
        usage::ask(&client).await
    });
    let servers: Vec<_> = servers.collect();
    let asking = Box::pin(try_join_all(servers));
    let counted = budget.within(asking).await;
    let counted = counted.map_err(|error| error.to_string())??;
    if counted.is_empty() {
        return Err("there is no kube-apiserver".to_owned());
    }
    if counted.iter().any(|counted| counted.is_held) {
        return Ok(None);
    }
    let mut marks: Vec<_> = counted.into_iter().map(|counted| counted.mark).collect();
    marks.sort();
    Ok(Some(marks.join(",")))
}

/// Whether a request would wake it; what is not known would not.
async fn wakes(ctx: &Context) -> bool {
    let pods = pods(ctx, &ctx.settings.operator_namespace, COMPONENT_ACTIVATOR).await;
    pods.is_ok_and(|pods| pods.iter().any(lasts))
}

/// Pods of a component that have not ended.
async fn pods(ctx: &Context, namespace: &str, component: &str) -> Result<Vec<Value>, String> {
    let params = ListParams::default().labels(&format!("{LABEL_COMPONENT}={component}"));
    let pods = Api::<Pod>::namespaced(ctx.client.clone(), namespace);
    let pods = pods.list(&params).await.map_err(|error| chain(&error))?;
    let pods = pods.items.iter().map(serde_json::to_value);
    let pods = pods.collect::<Result<Vec<_>, _>>();
    let mut pods = pods.map_err(|error| chain(&error))?;
    pods.retain(|pod| {
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        !["Succeeded", "Failed"].contains(&phase)
    });
    Ok(pods)
}

/// Whether a pod is ready and stays.
fn lasts(pod: &Value) -> bool {
    pod_failures::is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null()
}
