//! Needs: operator, lab-agent
//!
//! The etcd of a tenant is reached by its own control plane and by nobody else.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Service};
use suites::{
    cluster::{OPERATOR_NAMESPACE, Tenant, operator},
    scenario::{
        self, PATIENCE,
        pods::{Target, address, ensure_blocked, ensure_let_in, found, probe_from},
    },
};

#[tokio::test]
async fn only_its_own_control_plane_reaches_a_tenants_etcd() {
    scenario::run("etcd-reach", reach).await;
}

async fn reach(s: &scenario::Scenario) -> Result<()> {
    let (one, two) = (
        s.tenant("one", |_| {}).await?,
        s.tenant("two", |_| {}).await?,
    );
    one.settled(PATIENCE).await?;
    two.settled(PATIENCE).await?;
    let (etcd_one, etcd_two) = (etcd(&one).await?, etcd(&two).await?);
    let api_one = api(&one).await?;

    // The control plane of the same tenant: for etcd's clients, not for its peers.
    let log = probe_from(
        &one.management,
        &one.tenant_namespace(),
        "control-plane",
        &etcd_one,
    )
    .await?;
    for target in &etcd_one {
        let expected = if target.1 == 2379 {
            "reached"
        } else {
            "blocked"
        };
        ensure!(
            found(&log, expected, target),
            "own control plane: {target:?} in\n{log}"
        );
    }
    // The control plane of another tenant reaches its own etcd, so its network works.
    let both = [&etcd_one[..], &etcd_two[..1]].concat();
    let log = probe_from(
        &two.management,
        &two.tenant_namespace(),
        "control-plane",
        &both,
    )
    .await?;
    ensure!(found(&log, "reached", &etcd_two[0]), "its own etcd:\n{log}");
    ensure_blocked(&log, &etcd_one, "another tenant's control plane")?;
    // Another pod of the same tenant namespace.
    let log = probe_from(
        &one.management,
        &one.tenant_namespace(),
        "something-else",
        &etcd_one,
    )
    .await?;
    ensure_blocked(&log, &etcd_one, "another pod of the tenant namespace")?;
    // The user's namespace has no policy: it reaches the API, and etcd still not.
    let both = [&etcd_one[..], std::slice::from_ref(&api_one)].concat();
    let log = probe_from(&one.management, &s.namespace, "control-plane", &both).await?;
    ensure!(
        found(&log, "reached", &api_one),
        "the API from the user's namespace:\n{log}"
    );
    ensure_blocked(&log, &etcd_one, "the user's namespace")
}

#[tokio::test]
async fn a_control_planes_pod_reaches_nothing_of_the_management_cluster_but_etcd_and_dns() {
    scenario::run("egress", egress).await;
}

async fn egress(s: &scenario::Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    tenant.settled(PATIENCE).await?;
    let operator = address(s.client(), OPERATOR_NAMESPACE, operator::SELECTOR).await?;
    let webhook = address(s.client(), OPERATOR_NAMESPACE, operator::WEBHOOK_SELECTOR).await?;
    let dns = address(s.client(), "kube-system", "k8s-app=kube-dns").await?;
    let closed = [
        (operator, 8080),
        (webhook, 9443),
        (dns.clone(), 9153),
        management_api(s).await?,
    ];
    let open = (dns, 53);
    let targets = [&closed[..], std::slice::from_ref(&open)].concat();
    let log = probe_from(
        s.client(),
        &tenant.tenant_namespace(),
        "control-plane",
        &targets,
    )
    .await?;
    ensure_blocked(&log, &closed, "the control plane")?;
    ensure!(found(&log, "reached", &open), "DNS:\n{log}");
    // They can be reached from where no policy is, so it is ours that keeps the control plane out.
    let log = probe_from(s.client(), &s.namespace, "control-plane", &closed).await?;
    ensure_let_in(&log, &closed, "the user's namespace")
}

/// The Service `kubernetes`, behind which is an address of the node.
async fn management_api(s: &scenario::Scenario) -> Result<Target> {
    let services: kube::Api<Service> = kube::Api::namespaced(s.client().clone(), "default");
    let spec = services.get("kubernetes").await?.spec.unwrap_or_default();
    Ok((spec.cluster_ip.context("kubernetes has no address")?, 443))
}

/// Service and pod, client port first.
async fn etcd(tenant: &Tenant) -> Result<Vec<Target>> {
    let service = tenant.parts::<Service>().get("etcd-0").await?;
    let service = service
        .spec
        .and_then(|spec| spec.cluster_ip)
        .unwrap_or_default();
    let pod = tenant.parts::<Pod>().get("etcd-0").await?;
    let pod = pod
        .status
        .and_then(|status| status.pod_ip)
        .unwrap_or_default();
    ensure!(
        !service.is_empty() && !pod.is_empty(),
        "etcd-0 has no addresses"
    );
    Ok(vec![
        (pod.clone(), 2379),
        (service, 2379),
        (pod.clone(), 2380),
        (pod, 2381),
    ])
}

async fn api(tenant: &Tenant) -> Result<Target> {
    let status = tenant.get().await?.status.unwrap_or_default();
    let endpoint = status.endpoint.unwrap_or_default();
    Ok((endpoint.host, u16::try_from(endpoint.port)?))
}
