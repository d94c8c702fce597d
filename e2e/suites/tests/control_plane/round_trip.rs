//! Needs: operator
//!
//! Through the generated kubeconfig: a namespace, a ConfigMap, and a ServiceAccount's token that
//! the API accepts as who it is. The ServiceAccount `default` comes from the controller-manager,
//! so that runs too.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    authentication::v1::{SelfSubjectReview, TokenRequest},
    core::v1::{ConfigMap, Namespace, ServiceAccount},
};
use kube::{Api, api::PostParams};
use serde_json::json;
use suites::{
    cluster::{credentials, credentials::Identity, wait::wait_for},
    scenario::{self, PATIENCE},
};

#[tokio::test]
async fn objects_and_tokens_make_the_round_trip_through_the_kubeconfig() {
    scenario::run("round-trip", round_trip).await;
}

async fn round_trip(s: &scenario::Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    let create = PostParams::default();
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "name": "shop" } }))?;
    namespaces.create(&create, &namespace).await?;

    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "shop");
    let map = json!({ "metadata": { "name": "prices" }, "data": { "tea": "3" } });
    maps.create(&create, &serde_json::from_value(map)?).await?;
    let read = maps.get("prices").await?.data.unwrap_or_default();
    ensure!(
        read.get("tea").map(String::as_str) == Some("3"),
        "read back {read:?}"
    );

    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "shop");
    wait_for(
        &accounts,
        "default",
        "is made by the controller-manager",
        PATIENCE,
        |_| Some(()),
    )
    .await?;
    let request: TokenRequest = serde_json::from_value(json!({ "spec": { "audiences": [] } }))?;
    let token = accounts
        .create_token_request("default", &create, &request)
        .await?;
    let token = token
        .status
        .context("a token request without an answer")?
        .token;

    let credentials::Access {
        server, authority, ..
    } = credentials::parts(&tenant.kubeconfig(PATIENCE).await?)?;
    let bearer = credentials::client(&server, &authority, &Identity::Token(token)).await?;
    let reviews: Api<SelfSubjectReview> = Api::all(bearer.clone());
    let me = reviews
        .create(&create, &SelfSubjectReview::default())
        .await?;
    let me = me
        .status
        .and_then(|status| status.user_info)
        .unwrap_or_default();
    ensure!(
        me.username.as_deref() == Some("system:serviceaccount:shop:default"),
        "I am {me:?}"
    );

    let refused = Api::<ConfigMap>::namespaced(bearer, "shop")
        .get("prices")
        .await;
    let code = match &refused {
        Err(kube::Error::Api(status)) => status.code,
        _ => 0,
    };
    ensure!(
        code == 403,
        "a ServiceAccount without rights got {refused:?}"
    );
    Ok(())
}
