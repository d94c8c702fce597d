//! Makes the device, its routes and what this node says of itself what the plan wants, whenever something
//! changed and now and then.
//!
//! Invariants: what is not known leaves the device as it is; what this node says is written only when it is
//! otherwise; one thing that fails holds up nothing but itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::names;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kit_client::backoff::Backoff;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::cache::{self, Cache, Kept};
use crate::device::Device;
use crate::entries::Observed;
use crate::key::PublicKey;
use crate::metrics::{Shown, Snapshot};
use crate::netlink::{Below, Netlink};
use crate::plan::refusal::Refusal;
use crate::plan::{Peer, Plan, change, plan};
use crate::settings::{Settings, This};

/// How often the kernel's routes, the network below and sessions are looked at unasked. The kernel's are
/// anybody's to change.
const LOOK: Duration = Duration::from_secs(10);
/// Between two turns at least. Whoever changes what its Node says again and again makes others look, encrypt and
/// write no more often than this.
const APART: Duration = Duration::from_millis(200);
/// After something failed.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));
/// MTU of a network that does not say, in bytes.
const ETHERNET: u16 = 1500;

/// What does not change while the process runs.
pub struct Overlay {
    /// The API.
    pub client: Client,
    /// What is known.
    pub cache: Arc<Cache>,
    /// The device.
    pub device: Box<dyn Device>,
    /// The kernel.
    pub netlink: Netlink,
    /// Ranges and bounds.
    pub settings: Settings,
    /// Name of this Node.
    pub node: String,
    /// Its key.
    pub key: PublicKey,
    /// The port that tunnels come to.
    pub port: u16,
    /// The network below, where it is not to be asked for.
    pub below: Option<Below>,
    /// Where what is known is kept.
    pub folder: PathBuf,
    /// What is shown.
    pub shown: Shown,
}

/// What the device was told last.
#[derive(Default)]
struct Held {
    /// Whether what the device has from before is known.
    begun: bool,
    peers: BTreeMap<PublicKey, Peer>,
    saved: Kept,
    refused: BTreeMap<String, BTreeSet<Refusal>>,
}

impl Overlay {
    /// Runs until the device carries no packets any more, and says why.
    pub async fn run(self) -> anyhow::Error {
        let broken = self.device.broken();
        tokio::select! {
            error = broken => error,
            () = self.turns() => anyhow::anyhow!("its turns ended"),
        }
    }

    /// One turn after another. Ends never.
    async fn turns(&self) {
        let mut held = Held::default();
        let mut failures = 0;
        loop {
            let wait = match self.turn(&mut held).await {
                Ok(()) => {
                    failures = 0;
                    LOOK
                }
                Err(error) => {
                    let error = kit_client::errors::chain(error.as_ref());
                    tracing::warn!(error, "the overlay is not yet what it should be");
                    failures += 1;
                    BACKOFF.ceiling(failures).min(LOOK)
                }
            };
            tokio::time::sleep(APART).await;
            // Whichever comes first: a change, also one that came meanwhile, or the time to look at the kernel again.
            let _ = tokio::time::timeout(wait, self.cache.changed.notified()).await;
        }
    }

    async fn turn(&self, held: &mut Held) -> Result<()> {
        if !held.begun {
            held.peers = self.device.held().await?;
            held.begun = true;
        }
        let seen = self.cache.seen();
        let below = self.below().await?;
        let this = This {
            name: self.node.clone(),
            key: self.key,
            mtu: below.map_or(ETHERNET, |below| below.mtu),
        };
        // First, because everybody else waits for it.
        let said = self.say(&seen, &this, below).await;
        if let Some(plan) = plan(&this, &self.settings, &seen) {
            self.carry_out(held, &plan).await?;
            let kept = Kept {
                heard: self.heard(&plan).await?,
                observed: seen,
            };
            if held.saved != kept {
                cache::save(&self.folder, &kept)?;
                held.saved = kept;
            }
        }
        said
    }

    /// Where those peers were heard that nobody can dial.
    async fn heard(&self, plan: &Plan) -> Result<BTreeMap<PublicKey, SocketAddr>> {
        let sessions = self.device.sessions().await?;
        let undialled = plan
            .peers
            .iter()
            .filter(|(_, peer)| peer.endpoint.is_none());
        let heard = undialled.filter_map(|(key, _)| Some((*key, sessions.get(key)?.endpoint?)));
        Ok(heard.collect())
    }

    async fn below(&self) -> Result<Option<Below>> {
        match self.below {
            Some(below) => Ok(Some(below)),
            None => self.netlink.below().await,
        }
    }

    async fn carry_out(&self, held: &mut Held, plan: &Plan) -> Result<()> {
        self.told(held, plan);
        let own = plan.pods.iter().copied();
        let own = own.chain(plan.address.map(ipnet::IpNet::from)).collect();
        let steps = change::steps(&held.peers, &plan.peers);
        if !steps.is_empty() {
            tracing::info!(
                peers = plan.peers.len(),
                steps = steps.len(),
                "peers change"
            );
        }
        // Peers before routes: a packet that finds a route finds its peer.
        self.device.carry_out(&steps, own).await?;
        held.peers.clone_from(&plan.peers);
        let (index, mtu) = (self.device.index(), plan.mtu);
        let set = self.netlink.set(index, plan.address, mtu, &plan.routes);
        let set = set.await;
        self.shown.set(Snapshot {
            driver: self.device.driver(),
            plan: plan.clone(),
            sessions: self.device.sessions().await?,
            dropped: self.device.dropped(),
        });
        set
    }

    /// Logs what is refused, once.
    fn told(&self, held: &mut Held, plan: &Plan) {
        if held.refused == plan.refused {
            return;
        }
        for (name, refused) in &plan.refused {
            for refusal in refused {
                let known = held.refused.get(name);
                if known.is_none_or(|known| !known.contains(refusal)) {
                    tracing::warn!(object.name = name, "node {name} is refused: {refusal}");
                }
            }
        }
        held.refused.clone_from(&plan.refused);
    }

    /// Writes key, endpoint and MTU onto this node's Node, where they are not there.
    async fn say(&self, seen: &Observed, this: &This, below: Option<Below>) -> Result<()> {
        let node = seen.nodes.as_ref().and_then(|nodes| nodes.get(&this.name));
        let Some(node) = node else {
            return Ok(());
        };
        let address = below.and_then(|below| below.address);
        let endpoint = address.map(|address| SocketAddr::new(address, self.port));
        let right = node.key == Some(this.key)
            && node.mtu == Some(this.mtu)
            && (endpoint.is_none() || node.endpoint == endpoint);
        if right {
            return Ok(());
        }
        let mut annotations = json!({
            names::ANNOTATION_OVERLAY_KEY: this.key,
            names::ANNOTATION_OVERLAY_MTU: this.mtu.to_string(),
        });
        if let Some(endpoint) = endpoint {
            annotations[names::ANNOTATION_OVERLAY_ENDPOINT] = json!(endpoint.to_string());
        }
        let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
        let nodes = Api::<NodeObject>::all(self.client.clone());
        let params = PatchParams::default();
        let written = nodes.patch_metadata(&this.name, &params, &patch);
        written.await.context("say this node's key and endpoint")?;
        tracing::info!(endpoint = ?endpoint, "this node said its key and endpoint");
        Ok(())
    }
}
