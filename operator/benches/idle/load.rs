//! A fixed piece of work for one tenant cluster, and what its programs take for it.
//!
//! Invariant: each variant is given the same, and none beside another.

use std::time::Instant;

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Map, Value, json};

use crate::plane::Plane;

/// Requests at a time.
const AT_ONCE: usize = 8;
/// Objects between two lists of all of them.
const EACH: usize = 50;

/// Makes so many ConfigMaps of a kibibyte, lists all of them now and then, and deletes them.
pub(crate) async fn run(plane: &Plane, count: usize) -> Result<Value> {
    let maps: Api<ConfigMap> = Api::default_namespaced(plane.client()?);
    let before = plane.reading()?;
    let begin = Instant::now();
    let create = PostParams::default();
    let text = "x".repeat(1024);
    stream::iter(0..count)
        .map(|number| {
            let (maps, create, text) = (&maps, &create, &text);
            async move {
                let map = json!({ "metadata": { "name": format!("load-{number}") }, "data": { "a": text } });
                maps.create(create, &serde_json::from_value(map)?).await?;
                if number % EACH == 0 {
                    maps.list(&ListParams::default()).await?;
                }
                anyhow::Ok(())
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    let delete = DeleteParams::default();
    stream::iter(0..count)
        .map(|number| {
            let (maps, delete) = (&maps, &delete);
            async move {
                maps.delete(&format!("load-{number}"), delete)
                    .await
                    .map(drop)
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    let seconds = begin.elapsed().as_secs_f64();
    let after = plane.reading()?;
    let mut cpu = Map::new();
    let mut peak = Map::new();
    let mut sum = 0.0;
    for (name, after) in &after {
        let used = after.cpu_s - before.get(name).map_or(0.0, |before| before.cpu_s);
        sum += used;
        cpu.insert(name.clone(), json!((used * 100.0).round() / 100.0));
        peak.insert(name.clone(), json!(after.peak.round()));
    }
    Ok(json!({
        "objects": count, "seconds": (seconds * 10.0).round() / 10.0,
        "cpu_s": cpu, "cpu_s_sum": (sum * 100.0).round() / 100.0, "peak_mib": peak,
    }))
}
