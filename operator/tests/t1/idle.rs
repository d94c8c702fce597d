//! What a real kube-apiserver of a tenant cluster counts as use, with the FlowSchema that the operator laid inside.
//!
//! Invariant: requests of Covey's users and of those who do not say who they are change nothing; those of anybody else do.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::flowcontrol::v1::FlowSchema;
use kube::api::ListParams;
use kube::{Api, Client};
use operator::tenant_session::usage;
use tenant_cp::desired::bootstrap::flow_schema;
use testkit::fixtures::{is_settled, minimal, wait_for};
use testkit::waiting::ask_until;

use crate::support::etcd_members::EtcdMembers;
use crate::support::site::tenant_namespace;
use crate::support::tenant_api::TenantApi;
use crate::support::{Launch, PATIENCE, Site};

/// Requests of each.
const REQUESTS: usize = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_use_a_tenant_cluster_and_covey_does_not() -> Result<()> {
    let Some(site) = Site::without_etcd("idle").await? else {
        return Ok(());
    };
    let mut cluster = minimal(&site.users, "demo");
    // Nobody serves its sockets here.
    cluster.spec.addons.konnectivity.enabled = false;
    cluster.spec.hibernation.idle_after = Some("1h".into());
    let cluster = site.create_as(&cluster).await?;
    let ns = tenant_namespace(&cluster);
    let Some(etcd) = EtcdMembers::start(&site.admin, &ns, &[]).await? else {
        return Ok(());
    };
    let mut launch = Launch::new(&site)?;
    launch.dial = Some(etcd.dial(site.dial()));
    let operator = launch.start(&site)?;
    site.wait("demo", is_settled).await?;
    operator.stop().await?;

    // From here on its API is a real one, with what was laid for it.
    let Some(api) = TenantApi::start(&site.admin, &ns, &etcd.client_url(0)).await? else {
        return Ok(());
    };
    let real = api.address();
    let mut launch = Launch::new(&site)?;
    launch.dial = Some(etcd.dial(Arc::new(move |_: &str, _: SocketAddr| real)));
    let operator = launch.start(&site)?;
    let schemas: Api<FlowSchema> = Api::all(api.administrator()?);
    let is_there = |found: Option<&FlowSchema>| found.is_some();
    wait_for(&schemas, flow_schema::NAME, is_there, 2 * PATIENCE).await?;

    let own = api.operator()?;
    let before = at_rest(&own).await?;
    for _ in 0..REQUESTS {
        own.apiserver_version().await?;
        list(&own).await?;
    }
    ensure!(
        usage::ask(&own).await == Ok(before.clone()),
        "its own counts"
    );
    let jane = api.somebody("jane")?;
    // She may nothing, and asks all the same.
    for _ in 0..REQUESTS {
        list(&jane).await?;
    }
    let after = usage::ask(&own).await;
    ensure!(after.as_ref().is_ok_and(|now| *now != before), "{after:?}");
    operator.stop().await
}

/// What is counted once the schema is in force: two looks in a row find the same.
async fn at_rest(own: &Client) -> Result<usage::Counted> {
    ask_until("two looks find the same", 2 * PATIENCE, || async {
        let first = usage::ask(own).await;
        own.apiserver_version().await?;
        let second = usage::ask(own).await;
        Ok(match (first, second) {
            (Ok(first), Ok(second)) if first == second => Ok(second),
            other => Err(format!("{other:?}")),
        })
    })
    .await
}

/// Whether or not it is allowed.
async fn list(client: &Client) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    match maps.list(&ListParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Err(error) => Err(error.into()),
    }
}
