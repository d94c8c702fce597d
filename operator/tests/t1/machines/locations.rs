//! A pool over several locations, with a real API server: M1 of the acceptance.

use std::collections::BTreeMap;

use super::*;

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
