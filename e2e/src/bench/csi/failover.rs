//! A machine dies, and its volume's pod is to be ready elsewhere.

use std::time::Instant;

use anyhow::{Context as _, Result};
use kube::api::DeleteParams;
use serde_json::json;

use super::{Place, Report, Spread};
use crate::{
    bench::workers::kubeconfig_file,
    cluster::Management,
    suite::{kubectl::Kubectl, workload::IMAGE},
};

pub(super) async fn measure(
    management: &Management,
    place: &Place<'_>,
    report: &mut Report,
) -> Result<()> {
    let patience = place.options.patience;
    let kubeconfig = place.tenant.kubeconfig(patience).await?;
    let file = kubeconfig_file(management, &kubeconfig)?;
    let kubectl = Kubectl::with(&management.layout, file);
    let mut times = Vec::new();
    for number in 0..place.options.failovers {
        place.pool.settled(place.options.nodes, patience).await?;
        if number == 0 {
            kubectl.apply(&stateful()).await?;
        }
        let node = kubectl.until(patience, &POD, |text| is_ready(text, None));
        let node = node.await.context("the pod is not ready")?;
        let node = node
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned();
        let begun = Instant::now();
        let at_once = DeleteParams::default().grace_period(0);
        place.pool.instances().delete(&node, &at_once).await?;
        let moved = kubectl.until(patience, &POD, |text| is_ready(text, Some(&node)));
        moved.await.context("the pod is not ready elsewhere")?;
        let took = begun.elapsed().as_secs_f64();
        (place.say)(format!(
            "ready elsewhere {} s after the machine's end",
            super::round(took)
        ));
        times.push(took);
    }
    report.failover_s = Spread::of(&times);
    Ok(())
}

/// Where the pod is, and whether it is ready.
const POD: [&str; 5] = [
    "get",
    "pod",
    "web-0",
    "-o",
    r#"jsonpath={.spec.nodeName} {.status.conditions[?(@.type=="Ready")].status}"#,
];

fn is_ready(text: &str, but: Option<&str>) -> bool {
    let mut words = text.split_whitespace();
    let at = words.next();
    at.is_some() && at != but && words.next() == Some("True")
}

/// One pod with a volume.
fn stateful() -> String {
    let labels = json!({ "app": "web" });
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "web" },
        "spec": {
            "serviceName": "web", "replicas": 1, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "terminationGracePeriodSeconds": 3, "automountServiceAccountToken": false,
                    "containers": [{
                        "name": "testserver", "image": IMAGE, "args": ["web"],
                        "readinessProbe": {
                            "httpGet": { "path": "/ready", "port": 8080 },
                            "periodSeconds": 1, "timeoutSeconds": 5,
                        },
                        "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                    }],
                },
            },
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": { "requests": { "storage": "64Mi" } },
                },
            }],
        },
    })
    .to_string()
}
