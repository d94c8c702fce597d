//! Zone of the node, as its Node says.
//!
//! Invariant: nothing is said before the cloud controller manager has been at the Node, because it is
//! who knows the zone: the kubelet asks once, and a Node that gets another zone than it was told of
//! later refuses the driver.

use std::time::Duration;

use api::names::{LABEL_ZONE, TAINT_UNINITIALIZED};
use k8s_openapi::api::core::v1::Node;
use kit_client::backoff::Backoff;
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;

use crate::error::Error;
use crate::status::Status;

/// The zone, if the node is in one; or why that is not known yet.
pub type Zone = Result<Option<String>, Status>;

/// How long to wait before the Node is read again.
const WAIT: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(5));

/// What a Node says.
///
/// # Errors
/// UNAVAILABLE while no cloud controller manager has been there.
pub fn read(node: &Node) -> Zone {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let fresh = |taint: &k8s_openapi::api::core::v1::Taint| taint.key == TAINT_UNINITIALIZED;
    if taints.is_some_and(|taints| taints.iter().any(fresh)) {
        return Err(Status::unavailable(format!(
            "the zone of node {} is not known before the cloud controller manager takes the taint \
             {TAINT_UNINITIALIZED} away; see that it runs",
            node.name_any()
        )));
    }
    let zone = node.labels().get(LABEL_ZONE);
    Ok(zone.filter(|zone| !zone.is_empty()).cloned())
}

/// Reads the Node of this name until it says it. Without the API there is no hurry: the kubelet
/// registers no driver without it either.
pub(super) async fn find(client: &Client, name: &str, told: &watch::Sender<Zone>) {
    let nodes: Api<Node> = Api::all(client.clone());
    for attempt in 0.. {
        let zone = match nodes.get(name).await {
            Ok(node) => read(&node),
            Err(error) => Err(Error::new("read", "node", name, error).into()),
        };
        let done = zone.is_ok();
        // Who reads that somebody waits finds it said everywhere else already.
        let before = told.send_replace(zone.clone());
        match zone {
            Ok(zone) => tracing::info!(?zone, "the node says where it is"),
            Err(why) if before.as_ref().err() != Some(&why) => tracing::info!("waits: {why}"),
            Err(_) => {}
        }
        if done {
            return;
        }
        tokio::time::sleep(WAIT.ceiling(attempt)).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tonic::Code;

    use super::*;

    fn node(labels: &Value, taint: &str) -> Node {
        let taints = json!([{ "key": taint, "effect": "NoSchedule" }]);
        serde_json::from_value(json!({
            "metadata": { "name": "a", "labels": labels }, "spec": { "taints": taints },
        }))
        .unwrap()
    }

    #[test]
    fn node_says_its_zone_once_the_cloud_controller_manager_was_there() {
        let zone = json!({ LABEL_ZONE: "east" });
        let other = "node.kubernetes.io/not-ready";
        assert_eq!(read(&node(&zone, other)), Ok(Some("east".to_owned())));
        assert_eq!(read(&node(&json!({}), other)), Ok(None));
        assert_eq!(read(&Node::default()), Ok(None));
        for labels in [zone, json!({})] {
            let refusal = read(&node(&labels, TAINT_UNINITIALIZED)).unwrap_err();
            assert_eq!(refusal.code, Code::Unavailable, "{refusal}");
            assert!(refusal.sentence.contains("see that it runs"), "{refusal}");
        }
    }
}
