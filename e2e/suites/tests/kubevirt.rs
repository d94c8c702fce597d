//! Needs: vm, lab-agent
//!
//! KubeVirt in the lab: virtual machines start, are reached at their pods' addresses, and go.
//!
//! What everything about workers stands on, in a minute. `cargo test --workspace --test kubevirt` with the
//! lab up. Invariant: every test makes what it needs and removes it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use api::foreign::kubevirt::VirtualMachineInstance;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
    runtime::watcher::Config,
};
use serde_json::{Value, json};
use suites::{
    cluster::wait::{wait_for, wait_list},
    scenario::{self, Scenario, pods},
};

/// Made by the lab: a shell on port 8, nothing else.
const IMAGE: &str = "ghcr.io/covey-dev/testmachine:1";
const SHELL: u16 = 8;
/// Label of everything that a test makes.
const LABEL: &str = "test=kubevirt";
const PATIENCE: Duration = Duration::from_secs(180);

#[tokio::test]
async fn three_machines_made_at_once_run_are_reached_and_leave_no_pod() {
    scenario::run("machines", machines).await;
}

async fn machines(s: &Scenario) -> Result<()> {
    s.management.virtual_machines().await?;
    // The detector of a mismatch between KubeVirt and Kubernetes under which machines that are made
    // one by one come up, and those made together stay pending.
    let machines: Api<DynamicObject> =
        Api::namespaced_with(s.client().clone(), &s.namespace, &kind());
    let made = [
        ("one", "bridge"),
        ("two", "bridge"),
        ("three", "masquerade"),
    ];
    for (name, binding) in made {
        let object = serde_json::from_value(machine(name, binding))?;
        machines.create(&PostParams::default(), &object).await?;
    }
    let balancer = publish(s).await?;
    let addresses = ready(s, made.len()).await?;
    let [one, two, three] = ["one", "two", "three"].map(|name| address(&addresses, name));
    let (one, two, three) = (one?, two?, three?);

    own_address(s, one, true).await?;
    own_address(s, three, false).await?;
    reaches(s, one, two).await?;
    reaches(s, three, one).await?;
    is_reached(s, one, balancer).await?;

    for (name, _) in made {
        machines.delete(name, &DeleteParams::background()).await?;
    }
    let pods: Api<Pod> = Api::namespaced(s.client().clone(), &s.namespace);
    let selected = Config::default().labels(LABEL);
    let gone = "the machines' pods are gone";
    wait_list(&pods, selected, gone, PATIENCE, |pods| {
        pods.is_empty().then_some(())
    })
    .await
}

fn kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        "kubevirt.io",
        "v1",
        "VirtualMachine",
    ))
}

fn machine(name: &str, binding: &str) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": { "name": name },
        "spec": { "runStrategy": "Always", "template": {
            "metadata": { "labels": { "test": "kubevirt" } },
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "readinessProbe": { "tcpSocket": { "port": SHELL }, "periodSeconds": 1 },
                "domain": {
                    "memory": { "guest": "192Mi" },
                    "firmware": { "kernelBoot": {
                        "kernelArgs": "console=ttyS0 quiet panic=1",
                        "container": {
                            "image": IMAGE,
                            "kernelPath": "/boot/vmlinux",
                            "initrdPath": "/boot/initrd.img",
                        },
                    } },
                    "devices": { "interfaces": [{ "name": "default", binding: {} }] },
                },
                "networks": [{ "name": "default", "pod": {} }],
            },
        } },
    })
}

/// A Service of type LoadBalancer for all machines; its addresses, that of the cluster first.
async fn publish(s: &Scenario) -> Result<[String; 2]> {
    let services: Api<Service> = Api::namespaced(s.client().clone(), &s.namespace);
    let service = serde_json::from_value(json!({
        "metadata": { "name": "machines" },
        "spec": {
            "type": "LoadBalancer",
            "selector": { "test": "kubevirt" },
            "ports": [{ "port": 80, "targetPort": SHELL }],
        },
    }))?;
    services.create(&PostParams::default(), &service).await?;
    let has = "has the address of a load balancer";
    wait_for(&services, "machines", has, PATIENCE, |service| {
        let cluster = service.spec.as_ref()?.cluster_ip.clone()?;
        let status = service.status.as_ref()?.load_balancer.as_ref()?;
        let given = status.ingress.as_ref()?.first()?.ip.clone()?;
        Some([cluster, given])
    })
    .await
}

/// Waits until all machines run and answer; their addresses by name.
async fn ready(s: &Scenario, count: usize) -> Result<Vec<(String, IpAddr)>> {
    let instances: Api<VirtualMachineInstance> = Api::namespaced(s.client().clone(), &s.namespace);
    let what = "all machines run and answer";
    wait_list(&instances, Config::default(), what, PATIENCE, |all| {
        let ready: Vec<_> = all.values().filter_map(running).collect();
        (ready.len() == count).then_some(ready)
    })
    .await
}

fn running(instance: &VirtualMachineInstance) -> Option<(String, IpAddr)> {
    let status = instance.status.as_ref()?;
    let conditions = status.conditions.as_ref()?;
    let is_ready = conditions
        .iter()
        .any(|condition| condition.r#type == "Ready" && condition.status == "True");
    let address = status.interfaces.as_ref()?.first()?.ip_address.as_ref()?;
    let runs = status.phase.as_deref() == Some("Running") && is_ready;
    runs.then_some((instance.name_any(), address.parse().ok()?))
}

fn address(all: &[(String, IpAddr)], name: &str) -> Result<IpAddr> {
    let found = all.iter().find(|(other, _)| other == name);
    found.map(|(_, address)| *address).context("it runs")
}

/// On the bridge a machine has its pod's address, so that what is in it can say where it is.
async fn own_address(s: &Scenario, machine: IpAddr, same: bool) -> Result<()> {
    let said = ask(machine, "ip -4 addr show eth0").await?;
    ensure!(
        said.contains(&format!("inet {machine}/")) == same,
        "{machine} says of itself:\n{said}"
    );
    let pods: Api<Pod> = Api::namespaced(s.client().clone(), &s.namespace);
    let list = pods.list(&Default::default()).await?;
    let has = |pod: &Pod| {
        let status = pod.status.as_ref();
        status.and_then(|status| status.pod_ip.clone()) == Some(machine.to_string())
    };
    ensure!(list.iter().any(has), "no pod has the address {machine}");
    Ok(())
}

/// What nodes of a tenant cluster need of each other and of the management cluster: names, its
/// Services, each other's TCP and UDP ports.
async fn reaches(s: &Scenario, from: IpAddr, to: IpAddr) -> Result<()> {
    let name = format!("machines.{}.svc.cluster.local", s.namespace);
    let said = ask(from, &format!("nslookup {name}")).await?;
    ensure!(said.contains(&name) && !said.contains("can't"), "{said}");
    for target in [
        format!("{to} {SHELL}"),
        format!("{name} 80"),
        "kubernetes.default.svc.cluster.local 443".to_owned(),
    ] {
        let said = ask(
            from,
            &format!("nc -w 5 {target} </dev/null && echo reached"),
        )
        .await?;
        ensure!(said.contains("reached"), "{from} to {target}:\n{said}");
    }
    // The port of vxlan. Nobody listens there, and the machine itself says so.
    let trace = format!("traceroute -n -p 8471 -q 1 -w 3 -m 3 {to}");
    let said = ask(from, &trace).await?;
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    let arrived = last.is_some_and(|line| line.contains(&to.to_string()));
    ensure!(
        arrived && !said.contains('!'),
        "{from} to {to} by UDP:\n{said}"
    );
    Ok(())
}

/// From a pod, from this machine and from the lab's host: by its own address, the Service's in the
/// cluster, and that of the load balancer.
async fn is_reached(s: &Scenario, machine: IpAddr, service: [String; 2]) -> Result<()> {
    let [cluster, balancer] = service;
    let targets = [
        (machine.to_string(), SHELL),
        (cluster, 80),
        (balancer, 80),
        ("machines".to_owned(), 80),
    ];
    let command = pods::Command {
        script: pods::probe(&targets),
        ..Default::default()
    };
    let outcome = pods::run(s.client(), &s.namespace, command).await?;
    for target in &targets {
        let reached = pods::found(&outcome.log, "reached", target);
        ensure!(reached, "a pod to {target:?}:\n{}", outcome.log);
    }
    for (address, port) in &targets[..3] {
        let said = exchange(SocketAddr::new(address.parse()?, *port), "echo here").await?;
        ensure!(said.contains("here"), "this machine to {address}: {said}");
        let knock = format!("echo echo here | busybox nc -w 5 {address} {port}");
        let said = s.on_host("sh", &["-c", &knock])?;
        ensure!(said.contains("here"), "the host to {address}: {said}");
    }
    Ok(())
}

/// What a machine's shell prints for a command.
async fn ask(machine: IpAddr, command: &str) -> Result<String> {
    exchange(SocketAddr::new(machine, SHELL), command).await
}

async fn exchange(at: SocketAddr, command: &str) -> Result<String> {
    let script = format!("exec 2>&1; {command}; exit\n");
    let talk = move || -> Result<String> {
        let mut stream = TcpStream::connect_timeout(&at, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(script.as_bytes())?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        Ok(said)
    };
    tokio::task::spawn_blocking(talk)
        .await?
        .with_context(|| format!("{at} does not answer"))
}

#[tokio::test]
async fn load_balancers_have_addresses_of_their_own_and_give_them_back() {
    scenario::run("balancers", balancers).await;
}

async fn balancers(s: &Scenario) -> Result<()> {
    let services: Api<Service> = Api::namespaced(s.client().clone(), &s.namespace);
    for (name, class) in [
        ("plain", None),
        ("named", Some("lab")),
        ("other", Some("example.com/x")),
    ] {
        let service = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": {
                "type": "LoadBalancer",
                "loadBalancerClass": class,
                "selector": { "nobody": "here" },
                "ports": [{ "port": 80 }],
            },
        }))?;
        services.create(&PostParams::default(), &service).await?;
    }
    let given = |service: &Service| {
        let status = service.status.as_ref()?.load_balancer.as_ref()?;
        status.ingress.as_ref()?.first()?.ip.clone()
    };
    let has = "has the address of a load balancer";
    let plain = wait_for(&services, "plain", has, PATIENCE, given).await?;
    let named = wait_for(&services, "named", has, PATIENCE, given).await?;
    ensure!(plain != named, "both have {plain}");
    let other = services.get("other").await?;
    ensure!(
        given(&other).is_none(),
        "another class has an address of ours"
    );

    services
        .delete("plain", &DeleteParams::background())
        .await?;
    let again = serde_json::from_value(json!({
        "metadata": { "name": "again" },
        "spec": { "type": "LoadBalancer", "loadBalancerIP": plain, "ports": [{ "port": 80 }] },
    }))?;
    services.create(&PostParams::default(), &again).await?;
    let again = wait_for(&services, "again", has, PATIENCE, given).await?;
    ensure!(again == plain, "{plain} was not given back");
    ensure!(
        given(&services.get("named").await?) == Some(named),
        "it changed"
    );

    // A Service that becomes another kind loses it.
    let plain_again = json!({ "spec": { "type": "ClusterIP" } });
    let patch = kube::api::Patch::Merge(&plain_again);
    services.patch("named", &Default::default(), &patch).await?;
    let lost = "has no address of a load balancer any more";
    wait_for(&services, "named", lost, PATIENCE, |service| {
        given(service).is_none().then_some(())
    })
    .await
}
