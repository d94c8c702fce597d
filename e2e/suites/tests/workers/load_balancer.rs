//! Needs: operator, ccm, node, lab-agent
//!
//! A tenant's Service of type LoadBalancer is reached from outside of the tenant cluster: it has an
//! address of the management cluster, follows its Service, and goes with it, or with the addon.
//!
//! The suite `worker` takes [`node_is_initialised`] and [`is_reached`] along, so that a short run has
//! them, too.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, bail, ensure};
use api::names;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{Api, ResourceExt as _, api::ListParams, runtime::watcher::Config};
use serde_json::json;
use suites::{
    cluster::{
        operator::get,
        parts::selector,
        wait::{wait_for, wait_gone, wait_list},
    },
    scenario::{
        self, PATIENCE, Scenario,
        workers::{NODES, PODS, Workers},
        workload::{HTTP, Workload},
    },
};
use tokio::{
    net::UdpSocket,
    time::{Instant, interval, timeout},
};

const NAME: &str = "public";
/// The Service's port of UDP (RFC 862).
const ECHO: u16 = 7;
const WEB: Workload<'_> = Workload {
    name: "web",
    replicas: 1,
    config_map: None,
    stays: 0,
};

#[tokio::test]
async fn a_load_balancer_is_reached_from_outside_follows_its_service_and_goes_with_it() {
    scenario::run("load-balancer", load_balancer).await;
}

async fn load_balancer(s: &Scenario) -> Result<()> {
    let workers = s
        .workers(|cluster, _| cluster.addons.cloud_controller.enabled = true)
        .await?;
    workers.pool.settled(1, NODES).await?;
    workers.tenant.settled(PODS).await?;
    node_is_initialised(&workers).await?;
    let pods = WEB.deploy(&workers.kubectl, PODS).await?;
    let services = in_default(&workers).await?;
    let Reached {
        address,
        mirror,
        uid,
    } = is_reached(&workers, &pods[0]).await?;

    publish(&workers, &[80, 8080]).await?;
    answers(&address, 8080, &pods[0]).await?;
    answers(&address, 80, &pods[0]).await?;
    clients_address_is_kept(&workers, &address).await?;

    // Waits for the finalizer: the Service goes only when its mirror has gone.
    let delete = ["delete", "service", NAME];
    workers.kubectl.run_within(PATIENCE, &delete).await?;
    let outside: Api<Service> = workers.tenant.parts();
    wait_gone(&outside, &mirror, Some(&uid), PATIENCE).await?;
    switched_off(&workers, &services).await
}

/// Where a Service is reached, and what stands for it in the tenant namespace.
pub(crate) struct Reached {
    address: String,
    mirror: String,
    uid: String,
}

/// The only pod of the workload `web` answers at an address of the management cluster, by TCP and
/// UDP.
pub(crate) async fn is_reached(workers: &Workers, pod: &str) -> Result<Reached> {
    let reached = published(workers).await?;
    answers(&reached.address, 80, pod).await?;
    echoes(&reached.address, pod).await?;
    Ok(reached)
}

/// The Service is there and has an address, the one of its mirror.
async fn published(workers: &Workers) -> Result<Reached> {
    publish(workers, &[80]).await?;
    let services = in_default(workers).await?;
    let what = "has an address";
    let address = wait_for(&services, NAME, what, PATIENCE, address).await?;
    let (mirror, uid) = mirror(workers, &address).await?;
    Ok(Reached {
        address,
        mirror,
        uid,
    })
}

/// A Service that has a load balancer loses it, and can be deleted although nobody is left who
/// minds it.
async fn switched_off(workers: &Workers, services: &Api<Service>) -> Result<()> {
    let Reached { mirror, uid, .. } = published(workers).await?;
    let off = json!({ "addons": { "cloudController": { "enabled": false } } });
    let tenant = &workers.tenant;
    tenant.change(&off).await?;
    let outside: Api<Service> = tenant.parts();
    wait_gone(&outside, &mirror, Some(&uid), PATIENCE).await?;
    let free = |service: &Service| {
        let free = service.finalizers().is_empty() && address(service).is_none();
        free.then_some(())
    };
    wait_for(services, NAME, "is released", PATIENCE, free).await?;
    let delete = ["delete", "service", NAME];
    workers
        .kubectl
        .run_within(PATIENCE, &delete)
        .await
        .map(drop)
}

/// The taint of a new node is gone, and it is known of what size its machine is, and where.
pub(crate) async fn node_is_initialised(workers: &Workers) -> Result<()> {
    let nodes = Api::<Node>::all(workers.tenant.admin(PATIENCE).await?);
    let list = nodes.list(&ListParams::default()).await?;
    ensure!(!list.items.is_empty(), "there is no node");
    for node in list {
        let name = node.name_any();
        let type_ = node.labels().get(names::LABEL_INSTANCE_TYPE);
        ensure!(
            type_.is_some_and(|type_| type_ == "kubevirt-2cpu-1536Mi"),
            "{name} is of type {type_:?}"
        );
        let zone = node.labels().get(names::LABEL_ZONE);
        ensure!(
            zone.is_some_and(|zone| zone == lab::ZONE),
            "{name} is in {zone:?}, not where its host is"
        );
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        let new = |key: &str| key.starts_with("node.cloudprovider.kubernetes.io/");
        ensure!(taints.iter().all(|taint| !new(&taint.key)), "{taints:?}");
    }
    Ok(())
}

/// The Services of the namespace `default`.
pub(super) async fn in_default(workers: &Workers) -> Result<Api<Service>> {
    let admin = workers.tenant.admin(PATIENCE).await?;
    Ok(Api::namespaced(admin, "default"))
}

/// Ports of TCP, and one of UDP.
async fn publish(workers: &Workers, ports: &[u16]) -> Result<()> {
    let port = |port: &u16| json!({ "name": format!("p{port}"), "port": port, "targetPort": HTTP });
    let mut ports: Vec<_> = ports.iter().map(port).collect();
    ports.push(json!({ "name": "echo", "protocol": "UDP", "port": ECHO, "targetPort": HTTP }));
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": NAME },
        "spec": { "type": "LoadBalancer", "selector": { "app": WEB.name }, "ports": ports },
    });
    workers.kubectl.apply(&service.to_string()).await.map(drop)
}

/// Where a Service is reached, once that is said.
pub(super) fn address(service: &Service) -> Option<String> {
    let status = service.status.as_ref()?.load_balancer.as_ref()?;
    status.ingress.as_ref()?.first()?.ip.clone()
}

/// Name and UID of the only mirror in the tenant namespace, which has the address that the tenant
/// was told.
async fn mirror(workers: &Workers, expected: &str) -> Result<(String, String)> {
    let outside: Api<Service> = workers.tenant.parts();
    let config = Config::default().labels(&selector(names::COMPONENT_LOAD_BALANCER));
    let only = |all: &BTreeMap<String, Service>| match all.values().collect::<Vec<_>>()[..] {
        [one] => Some((one.name_any(), one.uid()?, address(one)?)),
        _ => None,
    };
    let what = "one mirror with an address";
    let (name, uid, found) = wait_list(&outside, config, what, PATIENCE, only).await?;
    ensure!(
        found == expected,
        "{name} has {found}, the tenant was told {expected}"
    );
    Ok((name, uid))
}

/// A datagram comes back from the pod. Each is sent until then: UDP may lose some.
async fn echoes(address: &str, pod: &str) -> Result<()> {
    let socket = towards(address).await?;
    let (begun, wanted) = (Instant::now(), format!("{pod}: hello"));
    let mut tries = interval(Duration::from_millis(200));
    loop {
        tries.tick().await;
        let mut said = [0; 256];
        // What the kernel says when it is sent may be that the one before was refused on the way.
        let sent = socket.send(b"hello").await;
        let answer = timeout(Duration::from_millis(200), socket.recv(&mut said)).await;
        match answer {
            Ok(Ok(size)) => {
                let said = String::from_utf8_lossy(&said[..size]);
                ensure!(said == wanted, "{said:?} came back instead of {wanted:?}");
                return Ok(());
            }
            answer if begun.elapsed() > PATIENCE => {
                bail!("no echo from {address}: {sent:?}, {answer:?}")
            }
            _ => {}
        }
    }
}

/// A socket whose own address is the one that packets to `address` go out from.
async fn towards(address: &str) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).await?;
    socket.connect((address, ECHO)).await?;
    Ok(socket)
}

/// With `externalTrafficPolicy: Local` the pod sees who asks; without, a node.
async fn clients_address_is_kept(workers: &Workers, address: &str) -> Result<()> {
    let ours = towards(address).await?.local_addr()?.ip().to_string();
    let seen = get(address, 80, "/you").await?;
    ensure!(
        seen.trim() != ours,
        "the address {ours} is kept in any case, so this proves nothing"
    );
    let local = r#"{"spec":{"externalTrafficPolicy":"Local"}}"#;
    let patch = ["patch", "service", NAME, "-p", local];
    workers.kubectl.run(&patch).await?;
    says(address, 80, "/you", &ours).await
}

async fn answers(address: &str, port: u16, pod: &str) -> Result<()> {
    says(address, port, "/from-outside", &format!("hello from {pod}")).await
}

/// Asked from outside until it says so: the rules of kube-proxy take a moment on both sides.
async fn says(address: &str, port: u16, path: &str, wanted: &str) -> Result<()> {
    let (begun, mut tries) = (Instant::now(), interval(Duration::from_millis(100)));
    loop {
        tries.tick().await;
        match get(address, port, path).await {
            Ok(said) if said.trim() == wanted => return Ok(()),
            said if begun.elapsed() > PATIENCE => {
                bail!("{address}:{port}{path} said {said:?} instead of {wanted:?}")
            }
            _ => {}
        }
    }
}
