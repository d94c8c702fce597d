//! A pool over several locations, with a real API server: M1 of the acceptance.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, GroupVersionKind, Patch, PatchParams};
use testkit::waiting::ask_until;

use super::*;

const ONE_FORM: &str = "set exactly one of provider and locations";

/// Three places that differ in nothing but the weight.
fn spread(weights: [i32; 3]) -> Value {
    let location = |(name, weight): (&str, i32)| {
        json!({ "name": name, "weight": weight,
            "provider": { "kubevirt": { "cpu": 1, "memory": "1Gi" } } })
    };
    ["a", "b", "c"]
        .into_iter()
        .zip(weights)
        .map(location)
        .collect()
}

/// Machines that stay, by location.
async fn found(world: &World) -> Result<BTreeMap<String, usize>> {
    let mut found = BTreeMap::new();
    for machine in world.site.machines_of("workers").await? {
        if machine.metadata.deletion_timestamp.is_none() {
            let location = machine
                .spec
                .location
                .context("a Machine without location")?;
            *found.entry(location).or_default() += 1;
        }
    }
    Ok(found)
}

fn counts(all: &[(&str, usize)]) -> BTreeMap<String, usize> {
    all.iter()
        .map(|(name, n)| ((*name).to_owned(), *n))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_follows_its_weights_and_nine_stay_ready_while_machines_move() -> Result<()> {
    let Some(world) = World::new("locations").await? else {
        return Ok(());
    };
    let mut pool = crate::support::pools::pool(&world.site, "workers", 9);
    let spec = pool["spec"].as_object_mut().context("a spec")?;
    spec.remove("provider");
    spec.insert("locations".to_owned(), spread([1, 1, 1]));
    spec.insert("placement".to_owned(), json!({ "rebalance": "Gradual" }));
    let pool = serde_json::from_value(pool)?;
    world
        .site
        .pools()
        .create(&PostParams::default(), &pool)
        .await?;
    world.settle().await?;
    assert_eq!(
        found(&world).await?,
        counts(&[("a", 3), ("b", 3), ("c", 3)])
    );

    // The successor of an operator goes on from what is stored.
    let change = json!({ "spec": { "locations": spread([2, 1, 0]) } });
    let world = world.restarted(change).await?;
    let moved = |pool: &api::NodePool| {
        let status = pool.status.clone().unwrap_or_default();
        let at = status.locations.iter();
        let are: Vec<_> = at.map(|at| (at.desired, at.machines, at.ready)).collect();
        assert!(status.ready_replicas >= 9, "{status:?}");
        are == [(6, 6, 6), (3, 3, 3), (0, 0, 0)]
    };
    world.site.wait_pool("workers", moved).await?;
    world.settle().await?;
    assert_eq!(found(&world).await?, counts(&[("a", 6), ("b", 3)]));
    world.site.nothing_is_orphaned(&world.cluster).await
}

/// The kind of NodePools under another name, so that nobody else meets it.
fn namesake(group: &str) -> Result<CustomResourceDefinition> {
    let mut all = api::crds().into_iter();
    let crd = all.find(|crd| crd.spec.names.kind == "NodePool");
    let mut crd = crd.context("no NodePool")?;
    crd.metadata.name = Some(format!("nodepools.{group}"));
    group.clone_into(&mut crd.spec.group);
    crd.spec.names.categories = None;
    crd.spec.names.short_names = None;
    Ok(crd)
}

/// As a definition of before `locations` leaves a pool that had them: with neither form.
#[tokio::test]
async fn pool_that_names_no_provider_can_be_told_of_and_go() -> Result<()> {
    let Some(site) = Site::new("pruned").await? else {
        return Ok(());
    };
    let group = format!("{}.example.com", site.users);
    let crd = namesake(&group)?;
    let mut without_rules = crd.clone();
    for version in &mut without_rules.spec.versions {
        let schema = version.schema.as_mut();
        let root = schema.and_then(|schema| schema.open_api_v3_schema.as_mut());
        let spec = root.and_then(|root| root.properties.as_mut()?.get_mut("spec"));
        spec.context("no spec")?.x_kubernetes_validations = None;
    }
    site.api.install_crd(&without_rules).await?;
    let kind = GroupVersionKind::gvk(&group, "v1alpha1", "NodePool");
    let resource = ApiResource::from_gvk_with_plural(&kind, "nodepools");
    let pools: Api<DynamicObject> =
        Api::namespaced_with(site.admin.clone(), &site.users, &resource);
    let spec = json!({ "apiVersion": format!("{group}/v1alpha1"), "kind": "NodePool",
        "metadata": { "name": "workers", "finalizers": [names::FINALIZER_NODE_POOL] },
        "spec": { "clusterName": "demo" } });
    let create = |name: &str| -> Result<DynamicObject> {
        let mut spec = spec.clone();
        spec["metadata"]["name"] = json!(name);
        Ok(serde_json::from_value(spec)?)
    };
    pools
        .create(&PostParams::default(), &create("workers")?)
        .await?;
    site.api.install_crd(&crd).await?;
    // The definition that refuses it is served once a new one is refused.
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let other = create("other")?;
    let words = ask_until("a refusal", PATIENCE, || async {
        Ok(match pools.create(&dry, &other).await {
            Ok(_) => Err("it is let in".to_owned()),
            Err(error) => Ok(error.to_string()),
        })
    })
    .await?;
    ensure!(words.contains(ONE_FORM), "{words}");

    let merge = |patch: Value| Patch::Merge(patch);
    let params = PatchParams::default();
    let status = json!({ "status": { "replicas": 3, "readyReplicas": 3, "updatedReplicas": 0 } });
    let said = pools
        .patch_status("workers", &params, &merge(status))
        .await?;
    ensure!(said.data["status"]["replicas"] == 3, "{said:?}");
    let wrong = json!({ "spec": { "replicas": 2 } });
    let wrong = pools.patch("workers", &params, &merge(wrong)).await;
    let words = wrong.err().context("it was let in")?.to_string();
    ensure!(words.contains(ONE_FORM), "{words}");
    pools.delete("workers", &DeleteParams::default()).await?;
    let gone = json!({ "metadata": { "finalizers": null } });
    pools.patch("workers", &params, &merge(gone)).await?;
    wait_gone(&pools, "workers", PATIENCE).await?;
    let crds: Api<CustomResourceDefinition> = Api::all(site.admin.clone());
    let name = crd.metadata.name.context("no name")?;
    crds.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}
