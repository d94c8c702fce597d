//! Kubelets are told of a rotation in place: by the operator on a real management API, in a stand-in of the tenant cluster
//! whose nodes the test plays: what a pod there does, what the kubelet asks, and what is signed.
//!
//! Invariant: a node plays only what is there: it asks with a token that stands in the Secret of its pod and is valid; and
//! there is never more than one pod.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::tenant_cluster::{RotationPhase, RotationStatus};
use api::{Machine, TenantCluster};
use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use kit_objects::kinds;
use kube::ResourceExt as _;
use pki::{Key, KeyPair, Want};
use serde_json::{Value, json};
use testkit::FaultPlan;
use testkit::certs;
use testkit::faults::Deaths;
use testkit::waiting::ask_until;

use crate::crash::{Writes, dies, for_deaths};
use crate::support::kubevirt::KubeVirt;
use crate::support::site::tenant_namespace;
use crate::support::{Launch, Operator, PATIENCE, Site};

const IN_SYSTEM: &str = "/api/v1/namespaces/kube-system/";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/";
/// How often a node is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What nodes do whose pods run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Nodes {
    /// Each asks once, and its pod ends well.
    Ask,
    /// Their pods fail.
    Fail,
}

/// A tenant cluster with a pool that is ready.
struct Stage {
    site: Site,
    cluster: TenantCluster,
    ns: String,
    /// Names of requests, by the UID of the pod that they are of.
    asked: Mutex<BTreeMap<String, String>>,
    _kubevirt: KubeVirt,
}

fn start(site: &Site) -> Result<Operator> {
    let plan = FaultPlan::none();
    // What it writes inside the tenant cluster counts too.
    site.tenants.obey(Some(&plan));
    Launch::new(site)?.plan(&plan).start(site)
}

impl Stage {
    async fn new(prefix: &str, replicas: i32) -> Result<Option<(Self, Operator)>> {
        let Some(site) = Site::new(prefix).await? else {
            return Ok(None);
        };
        let kubevirt = KubeVirt::start(&site);
        let operator = start(&site)?;
        site.create("demo").await?;
        let cluster = site.wait_ready("demo").await?;
        site.create_pool("workers", replicas).await?;
        site.wait_pool_ready("workers").await?;
        let stage = Self {
            ns: tenant_namespace(&cluster),
            site,
            cluster,
            asked: Mutex::default(),
            _kubevirt: kubevirt,
        };
        Ok(Some((stage, operator)))
    }

    /// Asks for a generation.
    async fn turn(&self, generation: u32, nodes: &str) -> Result<()> {
        let turn = json!({ "generation": generation, "nodes": nodes });
        let change = json!({ "spec": { "rotation": { "clientCA": turn } } });
        self.site.change("demo", &change).await.map(drop)
    }

    async fn wait_phase(&self, generation: u32, phase: RotationPhase) -> Result<()> {
        let is = |cluster: &TenantCluster| {
            told(cluster).is_some_and(|told| told.signs == generation && told.phase == phase)
        };
        self.site.wait("demo", is).await.map(drop)
    }

    async fn machines(&self) -> Result<Vec<Machine>> {
        self.site.machines_of("workers").await
    }

    fn pods(&self) -> Vec<String> {
        let mut paths = self.site.tenants.paths(&self.ns);
        paths.retain(|path| path.starts_with(&format!("{IN_SYSTEM}pods/covey-renew-")));
        paths
    }

    /// Nothing of a try is left inside.
    fn is_clean(&self) -> Result<()> {
        let mut left = self.site.tenants.paths(&self.ns);
        left.retain(|path| path.contains("covey-renew-") || path.contains("bootstrap-token-"));
        ensure!(left.is_empty(), "{left:?} are left");
        Ok(())
    }

    /// Plays the nodes for as long as it is polled.
    async fn play(&self, nodes: Nodes) -> Result<()> {
        let mut looks = tokio::time::interval(LOOK);
        loop {
            looks.tick().await;
            let pods = self.pods();
            ensure!(pods.len() <= 1, "{pods:?} at once");
            for path in pods {
                self.step(&path, nodes).await?;
            }
        }
    }

    /// What the node of this pod does next.
    async fn step(&self, path: &str, nodes: Nodes) -> Result<()> {
        let tenants = &self.site.tenants;
        let Some(pod) = tenants.object(&self.ns, path) else {
            return Ok(());
        };
        if pod["status"]["phase"].is_string() {
            return Ok(());
        }
        let ends = |phase: &str| {
            tenants.change(
                &self.ns,
                path,
                &json!({ "status": { "phase": phase, "message": "as the test says" } }),
            );
        };
        if nodes == Nodes::Fail {
            ends("Failed");
            return Ok(());
        }
        let uid = pod["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let node = pod["spec"]["nodeName"].as_str().context("no nodeName")?;
        let asked = self.asked().get(&uid).cloned();
        let Some(name) = asked else {
            let name = format!("node-csr-{}", self.asked().len());
            if self.ask(path, node, &name)? {
                self.asked().insert(uid, name);
            }
            return Ok(());
        };
        let request = format!("{REQUESTS}{name}");
        let found = tenants.object(&self.ns, &request).unwrap_or_default();
        if found["status"]["conditions"][0]["type"] == "Approved" {
            let signed = self.sign(&found).await?;
            let status = json!({ "status": { "certificate": ByteString(signed.into_bytes()) } });
            tenants.change(&self.ns, &request, &status);
            ends("Succeeded");
        }
        Ok(())
    }

    fn asked(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kubelet asks with the token of its pod's Secret; false where that was taken back, and nobody is let in with it.
    fn ask(&self, pod: &str, node: &str, name: &str) -> Result<bool> {
        let tenants = &self.site.tenants;
        let secret = pod.replace("/pods/", "/secrets/");
        let secret = tenants
            .object(&self.ns, &secret)
            .context("the pod has no Secret")?;
        let token = text(&secret["data"]["token"])?;
        ensure!(text(&secret["data"]["ca.crt"])?.contains("BEGIN CERTIFICATE"));
        let (id, half) = token.split_once('.').context("no token")?;
        let valid = tenants.object(
            &self.ns,
            &format!("{IN_SYSTEM}secrets/bootstrap-token-{id}"),
        );
        let Some(valid) = valid else {
            return Ok(false);
        };
        ensure!(
            text(&valid["data"]["token-secret"])? == half,
            "another token is valid"
        );
        let pem = certs::request(&format!("system:node:{node}"), "system:nodes", &[])?;
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": { "name": name },
            "spec": {
                "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "username": format!("system:bootstrap:{id}"),
                "groups": ["system:bootstrappers", "system:authenticated"],
                "usages": ["digital signature", "client auth"],
                "request": ByteString(pem.into_bytes()),
            },
        });
        ensure!(tenants.put(&self.ns, &format!("{REQUESTS}{name}"), &request));
        Ok(true)
    }

    /// As the kube-controller-manager: by the generation that signs.
    async fn sign(&self, request: &Value) -> Result<String> {
        let cluster = self.site.clusters().get("demo").await?;
        let signs = told(&cluster).map_or(1, |told| told.signs);
        let authority = tenant_cp::generations::authority_name("client-ca", signs);
        let secrets = self.site.objects(kinds::SECRET, &self.ns);
        let secret = secrets.get(&authority).await?;
        let file = |ending: &str| text(&secret.data["data"][format!("ca.{ending}")]);
        let signer = KeyPair {
            certificate: file("crt")?,
            key: Key::new(file("key")?),
        };
        let pem = text(&request["spec"]["request"])?;
        let read = pki::request::read(pem.as_bytes()).context("no request")?;
        let now = Timestamp::now();
        let want = Want::client("kubelet", &authority, &read.common_names[0], 1);
        let until = now.saturating_add(SignedDuration::from_hours(1))?;
        Ok(pki::issue::sign(
            &want,
            &read.public_key,
            &signer,
            until,
            now,
        )?)
    }
}

fn text(value: &Value) -> Result<String> {
    let value = value.as_str().context("no text")?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(value)?;
    Ok(String::from_utf8(bytes)?)
}

fn told(cluster: &TenantCluster) -> Option<&RotationStatus> {
    let told = cluster.status.as_ref()?.rotation.iter();
    told.into_iter().find(|told| told.name == "clientCA")
}

/// Both at once, until the first ends.
async fn beside<T>(
    played: Pin<Box<impl Future<Output = Result<()>>>>,
    work: Pin<Box<impl Future<Output = Result<T>>>>,
) -> Result<T> {
    tokio::select! {
        played = played => match played {
            Ok(()) => anyhow::bail!("nobody plays the nodes any more"),
            Err(error) => Err(error),
        },
        done = work => done,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubelets_are_told_one_after_the_other_and_the_old_authority_is_dropped() -> Result<()> {
    let Some((stage, operator)) = Stage::new("renewal", 2).await? else {
        return Ok(());
    };
    let before: Vec<_> = stage.machines().await?.iter().map(|it| it.uid()).collect();
    stage.turn(2, "InPlace").await?;
    let over = stage.wait_phase(2, RotationPhase::Idle);
    beside(Box::pin(stage.play(Nodes::Ask)), Box::pin(over)).await?;
    stage.is_clean()?;
    let machines = stage.machines().await?;
    let after: Vec<_> = machines.iter().map(|it| it.uid()).collect();
    ensure!(before == after, "machines were replaced");
    for machine in &machines {
        let status = machine.status.clone().unwrap_or_default();
        ensure!(
            status.renewed.is_some() && status.renewal.is_none(),
            "{status:?}"
        );
    }
    stage
        .site
        .wait_event(&machines[0].name_any(), "RenewedInPlace")
        .await?;
    operator.settle_pool(&stage.site, "demo", "workers").await?;
    stage.site.nothing_is_orphaned(&stage.cluster).await
}

/// What comes of the second failure is told in T0: it comes a minute later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_is_said_and_nothing_of_it_is_left() -> Result<()> {
    let Some((stage, _operator)) = Stage::new("renewal-fails", 1).await? else {
        return Ok(());
    };
    let name = stage.machines().await?[0].name_any();
    stage.turn(2, "InPlace").await?;
    let said = stage.site.wait_event(&name, "RenewalFailed");
    beside(Box::pin(stage.play(Nodes::Fail)), Box::pin(said)).await?;
    ask_until("nothing is left", PATIENCE, || async {
        Ok(stage.is_clean().map_err(|left| left.to_string()))
    })
    .await?;
    let status = stage.machines().await?[0]
        .status
        .clone()
        .unwrap_or_default();
    let renewal = status.renewal.context("it is forgotten")?;
    ensure!(
        renewal.failure.is_some() && status.renewed.is_none(),
        "{renewal:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubelet_is_told_and_nothing_is_left_wherever_the_operator_dies() -> Result<()> {
    let Some((stage, operator)) = Stage::new("renewal-crash", 1).await? else {
        return Ok(());
    };
    let hand = crate::crash::Hand::new(operator);
    let generation = std::sync::atomic::AtomicU32::new(1);
    // A turn, a try, token, Secret, pod, the key, the answer, how it ended, three deletions, and that it was told.
    let writes = Writes::at_least(12);
    let deaths = Deaths::asked_for_beside_the_model(4);
    for_deaths(
        deaths,
        "telling a kubelet",
        vec![stage],
        writes,
        async |stage, crash| {
            let operator = hand.take().await?;
            let next = generation.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
            let name = stage.machines().await?[0].name_any();
            stage.turn(next, "Wait").await?;
            stage.wait_phase(next, RotationPhase::Draining).await?;
            operator.plan.arm(crash);
            stage.turn(next, "InPlace").await?;
            let over = dies(&operator, stage.wait_phase(next, RotationPhase::Idle));
            let died = beside(Box::pin(stage.play(Nodes::Ask)), Box::pin(over)).await?;
            drop(operator);
            let operator = start(&stage.site)?;
            let over = stage.wait_phase(next, RotationPhase::Idle);
            beside(Box::pin(stage.play(Nodes::Ask)), Box::pin(over)).await?;
            operator.settle_pool(&stage.site, "demo", "workers").await?;
            stage.is_clean()?;
            let machines = stage.machines().await?;
            ensure!(machines[0].name_any() == name, "the machine was replaced");
            hand.give(operator).await;
            Ok(died)
        },
    )
    .await
}
