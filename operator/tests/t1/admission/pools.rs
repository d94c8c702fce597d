//! What a user is told about NodePools, and what NodePools mean for their TenantCluster.
//!
//! Invariant: each row of the table is one mistake; everything else in the object is right.

use anyhow::{Result, ensure};
use api::NodePool;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Guarded, merge, sentence};
use crate::support::Site;

/// Creates a NodePool of defaults with a merge patch over it; the error is what a user sees.
async fn create(site: &Site, name: &str, patch: &Value, dry_run: bool) -> Result<(), String> {
    let mut object = json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "NodePool",
        "metadata": { "name": name, "namespace": site.users },
        "spec": { "clusterName": "demo", "replicas": 0, "provider": { "kubevirt": {} } },
    });
    merge(&mut object, patch);
    let object: DynamicObject = serde_json::from_value(object).map_err(|e| e.to_string())?;
    let params = PostParams {
        dry_run,
        ..PostParams::default()
    };
    let resource = kube::api::ApiResource::erase::<NodePool>(&());
    let api = Api::<DynamicObject>::namespaced_with(site.admin.clone(), &site.users, &resource);
    api.create(&params, &object)
        .await
        .map(drop)
        .map_err(sentence)
}

fn spec(value: Value) -> Value {
    json!({ "spec": value })
}

fn kubevirt(value: Value) -> Value {
    spec(json!({ "provider": { "kubevirt": value } }))
}

/// In place of `spec.provider`; of KubeVirt where they do not say.
fn located(mut locations: Value) -> Value {
    for location in locations.as_array_mut().into_iter().flatten() {
        let mut all = json!({ "provider": { "kubevirt": {} } });
        merge(&mut all, location);
        *location = all;
    }
    spec(json!({ "provider": null, "locations": locations }))
}

/// What is wrong, and what a user is told about it (a part of the message). The TenantCluster `demo`
/// of the tests is asked to run 1.35.4.
fn refused() -> Vec<(Value, &'static str)> {
    vec![
        (
            json!({ "metadata": { "name": "n".repeat(47) } }),
            "the name may have at most 46 characters, because nodes are called <name>-<5 characters> and certificates hold system:node:<node> in at most 64; choose a shorter one",
        ),
        (
            json!({ "metadata": { "name": "my.workers" } }),
            "the name must be a DNS label that starts with a letter (lower-case letters, digits and -, no dots)",
        ),
        (
            spec(json!({ "clusterName": null })),
            "spec.clusterName: Required value",
        ),
        (
            spec(json!({ "clusterName": "Demo" })),
            "spec.clusterName: \"Demo\" is not the name of a TenantCluster",
        ),
        (
            spec(json!({ "provider": null })),
            "set exactly one of provider and locations: provider is the short form of one location",
        ),
        (
            spec(json!({ "locations": [{ "name": "a", "provider": { "kubevirt": {} } }] })),
            "set exactly one of provider and locations: provider is the short form of one location",
        ),
        (
            located(json!([{ "name": "a", "weight": 0 }])),
            "the weight of every location is 0, so no machine could be made anywhere",
        ),
        (
            located(json!([{ "name": "a" }, { "name": "a" }])),
            "spec.locations[1]: Duplicate value",
        ),
        (
            located(json!([{ "name": "North" }])),
            "spec.locations[0].name in body should match",
        ),
        (
            located(json!([{ "name": "a", "provider": { "kubevirt": { "memory": "512m" } } }])),
            "spec.locations[a].provider.kubevirt.memory: 512m is less than 1Gi",
        ),
        (
            kubevirt(Value::Null),
            "provider must name exactly one provider, such as kubevirt: {}",
        ),
        (
            spec(json!({ "replicas": -1 })),
            "spec.replicas in body should be greater than or equal to 0",
        ),
        (
            spec(json!({ "replicas": 5000 })),
            "spec.replicas in body should be less than or equal to 1000",
        ),
        (
            spec(json!({ "version": "latest" })),
            "spec.version in body should match '^v?[0-9]+",
        ),
        (
            spec(json!({ "version": "1.30.1" })),
            "spec.version: Kubernetes 1.30.1 is not supported: choose a patch release of 1.34, 1.35 or 1.36",
        ),
        (
            spec(json!({ "version": "1.36.3" })),
            "spec.version: Kubernetes 1.36.3 is newer than the control plane, which runs 1.35.4: nodes follow the control plane; choose 1.35 or older, or upgrade the TenantCluster first",
        ),
        (
            kubevirt(json!({ "cpu": 0 })),
            "spec.provider.kubevirt.cpu in body should be greater than or equal to 1",
        ),
        (
            kubevirt(json!({ "cpu": 500 })),
            "spec.provider.kubevirt.cpu in body should be less than or equal to 128",
        ),
        (
            kubevirt(json!({ "cpu": "500m" })),
            "spec.provider.kubevirt.cpu in body must be of type integer",
        ),
        (
            kubevirt(json!({ "memory": "lots" })),
            "spec.provider.kubevirt.memory in body should match '^([0-9]+|",
        ),
        (
            kubevirt(json!({ "memory": "512m" })),
            "spec.provider.kubevirt.memory: 512m is less than 1Gi, with which no node becomes ready: write gibibytes as Gi, as in 4Gi",
        ),
        (
            kubevirt(json!({ "memory": "4Pi" })),
            "spec.provider.kubevirt.memory: 4Pi is more than 16Ti: check the suffix",
        ),
        (
            kubevirt(json!({ "image": "https://example.com/worker:v1" })),
            "is not an image: leave out the scheme, as in registry.example.com/worker:v1.35.4",
        ),
        (
            kubevirt(json!({ "image": "example.com/Worker:v1" })),
            "\"example.com/Worker:v1\" is not an image: use lower case",
        ),
        (
            kubevirt(json!({ "kernelBoot": {} })),
            "spec.provider.kubevirt.kernelBoot.image: Required value",
        ),
        (
            kubevirt(json!({ "kernelBoot": { "image": "a:b", "kernelPath": "vmlinuz" } })),
            "spec.provider.kubevirt.kernelBoot.kernelPath in body should match '^/",
        ),
        (
            kubevirt(json!({ "shutdownTimeout": "2h" })),
            "\"2h\" is not a length of time up to one hour",
        ),
        (
            spec(json!({ "labels": { "kubernetes.io/hostname": "other" } })),
            "kubernetes.io/hostname is Kubernetes' own: use a prefix of yours",
        ),
        (
            spec(json!({ "labels": { "covey.dev/node-pool": "other" } })),
            "covey.dev/node-pool is Covey's own: choose a prefix of yours",
        ),
        (
            spec(json!({ "labels": { "disk": "very fast" } })),
            "\"very fast\" cannot be the value of a label",
        ),
        (
            spec(json!({ "taints": [{ "key": "gpu", "effect": "Never" }] })),
            r#"spec.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
        ),
        (
            spec(json!({ "taints": [{ "effect": "NoSchedule" }] })),
            "spec.taints[0].key: Required value",
        ),
        (
            spec(json!({ "taints": [
                { "key": "gpu", "value": "a", "effect": "NoExecute" },
                { "key": "gpu", "value": "b", "effect": "NoExecute" },
            ] })),
            "spec.taints[1]: Duplicate value",
        ),
        (
            spec(
                json!({ "taints": [{ "key": "node.kubernetes.io/not-ready", "effect": "NoExecute" }] }),
            ),
            "node.kubernetes.io/not-ready is Kubernetes' own",
        ),
        (
            spec(json!({ "sshAuthorizedKeys": ["-----BEGIN OPENSSH PRIVATE KEY-----"] })),
            "spec.sshAuthorizedKeys[0]: this is a private key: give the public one",
        ),
        (
            spec(json!({ "rollout": { "maxSurge": 0 } })),
            "rollout.maxSurge and rollout.maxUnavailable cannot both be 0: no machine could ever be replaced; set one of them to 1 or more",
        ),
        (
            spec(json!({ "rollout": { "maxSurge": "120%" } })),
            "spec.rollout.maxSurge in body should match '^(100|",
        ),
        (
            spec(json!({ "rollout": { "maxUnavailable": -1 } })),
            "spec.rollout.maxUnavailable in body should be greater than or equal to 0",
        ),
        (
            spec(json!({ "drainTimeout": "5 minutes" })),
            "spec.drainTimeout in body should match",
        ),
        (
            spec(json!({ "health": { "joinTimeout": "1s" } })),
            "spec.health.joinTimeout: 1s is too short: no machine boots that fast; use 30s or more",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_mistake_in_a_node_pool_is_refused_with_a_sentence_that_says_how_to_mend_it()
-> Result<()> {
    let Some(guarded) = Guarded::new("pools").await? else {
        return Ok(());
    };
    let site = &guarded.site;
    guarded
        .create("demo", &json!({}), false)
        .await
        .map_err(anyhow::Error::msg)?;
    let table = refused();
    ensure!(table.len() >= 30, "{} rows", table.len());
    let mut wrong = Vec::new();
    for (patch, wanted) in table {
        match create(site, "workers", &patch, true).await {
            Ok(()) => wrong.push(format!("{patch}\n  was accepted")),
            Err(said) if said.contains(wanted) => {}
            Err(said) => wrong.push(format!("{patch}\n  {said}")),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    // What is right is let in, whether or not its TenantCluster is there.
    let everything = spec(json!({
        "version": "1.34.4",
        "provider": { "kubevirt": { "cpu": 4, "memory": 8_589_934_592_u64 } },
        "labels": { "node-role.kubernetes.io/worker": "" },
        "taints": [{ "key": "gpu", "effect": "NoSchedule" }, { "key": "gpu", "effect": "NoExecute" }],
        "rollout": { "maxSurge": "25%", "maxUnavailable": 1 },
    }));
    for patch in [
        json!({}),
        everything,
        spec(json!({ "clusterName": "later" })),
    ] {
        let answer = create(site, "workers", &patch, true).await;
        answer.map_err(|said| anyhow::anyhow!("{patch}: {said}"))?;
    }
    guarded.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_pool_keeps_its_cluster_and_a_cluster_does_not_leave_its_pools_behind() -> Result<()>
{
    let Some(site) = Site::new("skew").await? else {
        return Ok(());
    };
    // One of long ago, which nobody would let in now.
    let old = spec(json!({ "version": "1.32.4" }));
    create(&site, "workers", &old, false)
        .await
        .map_err(anyhow::Error::msg)?;
    let guarded = Guarded::on(site).await?;
    let site = &guarded.site;
    guarded
        .create("demo", &json!({}), false)
        .await
        .map_err(anyhow::Error::msg)?;
    site.wait_ready("demo").await?;
    let said = guarded
        .change("demo", &spec(json!({ "version": "1.36.3" })))
        .await;
    ensure!(
        said.as_ref().is_err_and(|said| said.contains(
            "spec.version: node pool workers runs 1.32.4, which 1.36.3 does not support"
        )),
        "{said:?}"
    );
    let change = async |patch: Value| {
        let params = PatchParams::default();
        let changed = site
            .pools()
            .patch("workers", &params, &Patch::Merge(patch))
            .await;
        changed.map_err(sentence)
    };
    let moved = change(spec(json!({ "clusterName": "other" })))
        .await
        .unwrap_err();
    ensure!(moved.contains("clusterName cannot change"), "{moved}");
    // What was wrong before is not held against a change, nor against scaling.
    let scaled = change(spec(json!({ "replicas": 2, "paused": null }))).await;
    ensure!(scaled.is_ok(), "{scaled:?}");
    let scale = json!({ "spec": { "replicas": 0 } });
    let params = PatchParams::default();
    site.pools()
        .patch_scale("workers", &params, &Patch::Merge(&scale))
        .await?;
    ensure!(site.pools().get("workers").await?.spec.replicas == 0);
    // Mended, it is in nobody's way.
    let mended = change(spec(json!({ "version": "1.35.4" }))).await;
    ensure!(mended.is_ok(), "{mended:?}");
    site.delete("demo").await?;
    guarded.end().await
}
