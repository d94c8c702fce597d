//! What cannot be mapped says why, on the Service, and stops nobody.

use anyhow::Result;
use serde_json::json;

use crate::support::{Ccm, Site};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_service_that_cannot_be_mapped_says_why_and_others_go_on() -> Result<()> {
    let Some(site) = Site::new("refused").await? else {
        return Ok(());
    };
    let _ccm = Ccm::start(&site)?;
    site.service("theirs", &json!({ "loadBalancerClass": "example.com/lb" }))
        .await?;
    assert!(site.event("OtherClass").await?.contains("example.com/lb"));
    site.service("external", &json!({ "externalIPs": ["203.0.113.9"] }))
        .await?;
    assert!(
        site.event("AddressNotAllowed")
            .await?
            .contains("203.0.113.9")
    );
    site.service(
        "portless",
        &json!({ "allocateLoadBalancerNodePorts": false }),
    )
    .await?;
    assert!(
        site.event("NoNodePort")
            .await?
            .contains("allocateLoadBalancerNodePorts")
    );
    // The management cluster of the tests has no IPv6: its API says so, and that is passed on.
    let six = json!({ "ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack" });
    site.service("six", &six).await?;
    assert!(site.event("SyncLoadBalancerFailed").await?.contains("IPv6"));
    let fine = site.service("fine", &json!({})).await?;
    site.mirror(&fine, |_| true).await.map(drop)
}
