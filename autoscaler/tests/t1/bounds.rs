//! Bounds that a user edits: the adapter brings the size within them, and names nobody.

use anyhow::Result;
use api::names::ANNOTATION_DELETE_MACHINE;
use kube::ResourceExt as _;
use serde_json::json;

use crate::support::{Adapter, Environment};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_is_brought_within_its_bounds_when_they_are_edited() -> Result<()> {
    let Some(environment) = Environment::new("bounds").await? else {
        return Ok(());
    };
    let name = environment
        .pool("bounds", 1, &json!({ "min": 1, "max": 9 }))
        .await?;
    let _adapter = Adapter::start(&environment).await?;
    let edits = [
        (json!({ "min": 3 }), 3),
        (json!({ "min": 0, "max": 2 }), 2),
        (json!({ "max": 5 }), 2),
    ];
    for (edit, expected) in edits {
        let patch = json!({ "spec": { "autoscaling": edit } });
        environment.change(&name, &patch).await?;
        let pool = environment
            .until(&name, |pool| pool.spec.replicas == expected)
            .await?;
        assert_eq!(pool.annotations().get(ANNOTATION_DELETE_MACHINE), None);
    }
    Ok(())
}
