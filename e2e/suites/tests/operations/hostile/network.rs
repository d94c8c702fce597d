//! Needs: operator, lab-agent
//!
//! What a worker reaches, by the lab's own enforcer of NetworkPolicies: a pod with the labels of a virtual
//! machine's, which all policies take for one. Its own control plane, other workers of the tenant cluster
//! and the world, but nothing of the management cluster and nothing of other tenants (findings S5).

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{Api, api::ListParams};
use suites::{
    cluster::{OPERATOR_NAMESPACE, Tenant, operator, parts::selector},
    scenario::{
        self, PATIENCE, Scenario,
        pods::{Target, address, ensure_blocked, ensure_let_in, found, probe_from},
    },
};

/// The lab's registry, which is outside of the management cluster: the world, as machines see it.
const WORLD: (&str, u16) = ("198.18.20.10", 5000);

#[tokio::test]
async fn worker_reaches_its_own_tenant_cluster_and_the_world_and_nothing_else() {
    scenario::run("hostile-network", network).await;
}

async fn network(s: &Scenario) -> Result<()> {
    let (own, other) = (
        s.tenant("own", |_| {}).await?,
        s.tenant("other", |_| {}).await?,
    );
    own.settled(PATIENCE).await?;
    other.settled(PATIENCE).await?;

    let operator = address(s.client(), OPERATOR_NAMESPACE, operator::SELECTOR).await?;
    let webhook = address(s.client(), OPERATOR_NAMESPACE, operator::WEBHOOK_SELECTOR).await?;
    let cluster_dns = address(s.client(), "kube-system", "k8s-app=kube-dns").await?;
    let node = node(s).await?;
    let kubernetes: Api<Service> = Api::namespaced(s.client().clone(), "default");
    let kubernetes = cluster_ip(&kubernetes.get("kubernetes").await?)?;
    // Of the management cluster; what protects itself besides is seen from elsewhere, too.
    let closed = [
        (kubernetes, 443),
        (node.clone(), 6443),
        (node, 10250),
        (operator.clone(), 8080),
        (operator, 8081),
        (webhook, 9443),
        (cluster_dns, 9153),
    ];
    // Of another tenant: its control plane at its pod and at its Service, konnectivity's server, etcd.
    let foreign = of_tenant(&other).await?;
    let strangers = [
        (foreign.control_plane.clone(), 6443),
        (foreign.control_plane, 8132),
        foreign.service,
        (foreign.service_of_etcd, 2379),
        (foreign.etcd, 2380),
    ];
    let mine = of_tenant(&own).await?;
    let etcd = [(mine.etcd.clone(), 2379), (mine.etcd, 2381)];
    let open = [
        (mine.control_plane.clone(), 6443),
        (mine.control_plane, 8132),
        (WORLD.0.to_owned(), WORLD.1),
    ];
    let targets = [&closed[..], &strangers, &etcd, &open].concat();
    let log = from(&own, &targets).await?;
    let all = [&closed[..], &strangers, &etcd].concat();
    ensure_blocked(&log, &all, "a worker")?;
    for target in &open {
        ensure!(
            found(&log, "reached", target),
            "a worker does not reach {target:?}:\n{log}"
        );
    }

    // Somebody is there, so it is the policies that keep a worker out.
    let log = probe_from(s.client(), &s.namespace, "none", &closed).await?;
    ensure_let_in(&log, &closed, "the user's namespace")?;
    // The other tenant's own worker reaches what this one did not.
    let log = from(&other, &strangers[..2]).await?;
    for target in &strangers[..2] {
        ensure!(
            found(&log, "reached", target),
            "the other's own worker does not reach {target:?}:\n{log}"
        );
    }
    Ok(())
}

/// What is found out from a pod that policies take for a worker of the tenant cluster.
async fn from(tenant: &Tenant, targets: &[Target]) -> Result<String> {
    let (client, namespace) = (&tenant.management, tenant.tenant_namespace());
    probe_from(client, &namespace, api::names::COMPONENT_WORKER, targets).await
}

/// Addresses of a tenant cluster's parts.
struct Parts {
    control_plane: String,
    service: Target,
    etcd: String,
    service_of_etcd: String,
}

async fn of_tenant(tenant: &Tenant) -> Result<Parts> {
    let namespace = tenant.tenant_namespace();
    let services: Api<Service> = tenant.parts();
    let of = async |part: &str| address(&tenant.management, &namespace, &selector(part)).await;
    let service = services.get("control-plane").await?;
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter());
    let port = ports.flatten().next().context("the Service has no port")?;
    Ok(Parts {
        service: (cluster_ip(&service)?, u16::try_from(port.port)?),
        control_plane: of("control-plane").await?,
        etcd: of("etcd").await?,
        service_of_etcd: cluster_ip(&services.get("etcd-0").await?)?,
    })
}

fn cluster_ip(service: &Service) -> Result<String> {
    let address = service
        .spec
        .as_ref()
        .and_then(|spec| spec.cluster_ip.clone());
    address.context("a Service has no address")
}

/// Internal address of the lab's node.
async fn node(s: &Scenario) -> Result<String> {
    let nodes: Api<Node> = Api::all(s.client().clone());
    let nodes = nodes.list(&ListParams::default()).await?;
    let addresses = nodes.items.into_iter().flat_map(|node| {
        let status = node.status.unwrap_or_default();
        status.addresses.unwrap_or_default()
    });
    let mut internal = addresses.filter(|address| address.type_ == "InternalIP");
    Ok(internal.next().context("no node has an address")?.address)
}
