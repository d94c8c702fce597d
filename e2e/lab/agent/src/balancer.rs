//! Addresses for Services of type LoadBalancer. For the lab alone.
//!
//! kube-proxy does the balancing: it answers for every address in a Service's
//! `status.loadBalancer`, and the lab routes the whole range to its node. What is left is giving
//! each Service an address. Invariant: the API server's state is all there is to know, so an agent
//! that was away goes on where it stopped and no Service changes its address.

mod plan;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::watcher,
};
use serde_json::json;
use tokio::sync::Notify;

use self::plan::{Action, plan};
use super::watch;

/// Class of a Service that asks for the lab's balancer by name; without a class it is asked too.
pub const CLASS: &str = "lab";

/// How long to wait before doing again what failed.
const RETRY: Duration = Duration::from_secs(1);

/// Gives addresses of `range` until the process ends.
///
/// # Errors
/// When the watch ends, which it does not while the process lives.
pub async fn run(client: Client, range: Ipv4Net) -> anyhow::Result<()> {
    let changed = Arc::new(Notify::new());
    let services = watch::follow(
        Api::<Service>::all(client.clone()),
        watcher::Config::default(),
        Arc::clone(&changed),
        |_| {},
    );
    services.wait_until_ready().await?;
    loop {
        let mut failures = 0;
        for action in plan(range, &services.state()) {
            match apply(&client, &action).await {
                Ok(()) => tracing::info!(action = action.summary(), "done"),
                Err(error) => {
                    failures += 1;
                    let error = format!("{error:#}");
                    tracing::warn!(action = action.summary(), error, "trying again");
                }
            }
        }
        if failures == 0 {
            changed.notified().await;
        } else {
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Writes the status only if the Service is still as it was seen: two actions of one plan, or of a
/// plan from an old state, never give one address twice.
async fn apply(client: &Client, action: &Action) -> anyhow::Result<()> {
    let (service, ingress) = match action {
        Action::Give { service, address } => (
            service,
            json!([{ "ip": address.to_string(), "ipMode": "VIP" }]),
        ),
        Action::Take { service } => (service, json!(null)),
    };
    let name = service.name_any();
    let namespace = service.namespace().context("a Service has a namespace")?;
    let patch = json!({
        "metadata": { "uid": service.uid(), "resourceVersion": service.resource_version() },
        "status": { "loadBalancer": { "ingress": ingress } },
    });
    let services = Api::<Service>::namespaced(client.clone(), &namespace);
    match services
        .patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
    {
        // Changed or gone: the watch says so too, and calls for another plan.
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        other => other.map(drop).context("cannot write the status"),
    }
}
