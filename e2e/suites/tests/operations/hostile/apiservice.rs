//! Needs: operator
//!
//! A tenant's administrator serves, by an aggregated API that never answers, a group that Covey may have
//! objects of: the tenant cluster stays Ready, what is inside is put right, and its deletion waits for
//! nothing (findings S1). That an endless answer costs little is shown without a lab.

use anyhow::Result;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use serde_json::json;
use suites::cluster::drift;
use suites::scenario::{self, PATIENCE, Scenario};

/// Groups of the addons, which Covey asks for.
const GROUPS: [&str; 2] = ["snapshot.storage.k8s.io", "groupsnapshot.storage.k8s.io"];

#[tokio::test]
async fn aggregated_api_that_never_answers_holds_nothing_up() {
    scenario::run("hostile-apiservice", apiservice).await;
}

async fn apiservice(s: &Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    tenant.settled(PATIENCE).await?;
    let resource = ApiResource {
        group: "apiregistration.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiregistration.k8s.io/v1".to_owned(),
        kind: "APIService".to_owned(),
        plural: "apiservices".to_owned(),
    };
    let services: Api<DynamicObject> = Api::all_with(admin.clone(), &resource);
    for group in GROUPS {
        let service = json!({ "metadata": { "name": format!("v1.{group}") },
            "spec": { "group": group, "version": "v1", "insecureSkipTLSVerify": true,
                "groupPriorityMinimum": 1000, "versionPriority": 15,
                "service": { "name": "nobody", "namespace": "default" } } });
        services
            .create(&PostParams::default(), &serde_json::from_value(service)?)
            .await?;
    }
    drift::spoil_and_wait(&admin, PATIENCE).await?;
    // A change goes through to its end.
    tenant
        .change(&json!({ "addons": { "konnectivity": { "enabled": false } } }))
        .await?;
    tenant.settled(PATIENCE).await?;
    tenant.delete().await?;
    tenant.gone(PATIENCE).await
}
