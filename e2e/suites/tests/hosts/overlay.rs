//! Needs: operator, host, overlay
//!
//! One tenant cluster over two sites that are both behind NAT and have one private range: a host of each, with the very
//! same address there, becomes a node that is known by its address in the overlay.
//!
//! The gateway of one site forwards a port to its host, as its owner would have it; nothing else leads from one site to
//! the other.
//! Invariant: what is asked between the sites has to work at the first try, once nodes and pods have said that they are
//! ready; what a machine was before its first node it is again afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use api::{
    ConditionType, Host, condition,
    node_pool::{HostSelector, Provider, Static},
    tenant_cluster::Overlay,
};
use futures::future::try_join;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _, api::ListParams, runtime::watcher::Config};
use serde_json::{Value, json};
use suites::{
    cluster::{
        Pool, Tenant,
        pool::small,
        wait::{wait_for, wait_list},
    },
    scenario::{
        self, PATIENCE, Scenario,
        kubectl::Kubectl,
        lab_hosts::{LabHosts, difference, inside, state_of},
        traffic::Traffic,
        workers::PODS,
        workload::list,
    },
};
use testkit::waiting::ask_until;

use crate::is_free;

/// Nobody's at the lab's sites, nor the lab's own.
const RANGE: &str = "198.19.0.0/24";
/// Where tunnels come to on a machine.
const PORT: u16 = 51820;
/// The site whose gateway forwards that port, and the one from where nothing can be dialled but outwards.
const SITES: [&str; 2] = ["north", "south"];

#[tokio::test]
async fn nodes_of_two_sites_with_one_private_range_reach_each_other_by_the_overlay() {
    let mut machines = LabHosts::default();
    scenario::run("overlay", async |s| overlay(s, &mut machines).await).await;
    machines.end().unwrap();
}

/// A machine of a site.
struct Machine {
    site: &'static str,
    name: String,
    /// Its address there.
    address: String,
    /// How it looked before it was a node.
    before: Vec<String>,
}

async fn overlay(s: &Scenario, machines: &mut LabHosts) -> Result<()> {
    let overlay = Overlay {
        enabled: true,
        cidr: Some(RANGE.to_owned()),
    };
    let tenant = s.tenant("demo", |spec| spec.addons.overlay = overlay);
    let tenant = tenant.await?;
    let mut hosts = Vec::new();
    let mut objects = Vec::new();
    for site in SITES {
        let added = machines.add(s, site, &["--site", site]).await?;
        let (address, object) = described(site, &added.objects)?;
        objects.extend(object);
        hosts.push(Machine {
            site,
            before: state_of(s, &added.name)?,
            name: added.name,
            address,
        });
    }
    let [north, south] = &hosts[..] else {
        anyhow::bail!("two sites")
    };
    ensure!(
        north.address == south.address,
        "{} and {}: nothing would be shown",
        north.address,
        south.address
    );
    forward(s, north)?;
    tenant.usable(PATIENCE).await?;
    let kubectl = Kubectl::of(s, &tenant).await?;
    let manifest = s.file("hosts.json", &list(&objects))?;
    let manifest = manifest.to_str().context("a path that is no text")?;
    s.manage(&["apply", "-f", manifest]).await?;
    let life = life(s, &tenant, &kubectl, (north, south)).await;
    life.map_err(|error| error.context(logs(s, &hosts)))
}

/// The address at its site, and its objects with what its pool selects by and where other sites reach it.
fn described(site: &str, objects: &[Value]) -> Result<(String, Vec<Value>)> {
    let mut objects = objects.to_vec();
    let host = objects.iter_mut().find(|object| object["kind"] == "Host");
    let spec = &mut host.context("no Host is described")?["spec"];
    spec["labels"] = json!({ "site": site });
    if site == SITES[0] {
        let gateway = spec["via"][0]["address"].as_str();
        let gateway = gateway.context("a site has a gateway")?;
        spec["overlayEndpoint"] = json!(format!("{gateway}:{PORT}"));
    }
    let address = spec["address"].as_str().context("no address")?.to_owned();
    Ok((address, objects))
}

/// Has the gateway of a site lead the port to a machine behind it.
fn forward(s: &Scenario, machine: &Machine) -> Result<()> {
    let rules = format!(
        "nft insert rule ip lab-site forward iifname eth0 udp dport {PORT} accept\n\
         nft add chain ip lab-site prerouting '{{ type nat hook prerouting priority dstnat; }}'\n\
         nft add rule ip lab-site prerouting iifname eth0 udp dport {PORT} dnat to {}:{PORT}\n",
        machine.address
    );
    let gateway = format!("{}-gateway", machine.site);
    inside(s, &gateway, &format!("set -e\n{rules}")).map(drop)
}

async fn life(
    s: &Scenario,
    tenant: &Tenant,
    kubectl: &Kubectl,
    (north, south): (&Machine, &Machine),
) -> Result<()> {
    let pools = try_join(pool(tenant, north.site), pool(tenant, south.site));
    let (one, other) = pools.await?;
    let settled = try_join(one.settled(1, PATIENCE), other.settled(1, PATIENCE));
    settled.await?;
    tenant.settled(PODS).await?;
    let addresses = addresses(tenant).await?;
    let of_south = other.list().await?;
    let of_south = of_south.keys().next().context("no Machine")?;
    let of_south = &addresses[of_south];
    let pods_run = |tenant: &api::TenantCluster| {
        let status = tenant.status.as_ref()?;
        condition::is_true(&status.conditions, ConditionType::OverlayReady).then_some(())
    };
    wait_for(&s.tenants(), "demo", "OverlayReady", PODS, pods_run).await?;
    routes(s, north, of_south, true).await?;

    let traffic = Traffic::deploy(kubectl, PODS).await?;
    traffic.all().await?;

    // Whoever goes is forgotten by those that stay.
    other.patch(json!({ "replicas": 0 })).await?;
    let machines = other.machines();
    let none = |all: &BTreeMap<String, api::Machine>| all.is_empty().then(Instant::now);
    let gone = wait_list(&machines, other.own(), "no Machine is left", PATIENCE, none);
    let forgotten = async {
        routes(s, north, of_south, false).await?;
        Ok(Instant::now())
    };
    let (gone, forgotten) = try_join(gone, forgotten).await?;
    let after = forgotten.saturating_duration_since(gone);
    eprintln!("no peer any more {after:.1?} after its Machine was gone");

    one.patch(json!({ "replicas": 0 })).await?;
    let hosts: Api<Host> = Api::namespaced(s.client().clone(), &s.namespace);
    let what = "both Hosts are Available and Clean";
    wait_list(&hosts, Config::default(), what, PATIENCE, |all| {
        (all.len() == 2 && all.values().all(is_free)).then_some(())
    })
    .await?;
    for machine in [north, south] {
        let differs = difference(&machine.before, &state_of(s, &machine.name)?);
        ensure!(differs.is_empty(), "{}: {differs:#?}", machine.name);
    }
    Ok(())
}

/// One of the hosts of a site. Pools are sites of the overlay.
async fn pool(tenant: &Tenant, site: &str) -> Result<Pool> {
    let mut spec = small("demo");
    spec.provider = Some(Provider {
        static_: Some(Static {
            selector: HostSelector {
                match_labels: [("site".to_owned(), site.to_owned())].into(),
                ..HostSelector::default()
            },
        }),
        ..Provider::default()
    });
    Pool::create(tenant, site, spec).await
}

/// By which address each node is known: one of its own in the overlay.
async fn addresses(tenant: &Tenant) -> Result<BTreeMap<String, String>> {
    let nodes = Api::<Node>::all(tenant.admin(PATIENCE).await?);
    let nodes = nodes.list(&ListParams::default()).await?;
    let range: IpNet = RANGE.parse()?;
    let mut all = BTreeMap::new();
    for node in &nodes {
        let status = node.status.as_ref();
        let said = status.and_then(|status| status.addresses.as_deref());
        let said = said.unwrap_or_default();
        let mut internal = said.iter().filter(|known| known.type_ == "InternalIP");
        let address = internal.next().context("no InternalIP")?.address.clone();
        ensure!(
            internal.next().is_none() && range.contains(&address.parse::<std::net::IpAddr>()?),
            "{} is known by {said:?}",
            node.name_any()
        );
        all.insert(node.name_any(), address);
    }
    let distinct: BTreeSet<_> = all.values().collect();
    ensure!(distinct.len() == SITES.len(), "{all:?}");
    Ok(all)
}

/// Waits until a machine has a way to this address in the overlay, or none any more.
async fn routes(s: &Scenario, machine: &Machine, address: &str, wanted: bool) -> Result<()> {
    let what = format!("{} has a way to {address}: {wanted}", machine.name);
    ask_until(&what, PATIENCE, || async {
        let said = inside(s, &machine.name, "ip route show dev covey0 || true")?;
        let has = said
            .lines()
            .any(|line| line.split_whitespace().next() == Some(address));
        Ok(match has == wanted {
            true => Ok(()),
            false => Err(said),
        })
    })
    .await
}

/// What the machines say, for messages.
fn logs(s: &Scenario, machines: &[Machine]) -> String {
    let said = machines.iter().map(|machine| {
        let tail = "tail -v -n 30 /var/log/kubelet.log; ip addr; ip route; \
                    tail -v -n 30 /var/log/pods/kube-system_covey-overlay-*/*/*.log";
        let said = inside(s, &machine.name, tail);
        let said = said.unwrap_or_else(|error| format!("{error:#}"));
        format!("--- {}\n{said}\n", machine.name)
    });
    said.collect()
}
