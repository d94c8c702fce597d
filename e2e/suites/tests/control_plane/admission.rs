//! Needs: operator
//!
//! A bad TenantCluster is refused with a sentence that says how to mend it, as kubectl shows it,
//! and what is there stays as it was.

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use suites::scenario;

#[tokio::test]
async fn bad_objects_are_refused_with_the_whole_message() {
    scenario::run("admission", refusals).await;
}

async fn refusals(s: &scenario::Scenario) -> Result<()> {
    // Nothing starts: what is refused is never built, and this one is paused.
    let taken = json!({ "version": scenario::VERSION, "paused": true,
        "network": { "podCIDR": "10.77.0.0/16", "serviceCIDR": "10.78.0.0/16" } });
    apply(s, "taken", &taken).await?;
    let with = |field: Value| {
        let mut spec = json!({ "version": scenario::VERSION });
        if let (Some(spec), Value::Object(field)) = (spec.as_object_mut(), field) {
            spec.extend(field);
        }
        spec
    };
    let namespace = &s.namespace;
    let cases = [
        (
            "old",
            json!({ "version": "1.20.0" }),
            "Kubernetes 1.20.0 is not supported: choose a patch release of 1.34, 1.35 or 1.36"
                .to_owned(),
        ),
        (
            "meets",
            with(json!({ "network": { "podCIDR": "10.77.128.0/17" } })),
            format!(
                "10.77.128.0/17 overlaps podCIDR 10.77.0.0/16 of tenant cluster {namespace}/taken: \
                 choose another range, or leave the field out to be given a free one"
            ),
        ),
        (
            "flag",
            with(
                json!({ "controlPlane": { "apiServer": { "extraArgs": { "etcd-servers": "x" } } } }),
            ),
            "--etcd-servers is set by Covey and would break the tenant cluster: remove it"
                .to_owned(),
        ),
        (
            "node-port",
            with(json!({ "controlPlane": { "endpoint": { "type": "NodePort" } } })),
            "endpoint.type NodePort needs endpoint.host: the address or DNS name under which \
             clients reach the management cluster's nodes"
                .to_owned(),
        ),
        (
            "two-members",
            with(json!({ "etcd": { "replicas": 2 } })),
            "etcd.replicas must be 1 or 3".to_owned(),
        ),
        (
            "n2345678901234567890123456789012345678901234567",
            with(json!({})),
            "the name may have at most 46 characters, because the tenant namespace is called \
             covey-<name>-<10 characters>; choose a shorter one"
                .to_owned(),
        ),
    ];
    for (name, spec, sentence) in &cases {
        match apply(s, name, spec).await {
            Ok(()) => bail!("{name} was accepted: {spec}"),
            Err(error) => {
                let said = format!("{error:#}");
                ensure!(
                    said.contains(sentence),
                    "{name}: expected\n{sentence}\ngot\n{said}"
                );
            }
        }
    }
    let downgrade = json!({ "version": "1.34.4", "paused": true,
        "network": { "podCIDR": "10.77.0.0/16", "serviceCIDR": "10.78.0.0/16" } });
    let refused = apply(s, "taken", &downgrade).await;
    ensure!(refused.is_err(), "a downgrade was accepted");
    let names = s
        .manage(&["get", "tc", "-o", "jsonpath={.items[*].metadata.name}"])
        .await?;
    ensure!(names == "taken", "there are {names}");
    let version = s
        .manage(&["get", "tc", "taken", "-o", "jsonpath={.spec.version}"])
        .await?;
    ensure!(version == scenario::VERSION, "the version became {version}");
    Ok(())
}

async fn apply(s: &scenario::Scenario, name: &str, spec: &Value) -> Result<()> {
    let object = json!({ "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": name, "namespace": s.namespace }, "spec": spec });
    let path = s.file(&format!("{name}.json"), &object.to_string())?;
    let path = path.to_string_lossy().into_owned();
    s.manage(&["apply", "-f", &path]).await.map(drop)
}
