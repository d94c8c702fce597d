//! The management cluster's node that everything runs on.
//!
//! Invariant: several processes may make it at once: it is applied, always the same, and never
//! taken away.

use std::time::Duration;

use api::names::{LABEL_REGION, LABEL_ZONE};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::objects::MANAGER;

/// Its name.
pub const HOST: &str = "host-1";
/// The zone that it is in.
pub const ZONE: &str = "zone-a";
/// The region that it is in.
pub const REGION: &str = "here";

/// Makes it; asks until it is let.
pub(super) async fn make(client: &Client) {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": {
        "name": HOST, "labels": { LABEL_ZONE: ZONE, LABEL_REGION: REGION },
    } });
    let nodes = Api::<Node>::all(client.clone());
    let apply = PatchParams::apply(MANAGER).force();
    let (mut pause, longest) = (Duration::from_millis(20), Duration::from_millis(200));
    while let Err(error) = nodes.patch(HOST, &apply, &Patch::Apply(&node)).await {
        eprintln!("the fake KubeVirt has no host: {error:#}");
        tokio::time::sleep(pause).await;
        pause = longest.min(pause * 2);
    }
}
