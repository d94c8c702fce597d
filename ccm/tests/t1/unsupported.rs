//! What cannot be mapped says why, on the Service, and stops nobody.

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::FaultPlan;
use testkit::faults::Answer;
use testkit::request::RequestInfo;

use crate::support::{Ccm, Environment};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_service_that_cannot_be_mapped_says_why_and_others_go_on() -> Result<()> {
    let Some(environment) = Environment::new("refused").await? else {
        return Ok(());
    };
    let _ccm = Ccm::start(&environment)?;
    environment
        .service("theirs", &json!({ "loadBalancerClass": "example.com/lb" }))
        .await?;
    assert!(
        environment
            .event("OtherClass")
            .await?
            .contains("example.com/lb")
    );
    environment
        .service("external", &json!({ "externalIPs": ["203.0.113.9"] }))
        .await?;
    assert!(
        environment
            .event("AddressNotAllowed")
            .await?
            .contains("203.0.113.9")
    );
    environment
        .service(
            "portless",
            &json!({ "allocateLoadBalancerNodePorts": false }),
        )
        .await?;
    assert!(
        environment
            .event("NoNodePort")
            .await?
            .contains("allocateLoadBalancerNodePorts")
    );
    // The management cluster of the tests has no IPv6: its API says so, and that is passed on.
    let six = json!({ "ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack" });
    environment.service("six", &six).await?;
    assert!(
        environment
            .event("SyncLoadBalancerFailed")
            .await?
            .contains("IPv6")
    );
    let fine = environment.service("fine", &json!({})).await?;
    environment.mirror(&fine, |_| true).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_told_is_told_once_the_api_takes_it() -> Result<()> {
    let Some(environment) = Environment::new("untold").await? else {
        return Ok(());
    };
    let is_event = |request: &RequestInfo| request.resource == "events" && request.verb == "create";
    let refusal = Answer::status(403).when(is_event).times(1);
    let plan = FaultPlan::none().answering(refusal);
    let _ccm = Ccm::with(&environment, environment.settings(), &plan)?;
    environment
        .service("theirs", &json!({ "loadBalancerClass": "example.com/lb" }))
        .await?;
    let told = environment.event("OtherClass").await?;
    assert!(told.contains("example.com/lb"), "{told}");
    ensure!(plan.answered() == 1, "the first was refused");
    Ok(())
}
