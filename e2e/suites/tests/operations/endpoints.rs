//! Needs: operator, lab-agent
//!
//! The endpoint by a load balancer that has an address, or only a host name, and by a port of the
//! nodes.

use anyhow::{Context as _, Result, ensure};
use api::{
    ConditionType,
    tenant_cluster::{EndpointStatus, EndpointType},
};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use serde_json::json;
use suites::{
    cluster::{credentials, tenant::Tenant, wait::wait_for},
    scenario::{self, PATIENCE, Scenario},
};
use x509_parser::{parse_x509_certificate, pem::parse_x509_pem};

const CLASS: &str = "example.com/names";
const HOST: &str = "lb-1234.elb.example.com";

#[tokio::test]
async fn a_load_balancer_with_a_host_name_alone_becomes_the_endpoint() {
    scenario::run("load-balancer", load_balancer).await;
}

async fn load_balancer(s: &Scenario) -> Result<()> {
    let tenant = s
        .tenant("demo", |spec| {
            let endpoint = &mut spec.control_plane.endpoint;
            endpoint.type_ = EndpointType::LoadBalancer;
            // Nobody's in the lab: the test plays the cloud that has it.
            endpoint.load_balancer_class = Some(CLASS.to_owned());
        })
        .await?;
    let services: Api<Service> = tenant.parts();
    // Until the cloud gives an address, the tenant cluster waits and says for what.
    wait_for(
        &tenant.api(),
        "demo",
        "waits for an address",
        PATIENCE,
        |cluster| {
            let conditions = &cluster.status.as_ref()?.conditions;
            let found = conditions.iter().find(|c| c.type_ == "EndpointReady")?;
            (found.status == "False" && found.message.contains("load balancer")).then_some(())
        },
    )
    .await?;
    wait_for(&services, "control-plane", "is made", PATIENCE, |service| {
        let spec = service.spec.as_ref()?;
        let class = spec.load_balancer_class.as_deref() == Some(CLASS);
        (class && spec.type_.as_deref() == Some("LoadBalancer")).then_some(())
    })
    .await?;
    tenant.balance(&json!([{ "hostname": HOST }])).await?;

    let cluster = tenant
        .condition(ConditionType::Ready, true, PATIENCE)
        .await?;
    let endpoint = cluster
        .status
        .and_then(|status| status.endpoint)
        .context("no endpoint")?;
    ensure!(
        endpoint.host == HOST && endpoint.port == 6443,
        "{endpoint:?}"
    );
    let text = tenant.kubeconfig(PATIENCE).await?;
    let credentials::Access {
        server,
        authority,
        certificate,
        key,
    } = credentials::parts(&text)?;
    ensure!(server == format!("https://{HOST}:6443"), "{server}");

    let stored = tenant.secret("apiserver", "apiserver.crt").await?;
    let (_, pem) = parse_x509_pem(&stored)?;
    let (_, serving) = parse_x509_certificate(&pem.contents)?;
    let names = serving.subject_alternative_name()?.context("no names")?;
    ensure!(
        format!("{:?}", names.value).contains(HOST),
        "{:?}",
        names.value
    );

    // The name is nobody's here, so the client goes to the Service and insists on the name.
    let service = services.get("control-plane").await?;
    let address = service
        .spec
        .and_then(|spec| spec.cluster_ip)
        .context("no ClusterIP")?;
    let identity = credentials::Identity::Certificate { certificate, key };
    let server = format!("https://{address}:6443");
    let client = credentials::named(&server, &authority, &identity, HOST).await?;
    client
        .apiserver_version()
        .await
        .context("the API does not serve the load balancer's name")?;
    Ok(())
}

#[tokio::test]
async fn a_load_balancers_address_becomes_the_endpoint() {
    scenario::run("address", address).await;
}

async fn address(s: &Scenario) -> Result<()> {
    let tenant = s
        .tenant("demo", |spec| {
            spec.control_plane.endpoint.type_ = EndpointType::LoadBalancer;
        })
        .await?;
    let (endpoint, service) = published(&tenant).await?;
    let balancer = service.status.and_then(|status| status.load_balancer);
    let ingress = balancer.and_then(|balancer| balancer.ingress);
    let ip = ingress.unwrap_or_default().into_iter().find_map(|i| i.ip);
    ensure!(
        ip.as_ref() == Some(&endpoint.host) && endpoint.port == 6443,
        "{endpoint:?}, {ip:?}"
    );
    Ok(())
}

/// Where a tenant's API is said to be, once it takes writes there, and the Service that publishes it.
async fn published(tenant: &Tenant) -> Result<(EndpointStatus, Service)> {
    tenant.usable(PATIENCE).await?;
    let status = tenant.settled(PATIENCE).await?.status.unwrap_or_default();
    let endpoint = status.endpoint.context("no endpoint")?;
    let credentials::Access { server, .. } =
        credentials::parts(&tenant.kubeconfig(PATIENCE).await?)?;
    ensure!(
        server == format!("https://{}:{}", endpoint.host, endpoint.port),
        "{server}"
    );
    let service = tenant.parts::<Service>().get("control-plane").await?;
    Ok((endpoint, service))
}

#[tokio::test]
async fn a_port_of_the_nodes_becomes_the_endpoint() {
    scenario::run("node-port", node_port).await;
}

async fn node_port(s: &Scenario) -> Result<()> {
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(s.client().clone());
    let node = nodes.get(lab::MANAGEMENT_HOST).await?;
    let addresses = node
        .status
        .and_then(|status| status.addresses)
        .unwrap_or_default();
    let host = addresses
        .into_iter()
        .find(|a| a.type_ == "InternalIP")
        .context("no address")?
        .address;
    let tenant = s
        .tenant("demo", |spec| {
            spec.control_plane.endpoint.type_ = EndpointType::NodePort;
            spec.control_plane.endpoint.host = Some(host.clone());
        })
        .await?;
    let (endpoint, service) = published(&tenant).await?;
    let ports = service.spec.and_then(|spec| spec.ports);
    let port = ports
        .unwrap_or_default()
        .first()
        .and_then(|port| port.node_port);
    ensure!(
        Some(endpoint.port) == port && endpoint.host == host,
        "{endpoint:?}, {port:?}"
    );
    Ok(())
}
