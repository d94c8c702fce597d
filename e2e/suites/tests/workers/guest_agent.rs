//! Needs: operator, ccm, vm, lab-agent
//!
//! A hostile guest: its agent says that it has addresses of somebody else, hundreds more, and two
//! interfaces of one MAC. KubeVirt believes it; load balancers, nodes, Machines and certificates do not
//! (findings D3 and S2). Then it says ten thousand, of which KubeVirt 1.9 hears nothing: it asks libvirt, which gives
//! at most 2048 parameters of a guest (`virTypedParamsSerialize`), three for an address. What it heard before stays.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::foreign::kubevirt::VirtualMachineInstance;
use api::names;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::PostParams;
use kube::{Api, runtime::watcher::Config};
use serde_json::{Value, json};
use suites::{
    cluster::{parts::selector, wait::wait_for, wait::wait_list},
    scenario::{
        self, PATIENCE, Scenario,
        workers::{NODES, PODS, Workers},
        workload::node_pod,
    },
};

use super::hostile::{SERVING, kubelet, request};

/// Of an address of the management cluster's Services, and of nobody.
const FOREIGN: [&str; 2] = ["10.96.0.1", "fd00:bad::1"];
/// Addresses that the agent makes up besides: as many as KubeVirt is told, and later far more.
const MORE: [&str; 2] = ["600", "10000"];

#[tokio::test]
async fn what_a_guests_agent_says_leads_no_traffic_and_gets_no_certificate() {
    scenario::run("guest-agent", guest_agent).await;
}

async fn guest_agent(s: &Scenario) -> Result<()> {
    let workers = s
        .workers(|cluster, _| cluster.addons.cloud_controller.enabled = true)
        .await?;
    let machines = workers.pool.settled(1, NODES).await?;
    let (machine, _) = machines.first_key_value().context("no Machine")?;
    workers.tenant.settled(PODS).await?;
    let own = pod_of(&workers, machine).await?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "public" },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
    });
    workers.kubectl.apply(&service.to_string()).await?;
    led_to(&workers, &own).await?;

    workers.kubectl.apply(&agent_on(machine)?).await?;
    let instances: Api<VirtualMachineInstance> = workers.tenant.parts();
    let what = "KubeVirt believes the agent";
    wait_for(&instances, machine, what, PODS, |instance| {
        let interfaces = instance.status.as_ref()?.interfaces.as_deref()?;
        let reported = interfaces
            .iter()
            .flat_map(|i| i.ip_addresses.iter().flatten());
        let reported: BTreeSet<_> = reported.map(String::as_str).collect();
        let all = FOREIGN.iter().all(|address| reported.contains(address));
        (all && reported.len() > 600).then_some(())
    })
    .await?;
    says(&workers, MORE[1]).await?;

    // A Service and a request that come later are judged by what is known then.
    let later = service.to_string().replace("public", "later");
    workers.kubectl.apply(&later).await?;
    certificate_is_denied(&workers, machine).await?;
    led_to(&workers, &own).await?;
    let admin = workers.tenant.admin(PATIENCE).await?;
    let node = Api::<Node>::all(admin).get(machine).await?;
    let addresses = node.status.unwrap_or_default().addresses;
    let addresses = addresses.unwrap_or_default().into_iter();
    let internal: Vec<_> = addresses
        .filter(|address| address.type_ == "InternalIP")
        .map(|address| address.address)
        .collect();
    ensure!(internal == [own.clone()], "the node has {internal:?}");
    let machines = workers.pool.settled(1, NODES).await?;
    let status = machines.get(machine).and_then(|m| m.status.clone());
    let status = status.context("the Machine was replaced")?;
    let known: Vec<_> = status.addresses.iter().map(|a| &a.address).collect();
    ensure!(known == [&own], "the Machine has {known:?}");
    Ok(())
}

/// The address of the pod around a machine.
async fn pod_of(workers: &Workers, machine: &str) -> Result<String> {
    let pods: Api<Pod> = workers.tenant.parts();
    let config = Config::default().labels(&format!("{}={machine}", names::LABEL_MACHINE));
    let address = |all: &BTreeMap<String, Pod>| {
        let statuses = all.values().filter_map(|pod| pod.status.as_ref());
        let mut running = statuses.filter(|s| s.phase.as_deref() == Some("Running"));
        running.find_map(|status| status.pod_ip.clone())
    };
    wait_list(&pods, config, "the machine's pod", PATIENCE, address).await
}

/// Waits until every slice of a load balancer leads to this address; that any leads elsewhere is an error.
async fn led_to(workers: &Workers, address: &str) -> Result<()> {
    let slices: Api<EndpointSlice> = workers.tenant.parts();
    let config = Config::default().labels(&selector(names::COMPONENT_LOAD_BALANCER));
    let found = |all: &BTreeMap<String, EndpointSlice>| {
        let endpoints = all.values().flat_map(|slice| &slice.endpoints);
        let addresses: BTreeSet<_> = endpoints.flat_map(|e| e.addresses.clone()).collect();
        let all_led = all.values().all(|slice| !slice.endpoints.is_empty());
        (!all.is_empty() && all_led).then_some(addresses)
    };
    let found = wait_list(&slices, config, "load balancers are led", PODS, found).await?;
    let only = BTreeSet::from([address.to_owned()]);
    ensure!(
        found == only,
        "load balancers lead to {found:?}, not to {address}"
    );
    Ok(())
}

/// Waits until the agent was asked, and said so many.
async fn says(workers: &Workers, more: &str) -> Result<()> {
    let line = format!("guest-network-get-interfaces {more}");
    let mut looks = tokio::time::interval(Duration::from_secs(1));
    let said = async {
        loop {
            looks.tick().await;
            // Refused while the kubelet is not reached for a moment, or the pod starts anew.
            let log = workers.kubectl.run(&["logs", "agent"]).await;
            if log.is_ok_and(|log| log.lines().any(|said| said == line)) {
                return;
            }
        }
    };
    let said = tokio::time::timeout(PODS, said).await;
    said.with_context(|| format!("the agent never said {more} addresses"))
}

/// The pod that is the agent: whoever administers a tenant cluster may have one.
fn agent_on(node: &str) -> Result<String> {
    let mut pod: Value = serde_json::from_str(&node_pod("agent", node))?;
    let addresses = FOREIGN.join(" ");
    let [first, later] = MORE;
    let script = format!(
        "nsenter -t 1 -m -- modprobe virtio_console && exec /testserver guest-agent {first} {later} {addresses}"
    );
    pod["spec"]["restartPolicy"] = json!("Always");
    pod["spec"]["containers"][0]["command"] = json!(["sh", "-c", script]);
    // Devices that come later are seen, too.
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "dev", "mountPath": "/dev" }]);
    pod["spec"]["volumes"] = json!([{ "name": "dev", "hostPath": { "path": "/dev" } }]);
    Ok(pod.to_string())
}

/// The kubelet asks for a certificate of an address that its machine says that it has.
async fn certificate_is_denied(workers: &Workers, machine: &str) -> Result<()> {
    let kubelet = kubelet(workers, machine).await?;
    let (user, usages) = (
        format!("system:node:{machine}"),
        ["digital signature", "server auth"],
    );
    let address: IpAddr = FOREIGN[0].parse()?;
    let asked = request("foreign", SERVING, &user, machine, address, &usages)?;
    let requests: Api<CertificateSigningRequest> = Api::all(kubelet);
    requests.create(&PostParams::default(), &asked).await?;
    let judged = Api::all(workers.tenant.admin(PATIENCE).await?);
    let is_denied = |csr: &CertificateSigningRequest| {
        let conditions = csr.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|c| c.type_ == "Denied").map(drop)
    };
    wait_for(&judged, "foreign", "is denied", PATIENCE, is_denied).await
}
