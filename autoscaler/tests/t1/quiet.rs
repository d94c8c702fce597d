//! Nothing is written when nothing changes.

use anyhow::Result;
use autoscaler_client::Generation;
use serde_json::json;

use crate::support::{Adapter, Environment, FakeOperator, Script};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loops_and_a_restart_of_what_is_settled_write_nothing() -> Result<()> {
    let Some(environment) = Environment::with_nodes("quiet").await? else {
        return Ok(());
    };
    let (_operator, adapter) = (
        FakeOperator::start(&environment),
        Adapter::start(&environment).await?,
    );
    let name = environment
        .pool("quiet", 2, &json!({ "max": 3, "priority": 7 }))
        .await?;
    let mut script = Script::new(&environment, &adapter, Generation::New, &[&name])?;
    script.wait_for_room(2, 1500);
    let two = script.until("two nodes are there", |turn| turn.nodes.len() == 2);
    two.await?;
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(environment.inside.clone(), "kube-system");
    let told = |map: Option<&k8s_openapi::api::core::v1::ConfigMap>| {
        let data = map.and_then(|map| map.data.as_ref());
        data.and_then(|data| data.get("priorities"))
            .is_some_and(|text| text.contains(&name))
    };
    let patience = crate::support::PATIENCE;
    testkit::fixtures::wait_for(&maps, api::names::PRIORITY_EXPANDER, told, patience).await?;

    let windows = [
        (environment.management.audit().window()?, environment.user()),
        (
            environment.tenant.audit().window()?,
            environment.tenant_user(),
        ),
    ];
    drop(adapter);
    let adapter = Adapter::start(&environment).await?;
    script.protocol = adapter.client(&environment, Generation::Legacy)?;
    for _ in 0..5 {
        let turn = script.turn().await?.map_err(anyhow::Error::from)?;
        assert!(turn.said.is_empty(), "{:?}", turn.said);
    }
    for (window, user) in &windows {
        window.assert_no_writes(user)?;
        let looked = window.entries()?.iter().any(|e| e.user == *user);
        assert!(looked, "{user} looked");
    }
    Ok(())
}
