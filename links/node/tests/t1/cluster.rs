//! A tenant cluster's API with nodes and members, and the program on each node.
//!
//! Invariant: a node's program has the rights of its addon and no more, and reaches the API at an address of
//! its own namespace.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use anyhow::Result;
use api::names;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::ManagementApi;
use testkit::process::{Process, Workdir};
use testkit::waiting::{PATIENCE, ask_until};
use tokio::task::JoinHandle;

use crate::access;
use crate::sites::{NODES, Sites};

/// Everything.
pub(crate) struct Cluster {
    // Order matters: programs end before their networks go.
    programs: BTreeMap<&'static str, Process>,
    ways: BTreeMap<&'static str, JoinHandle<()>>,
    pub(crate) sites: Sites,
    pub(crate) client: Client,
    dir: Workdir,
    port: u16,
    tokens: BTreeMap<&'static str, String>,
    pub(crate) api: ManagementApi,
}

/// Address in the overlay.
pub(crate) fn address(node: &str) -> Ipv4Addr {
    Ipv4Addr::new(10, 200, 0, number(node))
}

/// A pod's address.
pub(crate) fn pod(node: &str) -> Ipv4Addr {
    Ipv4Addr::new(10, 128, number(node), 1)
}

fn number(node: &str) -> u8 {
    let place = NODES.iter().position(|name| *name == node).unwrap();
    u8::try_from(place).unwrap() + 1
}

fn member(node: &str) -> Value {
    let (site, endpoint) = match node {
        "a1" => ("home", Some("203.0.113.10:51820")),
        "a2" => ("home", None),
        "b1" => ("branch", None),
        _ => ("cloud", Some("203.0.113.30:51820")),
    };
    json!({ "address": address(node), "site": site, "endpoint": endpoint })
}

impl Cluster {
    /// All nodes and members, and no program yet. Nothing where it cannot be.
    pub(crate) async fn new() -> Result<Option<Self>> {
        let (Some(sites), Some(api)) = (Sites::new(), ManagementApi::alone().await?) else {
            return Ok(None);
        };
        let client = api.admin()?;
        access::lay(&client).await?;
        for node in NODES {
            let range = format!("10.128.{}.0/24", number(node));
            let object = json!({
                "metadata": { "name": node },
                "spec": { "podCIDR": range, "podCIDRs": [range] },
            });
            create::<Node>(&client, object).await?;
        }
        let mut tokens = BTreeMap::new();
        for node in NODES {
            tokens.insert(node, access::token(&client, node).await?);
        }
        let port = api.url().rsplit(':').next().unwrap().parse()?;
        let cluster = Self {
            programs: BTreeMap::new(),
            ways: BTreeMap::new(),
            sites,
            client,
            dir: Workdir::new()?,
            port,
            tokens,
            api,
        };
        cluster.set_members(&NODES).await?;
        Ok(Some(cluster))
    }

    /// Makes these the members.
    pub(crate) async fn set_members(&self, nodes: &[&str]) -> Result<()> {
        let data: BTreeMap<_, _> = nodes
            .iter()
            .map(|node| (*node, member(node).to_string()))
            .collect();
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": names::OVERLAY_MEMBERS },
            "data": data,
        });
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), "kube-system");
        let params = PatchParams::apply("operator").force();
        maps.patch(names::OVERLAY_MEMBERS, &params, &Patch::Apply(&map))
            .await?;
        Ok(())
    }

    /// Accepts a key for a member, as the operator does.
    pub(crate) async fn accept(&self, node: &str, key: &str) -> Result<()> {
        let mut member = member(node);
        member["publicKey"] = json!(key);
        let patch = json!({ "data": { node: member.to_string() } });
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), "kube-system");
        let params = PatchParams::default();
        maps.patch(names::OVERLAY_MEMBERS, &params, &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    /// The state folder of a node.
    pub(crate) fn folder(&self, node: &str) -> PathBuf {
        self.dir.path().join(node)
    }

    /// Starts the program on a node that reaches the API.
    pub(crate) async fn start(&mut self, node: &'static str) -> Result<()> {
        self.open_way(node).await?;
        self.run(node)
    }

    /// Starts the program on a node, whatever that reaches.
    pub(crate) fn run(&mut self, node: &'static str) -> Result<()> {
        let kubeconfig = access::kubeconfig(&self.api, &self.tokens[node]);
        let kubeconfig = self.dir.write(&format!("{node}.kubeconfig"), &kubeconfig)?;
        let arguments = [
            "netns".to_owned(),
            "exec".to_owned(),
            self.sites.name(node),
            env!("CARGO_BIN_EXE_link-node").to_owned(),
            format!("--node-name={node}"),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--folder={}", self.folder(node).display()),
            "--range=10.200.0.0/24".to_owned(),
            "--pods=10.128.0.0/18".to_owned(),
            "--pods-prefix=24".to_owned(),
            "--pod-traffic=direct".to_owned(),
            "--admin-address=127.0.0.1:8080".to_owned(),
            "--log-format=text".to_owned(),
            "--log-filter=info,boringtun=off".to_owned(),
        ];
        let log = self.dir.path().join(format!("{node}.log"));
        let program = Process::spawn(node, Path::new("ip"), &arguments, &log)?;
        self.programs.insert(node, program);
        Ok(())
    }

    /// Kills the program of a node.
    pub(crate) fn kill(&mut self, node: &str) {
        self.programs.remove(node);
    }

    /// Lets a node reach the API at the address of its kubeconfig.
    pub(crate) async fn open_way(&mut self, node: &'static str) -> Result<()> {
        let local = SocketAddr::from(([127, 0, 0, 1], self.port));
        self.close_way(node).await;
        let listener = self.sites.within(node, || TcpListener::bind(local))?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let way = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                connections.spawn(async move {
                    if let Ok(mut far) = tokio::net::TcpStream::connect(local).await {
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        });
        self.ways.insert(node, way);
        Ok(())
    }

    /// Takes the API away from a node.
    pub(crate) async fn close_way(&mut self, node: &str) {
        if let Some(way) = self.ways.remove(node) {
            way.abort();
            // Its listener is closed once it has ended.
            let _ = way.await;
        }
    }

    /// What a node's program shows.
    pub(crate) fn state(&self, node: &str) -> Result<Value, String> {
        let read = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect("127.0.0.1:8080")?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"GET /state HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        let text = self.sites.within(node, read).map_err(|e| e.to_string())?;
        let body = text.find("\r\n\r\n").map(|at| &text[at..]);
        let state: Value = serde_json::from_str(body.unwrap_or_default().trim())
            .map_err(|error| format!("{error} in {text}"))?;
        Ok(state["overlay"].clone())
    }

    /// Waits until what a node shows is as wanted.
    pub(crate) async fn until(
        &self,
        node: &str,
        wanted: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let ask = || async {
            Ok(match self.state(node) {
                Ok(state) if holds(&state) => Ok(state),
                Ok(state) => Err(format!("{state:#}\n{}", self.log(node))),
                Err(error) => Err(format!("{error}\n{}", self.log(node))),
            })
        };
        ask_until(&format!("{node}: {wanted}"), PATIENCE, ask).await
    }

    /// Waits until each of these nodes has a tunnel to the others that it can have one to, and a session where
    /// it begins.
    pub(crate) async fn until_connected(&self, nodes: &[&str]) -> Result<()> {
        for node in nodes {
            let wanted: Vec<_> = nodes.iter().filter(|other| *other != node).collect();
            self.until(node, &format!("has tunnels to {wanted:?}"), |state| {
                let peers = state["peers"].as_array().into_iter().flatten();
                let all: Vec<_> = peers.filter_map(|peer| peer["node"].as_str()).collect();
                all.len() == wanted.len()
                    && wanted.iter().all(|other| all.contains(*other))
                    && state["address"].is_string()
            })
            .await?;
        }
        Ok(())
    }

    fn log(&self, node: &str) -> String {
        let log = self.dir.path().join(format!("{node}.log"));
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }
}

/// Names of the peers that a node shows.
pub(crate) fn peers(state: &Value) -> Vec<String> {
    let peers = state["peers"].as_array().into_iter().flatten();
    let mut names: Vec<_> = peers
        .filter_map(|peer| peer["node"].as_str().map(str::to_owned))
        .collect();
    names.sort();
    names
}

async fn create<K>(client: &Client, object: Value) -> Result<()>
where
    K: kube::Resource<DynamicType = ()> + Clone + serde::Serialize + serde::de::DeserializeOwned,
    K: std::fmt::Debug,
{
    let object = serde_json::from_value::<K>(object)?;
    let params = PostParams::default();
    Api::<K>::all(client.clone())
        .create(&params, &object)
        .await?;
    Ok(())
}
