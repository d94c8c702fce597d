//! Needs: operator, lab-agent
//!
//! The etcd of a tenant is reached by its own control plane and by nobody else.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::ListParams;
use suites::{
    cluster::{OPERATOR_NAMESPACE, Tenant, operator},
    scenario::{
        self, PATIENCE,
        pods::{self, Command, component, found, probe},
    },
};

type Target = (String, u16);

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
    let log = from(
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
    let log = from(
        &two.management,
        &two.tenant_namespace(),
        "control-plane",
        &both,
    )
    .await?;
    ensure!(found(&log, "reached", &etcd_two[0]), "its own etcd:\n{log}");
    blocked(&log, &etcd_one, "another tenant's control plane")?;
    // Another pod of the same tenant namespace.
    let log = from(
        &one.management,
        &one.tenant_namespace(),
        "something-else",
        &etcd_one,
    )
    .await?;
    blocked(&log, &etcd_one, "another pod of the tenant namespace")?;
    // The user's namespace has no policy: it reaches the API, and etcd still not.
    let both = [&etcd_one[..], std::slice::from_ref(&api_one)].concat();
    let log = from(&one.management, &s.namespace, "control-plane", &both).await?;
    ensure!(
        found(&log, "reached", &api_one),
        "the API from the user's namespace:\n{log}"
    );
    blocked(&log, &etcd_one, "the user's namespace")
}

#[tokio::test]
async fn a_control_planes_pod_reaches_nothing_of_the_management_cluster_but_etcd_and_dns() {
    scenario::run("egress", egress).await;
}

async fn egress(s: &scenario::Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    tenant.settled(PATIENCE).await?;
    let operator = address(s, OPERATOR_NAMESPACE, operator::SELECTOR).await?;
    let webhook = address(s, OPERATOR_NAMESPACE, operator::WEBHOOK_SELECTOR).await?;
    let dns = address(s, "kube-system", "k8s-app=kube-dns").await?;
    let closed = [
        (operator, 8080),
        (webhook, 9443),
        (dns.clone(), 9153),
        management_api(s).await?,
    ];
    let open = (dns, 53);
    let targets = [&closed[..], std::slice::from_ref(&open)].concat();
    let log = from(
        s.client(),
        &tenant.tenant_namespace(),
        "control-plane",
        &targets,
    )
    .await?;
    blocked(&log, &closed, "the control plane")?;
    ensure!(found(&log, "reached", &open), "DNS:\n{log}");
    // They can be reached from where no policy is, so it is ours that keeps the control plane out.
    let log = from(s.client(), &s.namespace, "control-plane", &closed).await?;
    for target in &closed {
        ensure!(
            !found(&log, "blocked", target),
            "{target:?} from the user's namespace:\n{log}"
        );
    }
    Ok(())
}

/// The Service `kubernetes`, behind which is an address of the node.
async fn management_api(s: &scenario::Scenario) -> Result<Target> {
    let services: kube::Api<Service> = kube::Api::namespaced(s.client().clone(), "default");
    let spec = services.get("kubernetes").await?.spec.unwrap_or_default();
    Ok((spec.cluster_ip.context("kubernetes has no address")?, 443))
}

/// Address of any ready pod.
async fn address(s: &scenario::Scenario, namespace: &str, selector: &str) -> Result<String> {
    let pods: kube::Api<Pod> = kube::Api::namespaced(s.client().clone(), namespace);
    let pods = pods.list(&ListParams::default().labels(selector)).await?;
    let running = pods
        .items
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let mut addresses = running.filter_map(|pod| pod.status?.pod_ip);
    addresses
        .next()
        .with_context(|| format!("no pod {selector} has an address"))
}

fn blocked(log: &str, targets: &[Target], who: &str) -> Result<()> {
    for target in targets {
        ensure!(
            found(log, "blocked", target),
            "{who} is not kept from {target:?}:\n{log}"
        );
    }
    Ok(())
}

async fn from(
    client: &kube::Client,
    namespace: &str,
    label: &str,
    targets: &[Target],
) -> Result<String> {
    let command = Command {
        labels: component(label),
        script: probe(targets),
        secret: None,
    };
    Ok(pods::run(client, namespace, command).await?.log)
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
