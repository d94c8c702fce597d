//! Needs: operator, host
//!
//! Machines that are reached by SSH become nodes of a tenant cluster and are given back: one behind the NAT of
//! its site, through the site's jump host, and one that is reached directly.
//!
//! `cargo test --workspace --test hosts` with the lab up and the operator in it; a minute or two, at native speed,
//! and without KubeVirt, too.
//! Invariant: what a machine was before its first node it is again after each, by its own word and not Covey's.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use api::{
    ConditionType, Host, condition,
    host::HostPhase,
    names,
    node_pool::{Provider, Static},
};
use futures::future::try_join;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
    runtime::watcher::Config,
};
use serde_json::json;
use suites::{
    cluster::{
        Pool, Tenant,
        pool::{remains, small},
        wait::{wait_gone, wait_list},
    },
    scenario::{
        self, PATIENCE, Scenario,
        kubectl::Kubectl,
        lab_hosts::{LabHosts, difference, inside, state_of},
        workers::PODS,
        workload::{Workload, list},
    },
};

#[path = "hosts/lost.rs"]
mod lost;
#[path = "hosts/overlay.rs"]
mod overlay;
#[path = "hosts/rotation.rs"]
mod rotation;

#[tokio::test]
async fn machines_reached_by_ssh_become_nodes_that_run_pods_and_are_given_back_clean() {
    let mut machines = LabHosts::default();
    scenario::run("hosts", async |s| hosts(s, &mut machines).await).await;
    machines.end().unwrap();
}

/// Of a Host that a Machine has, until it is to be reset.
const TAKEN: &[HostPhase] = &[HostPhase::Claimed, HostPhase::Joining, HostPhase::Joined];

/// A tenant cluster, its pool, and the machines that there are, each with how it looked before.
struct Site<'a> {
    s: &'a Scenario,
    tenant: Tenant,
    kubectl: Kubectl,
    hosts: Api<Host>,
    before: BTreeMap<String, Vec<String>>,
}

async fn hosts(s: &Scenario, machines: &mut LabHosts) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    let edge = machines.add(s, "edge", &["--site", "edge"]).await?;
    let rack = machines.add(s, "rack", &[]).await?;
    let mut before = BTreeMap::new();
    let mut objects = Vec::new();
    for host in [edge, rack] {
        before.insert(host.name.clone(), state_of(s, &host.name)?);
        objects.extend(host.objects);
    }
    tenant.usable(PATIENCE).await?;
    let site = Site {
        s,
        kubectl: Kubectl::of(s, &tenant).await?,
        hosts: Api::namespaced(s.client().clone(), &s.namespace),
        tenant,
        before,
    };
    let manifest = s.file("hosts.json", &list(&objects))?;
    let manifest = manifest.to_str().context("a path that is no text")?;
    s.manage(&["apply", "-f", manifest]).await?;
    let life = life(&site).await;
    life.map_err(|error| error.context(site.logs()))
}

async fn life(site: &Site<'_>) -> Result<()> {
    site.all_are_free("after the first look").await?;
    let mut spec = small("demo");
    spec.provider = Some(Provider {
        static_: Some(Static::default()),
        ..Provider::default()
    });
    let pool = Pool::create(&site.tenant, "hosts", spec).await?;
    site.grows_to(&pool, 1).await?;
    site.tenant.settled(PODS).await?;
    site.nodes_are_the_machines(&pool).await?;
    site.pods_answer(1).await?;
    site.names_are_found().await?;

    pool.patch(json!({ "replicas": 2 })).await?;
    site.grows_to(&pool, 2).await?;
    site.tenant.settled(PODS).await?;
    site.nodes_are_the_machines(&pool).await?;
    site.pods_answer(2).await?;

    let begun = Instant::now();
    pool.patch(json!({ "replicas": 0 })).await?;
    site.is_given_back(begun).await?;
    site.all_are_free("after its node").await?;
    pool.settled(0, PATIENCE).await?;
    let nodes: Api<Node> = Api::all(site.tenant.admin(PATIENCE).await?);
    let none = |all: &BTreeMap<String, Node>| all.is_empty().then_some(());
    wait_list(&nodes, Config::default(), "no node is left", PATIENCE, none).await?;

    // A machine that was a node becomes the next one, and is there when the tenant cluster goes.
    pool.patch(json!({ "replicas": 1 })).await?;
    site.grows_to(&pool, 1).await?;
    site.nothing_is_left(&pool).await
}

impl Site<'_> {
    /// Waits until nobody has a machine, all are known to be clean, and each looks as it did before the first node.
    async fn all_are_free(&self, when: &str) -> Result<()> {
        let count = self.before.len();
        let what = "all Hosts are Available and Clean";
        wait_list(&self.hosts, Config::default(), what, PATIENCE, |all| {
            (all.len() == count && all.values().all(is_free)).then_some(())
        })
        .await?;
        self.look_as_they_did(when)
    }

    /// By the word of the machines themselves.
    fn look_as_they_did(&self, when: &str) -> Result<()> {
        for (name, before) in &self.before {
            let differs = difference(before, &state_of(self.s, name)?);
            ensure!(
                differs.is_empty(),
                "{name} is said to be clean {when}, but {differs:#?}"
            );
        }
        Ok(())
    }

    /// Waits until so many nodes are ready; says how long that took from the claim on.
    async fn grows_to(&self, pool: &Pool, count: i32) -> Result<()> {
        let wanted = usize::try_from(count)?;
        let begun = Instant::now();
        let have = |phases: &'static [HostPhase]| {
            let what = format!("{count} Hosts are in {phases:?}");
            async move {
                wait_list(&self.hosts, Config::default(), &what, PATIENCE, |all| {
                    let there = all.values().filter(|host| phases.contains(&phase(host)));
                    (there.count() >= wanted).then(|| begun.elapsed())
                })
                .await
            }
        };
        let steps = try_join(have(TAKEN), have(&[HostPhase::Joined]));
        let ready = async {
            pool.settled(count, PATIENCE).await?;
            anyhow::Ok(begun.elapsed())
        };
        let ((claimed, joined), ready) = try_join(steps, ready).await?;
        let from = |end: Duration| end.saturating_sub(claimed);
        eprintln!(
            "{count} nodes: claim after {claimed:.1?}; from then on joined after {:.1?}, Machine Ready after {:.1?}",
            from(joined),
            from(ready)
        );
        Ok(())
    }

    /// Every Machine has a Host and a node of its own, which agree.
    async fn nodes_are_the_machines(&self, pool: &Pool) -> Result<()> {
        let admin = self.tenant.admin(PATIENCE).await?;
        let nodes = Api::<Node>::all(admin).list(&ListParams::default()).await?;
        let hosts = self.hosts.list(&ListParams::default()).await?;
        let machines = pool.list().await?;
        ensure!(nodes.items.len() == machines.len(), "{nodes:?}");
        for (name, machine) in machines {
            let has = |host: &&Host| claimed_by(host) == Some(&name);
            let host = hosts.iter().find(has).context("no Host has its claim")?;
            let host_name = host.metadata.name.as_deref().unwrap_or_default();
            let node = nodes
                .iter()
                .find(|node| node.metadata.name.as_ref() == Some(&name));
            let node = node.with_context(|| format!("{name} is no node"))?;
            let id = names::static_provider_id(host_name, &name);
            let of_node = node
                .spec
                .as_ref()
                .and_then(|spec| spec.provider_id.as_ref());
            let status = machine.status.unwrap_or_default();
            ensure!(
                of_node == Some(&id) && status.provider_id.as_ref() == Some(&id),
                "{id} wanted, the node has {of_node:?}, the Machine {:?}",
                status.provider_id
            );
            let addresses = node
                .status
                .iter()
                .flat_map(|status| status.addresses.iter().flatten());
            let addresses: Vec<_> = addresses.map(|found| &found.address).collect();
            ensure!(
                addresses.contains(&&host.spec.address),
                "{host_name} is at {}, its node says {addresses:?}",
                host.spec.address
            );
            let version = node
                .status
                .as_ref()
                .and_then(|status| status.node_info.as_ref());
            let version = version.map(|info| info.kubelet_version.as_str());
            ensure!(
                version == Some(&format!("v{}", machine.spec.version)),
                "{version:?}"
            );
        }
        Ok(())
    }

    /// A pod on each node runs, and answers what kubectl asks by way of konnectivity, at the first try: the cluster
    /// has said that it is ready.
    async fn pods_answer(&self, replicas: i32) -> Result<()> {
        let web = Workload {
            name: "web",
            replicas,
            config_map: None,
            stays: 0,
        };
        for pod in web.deploy(&self.kubectl, PODS).await? {
            let url = "http://127.0.0.1:8080/by-exec";
            let ask = ["exec", &pod, "--", "wget", "-q", "-O", "-", url];
            let said = self.kubectl.run(&ask).await?;
            ensure!(said.trim() == format!("hello from {pod}"), "{said}");
            let log = self.kubectl.run(&["logs", &pod]).await?;
            ensure!(log.contains("GET /by-exec"), "no request in {log}");
        }
        Ok(())
    }

    /// CoreDNS, kube-proxy and flannel work on the machine.
    async fn names_are_found(&self) -> Result<()> {
        self.kubectl.dns_is_there(PODS).await?;
        let url = "http://web.default.svc.cluster.local/by-name";
        let ask = ["exec", "deployment/web", "--", "wget", "-q", "-O", "-", url];
        let said = self.kubectl.run(&ask).await?;
        ensure!(said.starts_with("hello from web-"), "{said}");
        Ok(())
    }

    /// Waits until nobody has a machine, each of which is proven clean by then; says how long that took since `begun`.
    async fn is_given_back(&self, begun: Instant) -> Result<()> {
        let mut resetting = None;
        let what = "no Host has a claim";
        wait_list(&self.hosts, Config::default(), what, PATIENCE, |all| {
            let resets = all.values().any(|host| phase(host) == HostPhase::Resetting);
            if resets {
                resetting.get_or_insert_with(|| begun.elapsed());
            }
            all.values()
                .all(|host| claimed_by(host).is_none())
                .then_some(())
        })
        .await?;
        let resetting = resetting.context("nothing was reset")?;
        eprintln!(
            "given back: reset begun after {resetting:.1?}, drain included; from then on all clean after {:.1?}",
            begun.elapsed().saturating_sub(resetting)
        );
        Ok(())
    }

    /// Deletion of the tenant cluster gives the machines back; pool and Hosts are the user's and stay.
    async fn nothing_is_left(&self, pool: &Pool) -> Result<()> {
        let uids = async || {
            let hosts = self.hosts.list(&ListParams::default()).await?;
            let uid = |host: Host| host.metadata.uid;
            anyhow::Ok(hosts.into_iter().filter_map(uid).collect::<Vec<_>>())
        };
        let were = uids().await?;
        let begun = Instant::now();
        self.tenant.delete().await?;
        self.is_given_back(begun).await?;
        self.look_as_they_did("after its tenant cluster")?;
        self.tenant.gone(PATIENCE).await?;
        let left = remains(&self.tenant).await?;
        ensure!(left.is_empty(), "{left:?} outlived the tenant cluster");
        pool.outlives_its_cluster(PATIENCE).await?;
        pool.delete().await?;
        pool.gone(PATIENCE).await?;
        ensure!(uids().await? == were, "not the Hosts that there were");
        for name in self.before.keys() {
            self.hosts.delete(name, &DeleteParams::default()).await?;
            wait_gone(&self.hosts, name, None, PATIENCE).await?;
        }
        Ok(())
    }

    /// What the machines say, for messages.
    fn logs(&self) -> String {
        let said = self.before.keys().map(|name| {
            let tail = "tail -v -n 30 /var/log/kubelet.log /var/log/containerd.log; ip addr; nft list tables";
            let said = inside(self.s, name, tail);
            let said = said.unwrap_or_else(|error| format!("{error:#}"));
            format!("--- {name}\n{said}\n")
        });
        said.collect()
    }
}

fn phase(host: &Host) -> HostPhase {
    let status = host.status.as_ref();
    status.and_then(|status| status.phase).unwrap_or_default()
}

fn claimed_by(host: &Host) -> Option<&String> {
    let claim = host.status.as_ref()?.claim.as_ref()?;
    Some(&claim.machine_name)
}

fn is_free(host: &Host) -> bool {
    let is = |type_| {
        let status = host.status.as_ref();
        status.is_some_and(|status| condition::is_true(&status.conditions, type_))
    };
    phase(host) == HostPhase::Available
        && claimed_by(host).is_none()
        && is(ConditionType::Reachable)
        && is(ConditionType::Verified)
        && is(ConditionType::Clean)
}
